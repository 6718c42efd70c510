#pragma once

// A fault of the cluster. It strikes at once and heals itself after a random time. The world heals
// the rest at the start of the quiet phase. Only a lasting fault is never healed.

#include <span>
#include <string_view>

#include "paceline/base/prng.h"

namespace paceline::sim {

class SimWorld;
struct Options;

// Faults of the last four are drawn by generators of their own, so that they change nothing in
// runs without them.
enum class FaultFamily { kUsual, kTerms, kPlatform, kUser, kMemory };

struct Fault {
  std::string_view name;
  std::string_view sentence;
  void (*strike)(SimWorld&, Prng&);
  bool (*applies)(const Options&) = nullptr;  // null: always
  // True if the fault is never healed. Drawn apart from the others, at most once a run.
  bool lasts = false;
  FaultFamily family = FaultFamily::kUsual;
};

// The list; see faults.cc.
std::span<const Fault> AllFaults();
// Index into AllFaults(); its size if no fault has that name.
size_t FaultIndex(std::string_view name);

}  // namespace paceline::sim

#pragma once

// A way to hurt the cluster. A fault strikes at once and undoes itself after a time that it draws;
// what is still broken when the quiet phase begins is healed by the world. A lasting one is the
// exception.

#include <span>
#include <string_view>

#include "paceline/base/prng.h"

namespace paceline::sim {

class SimWorld;
struct Options;

struct Fault {
  std::string_view name;
  std::string_view sentence;
  void (*strike)(SimWorld&, Prng&);
  bool (*applies)(const Options&) = nullptr;  // null: always
  // Nothing heals it. Drawn apart from the others, at most once a run.
  bool lasts = false;
};

// The list; see faults.cc.
std::span<const Fault> AllFaults();
// Index into AllFaults(), or its size when there is none of that name.
size_t FaultIndex(std::string_view name);

}  // namespace paceline::sim

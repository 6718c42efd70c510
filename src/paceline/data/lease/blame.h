#pragma once

// Records on which ranges workers failed, and which workers. The record is rebuilt from facts. So a
// sample that kills its reader is found even if the ledger's process dies with it, or the data is
// rewound each time.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/data/epoch_order.h"

namespace paceline {

// A process that works on leases. A restarted one has a higher incarnation.
struct WorkerKey {
  uint64_t worker = 0;
  uint64_t incarnation = 0;
  auto operator<=>(const WorkerKey&) const = default;
};

// A range that failed. It is leased again in one piece.
struct Blamed {
  OrdinalRange range;
  std::set<WorkerKey> failed_on = {};
  uint64_t failures = 0;
  bool is_suspect = false;  // then each further failure halves it
  bool operator==(const Blamed&) const = default;

  // A part of it succeeded, so the earlier failures may have been of that part.
  void Forgive() {
    failed_on.clear();
    failures = 0;
  }
  bool is_clear() const { return failures == 0 && !is_suspect; }
};

// Disjoint ranges, ordered by ordinal.
class BlameBook {
 public:
  // Replaces all ranges that it overlaps.
  void Put(Blamed blamed);
  // Removes the finished ordinals, and forgives what is left of the ranges.
  void Done(OrdinalRange done);
  // Removes the range, and every range that it was a part of.
  void Erase(OrdinalRange range);

  std::vector<Blamed> All() const;

 private:
  std::map<uint64_t, Blamed> blamed_;  // by begin
};

// The workers on which it failed and whether it is suspect, as a fact's text: "suspect\n3/17,4/18".
std::string BlameToText(const Blamed& blamed);
// None if the text is malformed.
std::optional<Blamed> BlameFromText(std::string_view text);

}  // namespace paceline

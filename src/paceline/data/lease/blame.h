#pragma once

// Ranges on which workers failed, and on whom: what is known of them as facts fold, so that a
// sample that kills whoever reads it is found also when the ledger's process dies with them, or the
// data is rewound each time.

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

// A range that failed: leased as it is, in one piece.
struct Blamed {
  OrdinalRange range;
  std::set<WorkerKey> failed_on = {};
  uint64_t failures = 0;
  bool is_suspect = false;  // each further failure halves it
  bool operator==(const Blamed&) const = default;

  // Some of it was done: what failed before may have been that.
  void Forgive() {
    failed_on.clear();
    failures = 0;
  }
  bool is_clear() const { return failures == 0 && !is_suspect; }
};

// Disjoint ones, by ordinal.
class BlameBook {
 public:
  // In the place of all that it overlaps.
  void Put(Blamed blamed);
  // That much was done: of what is blamed the rest stays, forgiven.
  void Done(OrdinalRange done);
  // It is out of the question, and so is what it was a part of.
  void Erase(OrdinalRange range);

  std::vector<Blamed> All() const;

 private:
  std::map<uint64_t, Blamed> blamed_;  // by begin
};

// Whom it failed on and whether it is suspect, as a fact's text: "suspect\n3/17,4/18".
std::string BlameToText(const Blamed& blamed);
// Nothing when it is no such text.
std::optional<Blamed> BlameFromText(std::string_view text);

}  // namespace paceline

#pragma once

// Which rank waits for which, from the collectives that ranks have begun and completed.
//
// In each group, a rank waits in a collective that it has begun and not completed. It waits for
// every member that has not begun that collective, or not completed the one before: on a GPU the
// host runs ahead, so "begun" alone does not mean that a rank has come. A root is an awaited rank
// that waits for no rank itself: a sink of the graph. Source: PyTorch's flight recorder analysis,
// and MegaScale (NSDI 2024), which shows who waits for whom.
//
// Time: O(ranks × groups × members).

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "paceline/diagnose/facts.h"

namespace paceline::diagnose {

// A rank's position in one group.
struct Position {
  uint64_t begun = 0;                        // highest sequence number that it began
  uint64_t completed = 0;                    // it and all earlier ones are complete
  const CollectiveSeen* waits_in = nullptr;  // its first collective begun but not completed
};

struct Group {
  std::string name;  // with its members, as ranks report it
  std::vector<uint32_t> members;
  std::map<uint32_t, Position> positions;  // of members that reported
};

struct WaitGraph {
  std::vector<Group> groups;
  std::map<uint32_t, std::set<uint32_t>> awaits;       // rank → the ranks that it waits for
  std::map<uint32_t, const CollectiveSeen*> waits_in;  // rank → the collective; one of several
  std::set<uint32_t> roots;                            // awaited, and waiting for no rank
  std::set<uint32_t> circle;  // ranks that wait for each other, if there is no root
};

// `facts` must outlive the graph.
WaitGraph MakeWaitGraph(const Facts& facts);

// The members in "0 0-3,8": {0, 1, 2, 3, 8}. Empty if the text has none or too many.
std::vector<uint32_t> MembersOf(std::string_view group);

}  // namespace paceline::diagnose

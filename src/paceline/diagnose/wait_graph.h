#pragma once

// Who waits for whom, from the collectives that ranks have begun and completed.
//
// In each group, a rank that has begun a collective and not completed it waits there. It waits for
// every member that has not begun that collective, or not completed the one before it: on a GPU the
// host runs ahead, so "begun" alone does not say that a rank has come. A root is a rank that is
// waited for and waits for nobody who is waited for less: the sinks of the graph. Source: PyTorch's
// flight recorder analysis, and MegaScale (NSDI 2024), which shows who waits for whom.
//
// Times: O(ranks × groups × members).

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "paceline/diagnose/facts.h"

namespace paceline::diagnose {

// Where a rank stands in one group.
struct Position {
  uint64_t begun = 0;                        // the highest sequence that it began
  uint64_t completed = 0;                    // it and all before it are complete
  const CollectiveSeen* waits_in = nullptr;  // the first one that it began and did not complete
};

struct Group {
  std::string name;  // with its members, as ranks tell it
  std::vector<uint32_t> members;
  std::map<uint32_t, Position> positions;  // of the members that told anything
};

struct WaitGraph {
  std::vector<Group> groups;
  std::map<uint32_t, std::set<uint32_t>> awaits;       // rank → those that it waits for
  std::map<uint32_t, const CollectiveSeen*> waits_in;  // rank → the collective; one of several
  std::set<uint32_t> roots;                            // waited for, and waiting for nobody
  std::set<uint32_t> circle;  // ranks that wait for each other, when there is no root
};

// `facts` outlives the graph.
WaitGraph MakeWaitGraph(const Facts& facts);

// The members in "0 0-3,8": {0, 1, 2, 3, 8}. Empty when the text names none or too many.
std::vector<uint32_t> MembersOf(std::string_view group);

}  // namespace paceline::diagnose

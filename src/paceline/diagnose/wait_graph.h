#pragma once

// Which rank waits for which, from the collectives that ranks have begun and completed.
//
// In each group, a rank waits in a collective that it has begun and not completed. It waits for
// every member that has not begun that collective, or not completed the one before: on a GPU the
// host runs ahead, so "begun" alone does not mean that a rank has come. A root is an awaited rank
// that waits for no rank itself: a sink of the graph. Source: PyTorch's flight recorder analysis,
// and MegaScale (NSDI 2024), which shows who waits for whom.
//
// A rank waits for those members of the group that have come least far. So its edges are the first
// few of the group's members in that order, and a count stands for them.
//
// Time and memory: O(members of all groups × log).

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/diagnose/facts.h"

namespace paceline::diagnose {

// A rank's position in one group.
struct Position {
  uint64_t begun = 0;                        // highest sequence number that it began
  uint64_t completed = 0;                    // it and all earlier ones are complete
  const CollectiveSeen* waits_in = nullptr;  // its first collective begun but not completed
};

// One collective that a rank recorded.
struct Call {
  uint32_t rank = 0;
  const CollectiveSeen* seen = nullptr;
};

// How far a member has come: it has begun this collective, and completed the one before.
struct Level {
  uint64_t sequence = 0;
  uint32_t rank = 0;
  auto operator<=>(const Level&) const = default;
};

struct Group {
  std::string name;  // with its members, as ranks report it
  std::vector<uint32_t> members;
  std::vector<Call> calls;                 // by rank, then by sequence number
  std::map<uint32_t, Position> positions;  // of members that reported
  std::vector<Level> levels;               // of members whose ring was read, ascending
};

// A rank waits for the first `awaited` of the levels of a group. At least one.
struct Wait {
  size_t group = 0;  // in WaitGraph::groups
  size_t awaited = 0;
};

struct WaitGraph {
  std::vector<Group> groups;
  std::map<uint32_t, std::vector<Wait>> awaits;        // of the ranks that wait for another one
  std::map<uint32_t, const CollectiveSeen*> waits_in;  // rank → the collective; one of several
  std::set<uint32_t> roots;                            // awaited, and waiting for no rank
  std::set<uint32_t> circle;  // ranks that wait for each other, if there is no root
};

// `facts` must outlive the graph.
WaitGraph MakeWaitGraph(const Facts& facts);

// The ranks for which `rank` waits directly.
std::set<uint32_t> AwaitedBy(const WaitGraph& graph, uint32_t rank);

// The ranks that wait for one of `awaited`, directly or through others; without `awaited`.
std::set<uint32_t> WaitersFor(const WaitGraph& graph, const std::set<uint32_t>& awaited);

// Whether no member can complete the operation before all members have entered it.
bool IsMeeting(std::string_view operation);

// The members in "0 0-3,8": {0, 1, 2, 3, 8}. Empty if the text has none or too many.
std::vector<uint32_t> MembersOf(std::string_view group);

}  // namespace paceline::diagnose

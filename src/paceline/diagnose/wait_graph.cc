#include "paceline/diagnose/wait_graph.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "paceline/base/text.h"

namespace paceline::diagnose {
namespace {

constexpr std::array<std::string_view, 7> kMeetings = {
    "all_reduce",     "barrier",    "all_gather",        "all_gather_into_tensor",
    "reduce_scatter", "all_to_all", "init_process_group"};

constexpr size_t kMembersMax = 65'536;

// The position of one member of a group, from its calls there by sequence number.
Position PositionOf(std::span<const Call> calls) {
  Position position;
  // Older records than those in the ring are complete: the ring has thousands of newer ones.
  position.completed = calls.front().seen->sequence - 1;
  for (const Call& call : calls) {
    position.begun = std::max(position.begun, call.seen->sequence);
    const bool is_next = call.seen->sequence == position.completed + 1;
    if (call.seen->is_complete && is_next) ++position.completed;
  }
  for (const Call& call : calls) {
    const bool is_next = call.seen->sequence == position.completed + 1;
    if (is_next && !call.seen->is_complete) position.waits_in = call.seen;
  }
  return position;
}

// Drops waits that have ended. A member no longer waits in a collective if it has begun another
// phase since, and another member has recorded the collective's end. Its own record of the end may
// be missing, because another thread holds the GIL. A member that is still in the same phase may
// still wait.
void DropEndedWaits(const std::map<uint32_t, Duration>& in_phase, Group* group) {
  uint64_t completed = 0;
  for (const auto& [rank, position] : group->positions) {
    completed = std::max(completed, position.completed);
  }
  for (auto& [rank, position] : group->positions) {
    const bool has_ended =
        position.waits_in != nullptr && position.waits_in->sequence <= completed &&
        in_phase.at(rank) < position.waits_in->age && IsMeeting(position.waits_in->operation);
    if (has_ended) position.waits_in = nullptr;
  }
}

// The groups that ranks recorded, by name, each with its calls.
std::map<std::string_view, Group> CallsByGroup(const Facts& facts) {
  std::map<std::string_view, Group> groups;
  for (const RankFacts& rank : facts.ranks) {
    for (const CollectiveSeen& one : rank.evidence.collectives) {
      groups[one.group].calls.push_back({rank.evidence.rank.value(), &one});
    }
  }
  for (auto& [name, group] : groups) {
    std::sort(group.calls.begin(), group.calls.end(), [](const Call& a, const Call& b) {
      return std::pair(a.rank, a.seen->sequence) < std::pair(b.rank, b.seen->sequence);
    });
  }
  return groups;
}

void AddPositions(Group* group) {
  for (auto first = group->calls.begin(); first != group->calls.end();) {
    const auto last = std::find_if(first, group->calls.end(),
                                   [first](const Call& call) { return call.rank != first->rank; });
    group->positions[first->rank] = PositionOf({first, last});
    first = last;
  }
}

// Levels of the known members, those that have come least far first.
void AddLevels(const std::set<uint32_t>& known, Group* group) {
  for (const uint32_t member : group->members) {
    if (!known.contains(member)) continue;
    const auto found = group->positions.find(member);
    const Position at = found == group->positions.end() ? Position{} : found->second;
    group->levels.push_back({std::min(at.begun, at.completed + 1), member});
  }
  std::sort(group->levels.begin(), group->levels.end());
}

std::vector<Group> GroupsOf(const Facts& facts) {
  std::map<uint32_t, Duration> in_phase;
  std::set<uint32_t> known;
  for (const RankFacts& rank : facts.ranks) {
    in_phase[rank.evidence.rank.value()] = rank.evidence.in_phase;
    if (rank.evidence.has_ring) known.insert(rank.evidence.rank.value());
  }
  std::vector<Group> list;
  for (auto& [name, group] : CallsByGroup(facts)) {
    group.name = name;
    group.members = MembersOf(name);
    AddPositions(&group);
    // The text names no members: the ranks that reported the group are its members.
    if (group.members.empty()) {
      for (const auto& [rank, position] : group.positions) group.members.push_back(rank);
    }
    DropEndedWaits(in_phase, &group);
    AddLevels(known, &group);
    list.push_back(std::move(group));
  }
  return list;
}

void AddWaits(size_t index, WaitGraph* graph) {
  const Group& group = graph->groups[index];
  for (const auto& [rank, position] : group.positions) {
    if (position.waits_in == nullptr) continue;
    const auto come = std::lower_bound(group.levels.begin(), group.levels.end(),
                                       Level{.sequence = position.waits_in->sequence, .rank = 0});
    const auto awaited = static_cast<size_t>(come - group.levels.begin());
    // A wait for another rank comes before one in a collective that all have entered.
    if (awaited == 0) {
      graph->waits_in.emplace(rank, position.waits_in);
    } else {
      graph->awaits[rank].push_back({.group = index, .awaited = awaited});
      graph->waits_in[rank] = position.waits_in;
    }
  }
}

// The ranks for which one of `waiters` waits directly.
std::set<uint32_t> AwaitedByAny(const WaitGraph& graph, const std::set<uint32_t>& waiters) {
  std::vector<size_t> counts(graph.groups.size());
  for (const uint32_t rank : waiters) {
    const auto found = graph.awaits.find(rank);
    if (found == graph.awaits.end()) continue;
    for (const Wait& wait : found->second) {
      counts[wait.group] = std::max(counts[wait.group], wait.awaited);
    }
  }
  std::set<uint32_t> awaited;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (size_t k = 0; k < counts[i]; ++k) awaited.insert(graph.groups[i].levels[k].rank);
  }
  return awaited;
}

std::set<uint32_t> WaitersOf(const WaitGraph& graph) {
  std::set<uint32_t> waiters;
  for (const auto& [rank, waits] : graph.awaits) waiters.insert(rank);
  return waiters;
}

// The awaited ranks that wait for each other in a circle; no rank outside delays them.
std::set<uint32_t> CircleOf(const WaitGraph& graph) {
  std::set<uint32_t> left = WaitersOf(graph);
  // Repeatedly removes ranks that no remaining rank waits for. The rest is on circles or between
  // them.
  bool is_smaller = true;
  while (is_smaller) {
    const std::set<uint32_t> awaited = AwaitedByAny(graph, left);
    const size_t before = left.size();
    std::erase_if(left, [&awaited](uint32_t rank) { return !awaited.contains(rank); });
    is_smaller = left.size() < before;
  }
  return left;
}

// For each group the lowest place in its levels that an added rank has.
class LowestPlaces {
 public:
  explicit LowestPlaces(const WaitGraph& graph) : lowest_(graph.groups.size(), SIZE_MAX) {
    for (size_t i = 0; i < graph.groups.size(); ++i) {
      const std::vector<Level>& levels = graph.groups[i].levels;
      for (size_t k = 0; k < levels.size(); ++k) places_[levels[k].rank].emplace_back(i, k);
    }
  }

  void Add(uint32_t rank) {
    const auto found = places_.find(rank);
    if (found == places_.end()) return;
    for (const auto& [group, place] : found->second) {
      lowest_[group] = std::min(lowest_[group], place);
    }
  }

  bool IsAwaited(const std::vector<Wait>& waits) const {
    return std::any_of(waits.begin(), waits.end(),
                       [this](const Wait& wait) { return lowest_[wait.group] < wait.awaited; });
  }

 private:
  std::vector<size_t> lowest_;
  std::map<uint32_t, std::vector<std::pair<size_t, size_t>>> places_;  // (group, place)
};

}  // namespace

bool IsMeeting(std::string_view operation) {
  return std::find(kMeetings.begin(), kMeetings.end(), operation) != kMeetings.end();
}

std::vector<uint32_t> MembersOf(std::string_view group) {
  std::vector<uint32_t> members;
  const size_t space = group.rfind(' ');
  if (space == std::string_view::npos) return members;
  for (const std::string_view run : SplitParts(group.substr(space + 1), ",")) {
    const size_t dash = run.find('-');
    const auto first = ParseWhole<uint32_t>(run.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : ParseWhole<uint32_t>(run.substr(dash + 1));
    const bool is_run = first.has_value() && last.has_value() && *first <= *last &&
                        *last - *first + members.size() < kMembersMax;
    if (!is_run) return {};
    for (uint32_t rank = *first; rank <= *last; ++rank) members.push_back(rank);
  }
  return members;
}

WaitGraph MakeWaitGraph(const Facts& facts) {
  WaitGraph graph;
  graph.groups = GroupsOf(facts);
  for (size_t i = 0; i < graph.groups.size(); ++i) AddWaits(i, &graph);
  for (const uint32_t awaited : AwaitedByAny(graph, WaitersOf(graph))) {
    if (!graph.awaits.contains(awaited)) graph.roots.insert(awaited);
  }
  if (graph.roots.empty()) graph.circle = CircleOf(graph);
  return graph;
}

std::set<uint32_t> AwaitedBy(const WaitGraph& graph, uint32_t rank) {
  return AwaitedByAny(graph, {rank});
}

std::set<uint32_t> WaitersFor(const WaitGraph& graph, const std::set<uint32_t>& awaited) {
  LowestPlaces reached(graph);
  for (const uint32_t rank : awaited) reached.Add(rank);
  std::set<uint32_t> waiters;
  bool is_larger = true;
  while (is_larger) {
    is_larger = false;
    for (const auto& [rank, waits] : graph.awaits) {
      if (waiters.contains(rank) || awaited.contains(rank) || !reached.IsAwaited(waits)) continue;
      waiters.insert(rank);
      reached.Add(rank);
      is_larger = true;
    }
  }
  return waiters;
}

}  // namespace paceline::diagnose

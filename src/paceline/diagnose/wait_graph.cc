#include "paceline/diagnose/wait_graph.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "paceline/base/text.h"

namespace paceline::diagnose {
namespace {

constexpr size_t kMembersMax = 65'536;

Position PositionOf(const std::vector<const CollectiveSeen*>& seen) {
  Position position;
  // Older records than those in the ring are complete: the ring has thousands of newer ones.
  position.completed = seen.front()->sequence - 1;
  for (const CollectiveSeen* one : seen) {
    position.begun = std::max(position.begun, one->sequence);
    if (one->is_complete && one->sequence == position.completed + 1) ++position.completed;
  }
  for (const CollectiveSeen* one : seen) {
    if (one->sequence == position.completed + 1 && !one->is_complete) position.waits_in = one;
  }
  return position;
}

// Operations that no member can complete before all have entered.
constexpr std::array<std::string_view, 7> kMeetings = {
    "all_reduce",     "barrier",    "all_gather",        "all_gather_into_tensor",
    "reduce_scatter", "all_to_all", "init_process_group"};

// Drops waits that have ended. A member does not wait in a collective if it has turned to another
// phase since, and another member has recorded the collective's end. Its own end may be unrecorded,
// because a thread holds the GIL. A member in the same phase may still be in it.
void DropEndedWaits(const std::map<uint32_t, Duration>& in_phase, Group* group) {
  uint64_t completed = 0;
  for (const auto& [rank, position] : group->positions) {
    completed = std::max(completed, position.completed);
  }
  for (auto& [rank, position] : group->positions) {
    const bool has_ended =
        position.waits_in != nullptr && position.waits_in->sequence <= completed &&
        in_phase.at(rank) < position.waits_in->age &&
        std::find(kMeetings.begin(), kMeetings.end(), position.waits_in->operation) !=
            kMeetings.end();
    if (has_ended) position.waits_in = nullptr;
  }
}

std::vector<Group> GroupsOf(const Facts& facts) {
  std::map<std::string, Group> groups;
  std::map<uint32_t, Duration> in_phase;
  for (const RankFacts& rank : facts.ranks) {
    in_phase[rank.evidence.rank.value()] = rank.evidence.in_phase;
    std::map<std::string, std::vector<const CollectiveSeen*>> seen;
    for (const CollectiveSeen& one : rank.evidence.collectives) seen[one.group].push_back(&one);
    for (auto& [name, ones] : seen) {
      std::sort(ones.begin(), ones.end(), [](const CollectiveSeen* a, const CollectiveSeen* b) {
        return a->sequence < b->sequence;
      });
      groups[name].positions[rank.evidence.rank.value()] = PositionOf(ones);
    }
  }
  std::vector<Group> list;
  for (auto& [name, group] : groups) {
    group.name = name;
    group.members = MembersOf(name);
    // The text names no members: the ranks that reported the group are its members.
    if (group.members.empty()) {
      for (const auto& [rank, position] : group.positions) group.members.push_back(rank);
    }
    DropEndedWaits(in_phase, &group);
    list.push_back(std::move(group));
  }
  return list;
}

// Each known member with the highest collective that it has reached: begun, with the one before it
// completed. Sorted by that number, the lowest first.
std::vector<std::pair<uint64_t, uint32_t>> LevelsOf(const Group& group,
                                                    const std::set<uint32_t>& known) {
  std::vector<std::pair<uint64_t, uint32_t>> levels;
  for (const uint32_t member : group.members) {
    if (!known.contains(member)) continue;
    const auto found = group.positions.find(member);
    const Position at = found == group.positions.end() ? Position{} : found->second;
    levels.emplace_back(std::min(at.begun, at.completed + 1), member);
  }
  std::sort(levels.begin(), levels.end());
  return levels;
}

void AddEdges(const Group& group, const std::set<uint32_t>& known, WaitGraph* graph) {
  const auto levels = LevelsOf(group, known);
  for (const auto& [rank, position] : group.positions) {
    if (position.waits_in == nullptr) continue;
    graph->waits_in.emplace(rank, position.waits_in);
    for (const auto& [level, member] : levels) {
      if (level >= position.waits_in->sequence) break;
      if (member == rank) continue;
      graph->awaits[rank].insert(member);
      graph->waits_in[rank] = position.waits_in;
    }
  }
}

// The awaited ranks that wait for each other in a circle; no rank outside delays them.
std::set<uint32_t> CircleOf(const WaitGraph& graph) {
  std::set<uint32_t> left;
  for (const auto& [rank, awaited] : graph.awaits) left.insert(rank);
  // Repeatedly removes ranks that no remaining rank waits for. The rest is on circles or between
  // them.
  bool is_smaller = true;
  while (is_smaller) {
    std::set<uint32_t> awaited;
    for (const uint32_t rank : left) {
      for (const uint32_t other : graph.awaits.at(rank)) awaited.insert(other);
    }
    const size_t before = left.size();
    std::erase_if(left, [&awaited](uint32_t rank) { return !awaited.contains(rank); });
    is_smaller = left.size() < before;
  }
  return left;
}

}  // namespace

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
  std::set<uint32_t> known;
  for (const RankFacts& rank : facts.ranks) {
    if (rank.evidence.has_ring) known.insert(rank.evidence.rank.value());
  }
  for (const Group& group : graph.groups) AddEdges(group, known, &graph);
  for (const auto& [rank, awaited] : graph.awaits) {
    for (const uint32_t other : awaited) {
      if (!graph.awaits.contains(other)) graph.roots.insert(other);
    }
  }
  if (graph.roots.empty()) graph.circle = CircleOf(graph);
  return graph;
}

}  // namespace paceline::diagnose

#include "paceline/core/slow/pace_desk.h"

#include <algorithm>

namespace paceline::core {
namespace {

std::vector<diagnose::PacedNode> NodesOf(const JobState& state) {
  std::vector<diagnose::PacedNode> nodes;
  for (const Seat& seat : state.world->seats) {
    nodes.push_back({state.NameOf(seat.node), seat.first_rank, seat.rank_count});
  }
  return nodes;
}

bool AreOfSameRanks(const std::vector<SlowFinding>& a, const std::vector<SlowFinding>& b) {
  return std::is_permutation(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const SlowFinding& one, const SlowFinding& other) { return one.ranks == other.ranks; });
}

}  // namespace

std::optional<PaceJudged> PaceDesk::Take(const JobState& state, NodeId node,
                                         const std::vector<RankSample>& samples) {
  if (!state.IsSeated(node)) return std::nullopt;
  const Generation generation = state.world->generation;
  if (watch_.generation() != generation) watch_.Begin(generation, NodesOf(state));
  const Seat& seat = state.SeatOf(*state.Find(node));
  bool is_judged = false;
  for (const RankSample& sample : samples) {
    const uint32_t rank = sample.rank.value();
    if (rank < seat.first_rank || rank - seat.first_rank >= seat.rank_count) continue;
    is_judged = watch_.Take(sample) || is_judged;
  }
  // A new master knows the findings of the one before from the journal. It may contradict them once
  // it has judged by itself.
  if (!is_judged || !watch_.has_judged() || AreOfSameRanks(watch_.findings(), state.slow)) {
    return std::nullopt;
  }
  return PaceJudged{generation, watch_.findings()};
}

}  // namespace paceline::core

// Step times of the ranks. Half of a step is a rank's own work, which varies, and the rest is
// waiting. A slow rank works longer and waits less. The step takes as long as it would without a
// slow rank.

#include <algorithm>
#include <utility>

#include "paceline/base/prng.h"
#include "paceline/sim/workload.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// `world` is the same for all ranks of that step, `own` is this rank's.
StepSums StepTook(const Options& options, Rank rank, bool is_slow, Prng own, Prng world,
                  uint32_t world_size) {
  const int64_t noise = options.pace.noise_permille;
  int64_t permille = 1000 + own.Between(-noise, noise);
  if (is_slow) permille += permille / 2;
  StepSums step;
  step.whole = options.step_time;
  step.own = options.step_time / 2 * permille / 1000;
  if (world.Chance(1, 50)) {  // a rank is interrupted, and all others wait
    step.whole += options.step_time;
    if (world.Below(world_size) == rank.value()) step.own += options.step_time;
  }
  step.waited = step.whole - step.own;
  return step;
}

}  // namespace

std::vector<RankSample> Workload::Samples(const Node& node, Generation generation) {
  std::vector<RankSample> samples;
  const auto it = groups_.find(generation);
  if (it == groups_.end() || !it->second.started) return samples;
  Group& group = it->second;
  const Options& options = world_.options();
  const int64_t done = Done(group) - group.first;
  for (auto& [rank, member] : group.members) {
    if (&world_.node(member.node) != &node) continue;
    const std::optional<uint32_t>& slow = options.pace.slow_node;
    const uint32_t shift = options.canary == Canary::kBlameHost ? 1 : 0;
    const bool is_slow = options.pace.slow_rank == rank.value() ||
                         (slow.has_value() && (*slow + shift) % options.node_count == node.index());
    for (; member.metered_to < done; ++member.metered_to) {
      const auto step = static_cast<uint64_t>(member.metered_to);
      const Prng own(MixContent(group.content + rank.value() + 1, step));
      const Prng world(MixContent(group.content, step));
      member.meter.Add(StepTook(options, rank, is_slow, own, world, group.world_size));
    }
    samples.push_back({generation, rank, member.meter.sums()});
  }
  const bool is_swapped = options.canary == Canary::kBlameFast && samples.size() > 1;
  if (is_swapped) std::swap(samples.front().rank, samples.back().rank);
  return samples;
}

// A rank restores until all have met. When its group stands still it waits in a collective.
std::vector<RankTimes> Workload::Times(const Node& node, Generation generation) const {
  std::vector<RankTimes> all;
  const auto it = groups_.find(generation);
  if (it == groups_.end()) return all;
  const Group& group = it->second;
  const Instant now = world_.queue().now();
  const PhaseOptions& phases = world_.options().phases;
  const bool is_moving = group.moving && now > group.since;
  const Duration stepped = is_moving ? group.stepped + (now - group.since) : group.stepped;
  for (const auto& [rank, member] : group.members) {
    if (&world_.node(member.node) != &node) continue;
    RankTimes& one = all.emplace_back();
    one.generation = generation;
    one.rank = rank;
    one.phase = group.started ? RankPhase::kForward : RankPhase::kRestore;
    auto& of = one.times.of;
    const auto set = [&](RankPhase phase, Duration spent) {
      of[static_cast<size_t>(phase)] = spent;
    };
    set(RankPhase::kRestore, (group.started ? group.met_at : now) - member.joined_at);
    set(RankPhase::kEvaluation, stepped * phases.evaluation / 1000);
    set(RankPhase::kCheckpoint, stepped * phases.checkpoint / 1000);
    set(RankPhase::kData, stepped * phases.data / 1000);
    if (!group.started) continue;
    Duration rest = now - group.met_at;
    for (const RankPhase phase :
         {RankPhase::kEvaluation, RankPhase::kCheckpoint, RankPhase::kData}) {
      rest -= of[static_cast<size_t>(phase)];
    }
    set(RankPhase::kForward, rest);
  }
  if (world_.options().canary == Canary::kSwapPhases) {
    for (RankTimes& one : all) {
      std::swap(one.times.of[static_cast<size_t>(RankPhase::kForward)],
                one.times.of[static_cast<size_t>(RankPhase::kEvaluation)]);
    }
  }
  return all;
}

}  // namespace paceline::sim

#include "paceline/sim/workload.h"

#include <algorithm>
#include <utility>

#include "paceline/diagnose/deadline.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// From the last rank's arrival at the store to the first step.
constexpr Duration kMeetTime = Duration::Milliseconds(20);

ExitCause PeerError() {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kExited;
  cause.code = 1;
  cause.fingerprint = "DistBackendError@distributed.py:88";
  cause.headline = "DistBackendError: connection closed by peer (distributed.py:88)";
  return cause;
}

ExitCause ScriptError() {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kExited;
  cause.code = 1;
  cause.fingerprint = "ValueError@train.py:31";
  cause.headline = "ValueError: bad batch (train.py:31)";
  return cause;
}

}  // namespace

int64_t Workload::Done(const Group& group) const {
  const Instant now = world_.queue().now();
  if (!group.moving || now <= group.since) return group.base;
  return group.base + (now - group.since) / world_.options().step_time;
}

int64_t Workload::Saved(const Group& group) const {
  const int64_t every = world_.options().checkpoint_every;
  return every == 0 ? 0 : Done(group) / every * every;
}

bool Workload::CanMove(const Group& group) const {
  if (group.broken || group.members.size() != group.world_size) return false;
  for (const auto& [rank, member] : group.members) {
    if (!world_.node(member.node).IsAwake(member.pid)) return false;
  }
  if (!world_.network().HasCuts()) return true;
  std::vector<bool> is_member(world_.node_count() + 1, false);
  for (const auto& [rank, member] : group.members) is_member[member.node + 1] = true;
  for (const auto& [path, count] : world_.network().cuts()) {
    if (is_member[path.first] && is_member[path.second]) return false;
  }
  return true;
}

void Workload::Settle(Generation generation, Group& group) {
  for (auto& [rank, member] : group.members) Save(generation, group, rank, member);
  const int64_t done = Done(group);
  const Instant now = world_.queue().now();
  if (group.moving && now > group.since) {
    stretches_.push_back({generation, group.since, now, group.base});
    group.stepped += now - group.since;
  }
  saved_ = std::max(saved_, Saved(group));
  step_max_ = std::max(step_max_, done);
  group.base = done;
  group.since = now;
  ++group.version;
}

void Workload::Join(Generation generation, uint32_t world_size, Rank rank, Member member,
                    const Restored& restored) {
  Group& group = groups_[generation];
  group.world_size = std::max(group.world_size, world_size);
  if (group.members.empty() && !group.started) group.restored = restored;
  Meet(generation, group, restored);
  member.saved_to = restored.done;
  member.joined_at = world_.queue().now();
  group.members[rank] = member;
  if (group.members.size() != group.world_size || group.started || group.broken) return;
  group.started = true;
  group.met_at = world_.queue().now();
  const bool restores = world_.options().saves.is_used;
  group.base = group.first = restores ? member.saved_to : newest_saved();
  group.content = MixContent(group.restored.content, generation.value());
  world_.trace().Add(world_.queue().now(), "ranks", "met", generation.value());
  group.still_since = world_.queue().now();
  TellPlan(generation, group);
  if (!CanMove(group)) return WakeAgents(group);
  group.moving = true;
  group.since = world_.queue().now() + kMeetTime;
  Wake(generation, group);
  WatchSaves(group);
}

void Workload::Leave(Generation generation, Rank rank, int32_t pid, bool is_done) {
  const auto it = groups_.find(generation);
  if (it == groups_.end()) return;
  Group& group = it->second;
  const auto member = group.members.find(rank);
  if (member == group.members.end() || member->second.pid != pid) return;
  Settle(generation, group);
  group.members.erase(member);
  group.moving = false;
  const bool is_first = !group.broken;
  group.broken = true;
  if (is_first && !is_done) FailPeers(generation, group);
  if (group.members.empty()) groups_.erase(it);
}

void Workload::FailPeers(Generation, Group& group) {
  const Options& options = world_.options();
  for (const auto& [rank, member] : group.members) {
    if (world_.prng().Chance(options.peer_hang_permille, 1000)) continue;
    const Duration wait =
        Duration::Milliseconds(world_.prng().Between(1, options.peer_exit_max.milliseconds()));
    world_.queue().After(wait, [this, member = member] {
      world_.node(member.node).EndRank(member.pid, PeerError());
    });
  }
}

void Workload::Refresh() {
  for (auto& [generation, group] : groups_) {
    if (!group.started || group.broken) continue;
    const bool can_move = CanMove(group);
    if (can_move == group.moving) continue;
    Settle(generation, group);
    group.moving = can_move;
    if (!can_move) group.still_since = world_.queue().now();
    if (!can_move) WakeAgents(group);
    if (can_move) Wake(generation, group);
    if (can_move) WatchSaves(group);
  }
}

void Workload::PlantBug(int64_t step) {
  bug_step_ = step;
  for (auto& [generation, group] : groups_) {
    if (group.moving) Wake(generation, group);
  }
}

// Schedules a wake-up at the next step with an event, if there is one.
void Workload::Wake(Generation generation, Group& group) {
  int64_t target = 0;
  const int64_t done = Done(group);
  for (const int64_t step : {world_.options().total_steps, bug_step_}) {
    if (step > 0 && step >= done && (target == 0 || step < target)) target = step;
  }
  if (target == 0) return;
  const uint64_t version = ++group.version;
  const Instant at = group.since + world_.options().step_time * (target - group.base);
  world_.queue().At(at, [this, generation, version] { Reach(generation, version); });
}

void Workload::Reach(Generation generation, uint64_t version) {
  const auto it = groups_.find(generation);
  if (it == groups_.end() || it->second.version != version) return;
  Group& group = it->second;
  const int64_t done = Done(group);
  if (bug_step_ > 0 && done >= bug_step_ && group.first < bug_step_) {
    const Member raiser = group.members.begin()->second;
    world_.node(raiser.node).EndRank(raiser.pid, ScriptError());
    return;
  }
  const int64_t total = world_.options().total_steps;
  if (total == 0 || done < total) return;
  Settle(generation, group);
  group.moving = false;
  group.still_since = world_.queue().now();
  if (world_.options().saves.is_used) {
    for (const auto& [rank, member] : group.members) {
      const Duration wait = world_.options().saves.save_max + Duration::Milliseconds(1);
      world_.queue().After(wait, [this, member = member] {
        world_.node(member.node).ranks_saves().Finish(member.pid);
      });
    }
    return;
  }
  ExitCause success;
  success.kind = ExitCause::Kind::kExited;
  for (const auto& [rank, member] : group.members) {
    const Duration wait = Duration::Milliseconds(world_.prng().Between(1, 50));
    world_.queue().After(wait, [this, member = member, success] {
      world_.node(member.node).EndRank(member.pid, success);
    });
  }
}

void Workload::Fill(RankReport& report) const {
  const auto it = groups_.find(report.generation);
  if (it == groups_.end()) return;
  const Group& group = it->second;
  const Options& options = world_.options();
  report.state = RankReport::State::kRunning;
  if (!group.started) return;
  const int64_t done = Done(group);
  report.step_count = done - group.first;
  if (report.step_count > 0) report.state = RankReport::State::kStepping;
  if (options.tells_steps && report.step_count > 0) report.step = done;
  report.is_quiet =
      StandsStill(group) && StillFor(group) >= diagnose::QuietLimit(options.step_time);
  if (report.is_quiet) report.phase = RankPhase::kForward;
  if (options.tells_saved && options.checkpoint_every > 0 && !options.saves.is_used) {
    const int64_t saved = Saved(group);
    report.saved_step = saved > 0 ? saved : -1;
  }
  // An unreported save is seen as a file.
  if (!options.tells_saved && options.checkpoint_every > 0 && !options.saves.is_used) {
    const int64_t written = Saved(group) / options.checkpoint_every;
    const int64_t before = group.first / options.checkpoint_every;
    report.saved_files = static_cast<uint32_t>(std::max<int64_t>(0, written - before));
  }
}

Duration Workload::StillFor(const Group& group) const {
  return world_.queue().now() - group.still_since;
}

// Wakes the agents of resting nodes when their ranks become quiet.
void Workload::WakeAgents(const Group& group) {
  const Duration limit = diagnose::QuietLimit(world_.options().step_time);
  for (const auto& [rank, member] : group.members) {
    world_.queue().After(limit, [this, index = member.node] {
      AgentHost* agent = world_.node(index).agent();
      if (agent != nullptr) agent->StopResting();
    });
  }
}

std::vector<RankEvidence> Workload::Evidence(const Node& node, Generation generation) const {
  std::vector<RankEvidence> found;
  const auto it = groups_.find(generation);
  if (it == groups_.end()) return found;
  const Group& group = it->second;
  const int64_t done = Done(group);
  for (const auto& [rank, member] : group.members) {
    if (&world_.node(member.node) != &node) continue;
    RankEvidence& one = found.emplace_back();
    one.rank = rank;
    one.has_ring = true;
    one.phase = RankPhase::kForward;
    one.step_p99 = world_.options().step_time;
    one.state = node.IsAwake(member.pid) ? 'S' : 'T';
    one.watched = Duration::Milliseconds(500);
    CollectiveSeen seen{.group = "0 0-" + std::to_string(group.world_size - 1),
                        .sequence = static_cast<uint64_t>(done) + 1,
                        .operation = "all_reduce",
                        .site = "train.py:44"};
    seen.is_complete = true;
    one.collectives.push_back(seen);
    if (!StandsStill(group)) continue;
    one.quiet_for = StillFor(group);
    if (one.state == 'T') continue;
    ++seen.sequence;
    seen.is_complete = false;
    seen.age = one.quiet_for;
    one.collectives.push_back(seen);
  }
  if (world_.options().canary == Canary::kBlameWaiter && found.size() > 1) {
    std::swap(found.front().rank, found.back().rank);
  }
  return found;
}

bool Workload::IsStepping(Generation generation) const {
  const auto it = groups_.find(generation);
  return it != groups_.end() && it->second.moving && Done(it->second) > it->second.first;
}

int64_t Workload::StepOf(Generation generation) const {
  const auto it = groups_.find(generation);
  return it == groups_.end() || !it->second.started ? -1 : Done(it->second);
}

int64_t Workload::step_max() const {
  int64_t result = step_max_;
  for (const auto& [generation, group] : groups_) result = std::max(result, Done(group));
  return result;
}

std::vector<Workload::Stretch> Workload::Stretches() const {
  std::vector<Stretch> all = stretches_;
  const Instant now = world_.queue().now();
  for (const auto& [generation, group] : groups_) {
    if (group.moving && now > group.since)
      all.push_back({generation, group.since, now, group.base});
  }
  return all;
}

int64_t Workload::newest_saved() const {
  if (world_.options().saves.is_used) return step_max();
  int64_t result = saved_;
  for (const auto& [generation, group] : groups_) result = std::max(result, Saved(group));
  return result;
}

}  // namespace paceline::sim

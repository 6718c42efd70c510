// The saving part of the workload: which images are in the arenas now. When a step ends, each rank
// fills a slot; its image is complete after a delay of its own.

#include <algorithm>
#include <set>

#include "paceline/sim/workload.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
// All ranks of a world must hold one state. Otherwise they would train on a mix.
void Workload::Meet(Generation generation, const Group& group, const Restored& restored) {
  if (!world_.options().saves.is_used) return;
  if (group.restored.saved == restored.saved && group.restored.content == restored.content) return;
  world_.Fail("one_state", "the ranks of generation " + ToString(generation) + " meet with step " +
                               std::to_string(group.restored.saved.step) + " and step " +
                               std::to_string(restored.saved.step));
}

int64_t Workload::FirstSave(Generation generation) const {
  const int64_t every = world_.options().saves.every;
  const auto group = groups_.find(generation);
  return group == groups_.end() ? every : (group->second.first / every + 1) * every;
}

// Each restart of the count starts a new branch.
SavedStep Workload::NameOf(Generation generation, int64_t done) const {
  const int64_t recount = world_.options().saves.recount;
  SavedStep saved{.generation = generation.value(), .step = done};
  if (recount == 0) return saved;
  saved.step = done % recount;
  if (world_.options().canary == Canary::kForgetBranch) return saved;
  saved.branch = static_cast<uint64_t>(done / recount - FirstSave(generation) / recount);
  return saved;
}

int64_t Workload::FirstFrom(Generation generation, SavedStep from) const {
  constexpr int64_t kNever = int64_t{1} << 60;
  const SaveOptions& saves = world_.options().saves;
  const int64_t first = FirstSave(generation);
  if (from.generation > generation.value()) return kNever;
  if (from.generation < generation.value()) return first;
  return std::max(first, (DoneBy(from) + saves.every - 1) / saves.every * saves.every);
}

// Steps done in its generation when a save of that name was made.
int64_t Workload::DoneBy(SavedStep saved) const {
  const int64_t recount = world_.options().saves.recount;
  if (recount == 0) return saved.step;
  const int64_t first = FirstSave(Generation(saved.generation));
  const auto branch = static_cast<int64_t>(saved.branch) + first / recount;
  // The branch does not reach that step: the next branch starts first.
  return branch * recount + std::min(saved.step, recount);
}

bool Workload::IsEarlier(SavedStep a, SavedStep b) const {
  if (a.generation != b.generation) return a.generation < b.generation;
  const auto done = [this](SavedStep saved) {
    const auto found = done_of_.find(saved);
    // A rank that outlives its world saves steps that the world never made.
    return found == done_of_.end() ? DoneBy(saved) : found->second;
  };
  return done(a) < done(b);
}

Duration Workload::SaveTime(Rank rank, int64_t step) const {
  const SaveOptions& saves = world_.options().saves;
  const auto span = static_cast<uint64_t>((saves.save_max - saves.save_min).nanoseconds()) + 1;
  const uint64_t chance = MixContent(rank.value(), static_cast<uint64_t>(step)) % span;
  return saves.save_min + Duration::Nanoseconds(static_cast<int64_t>(chance));
}

Instant Workload::SealTime(const Group& group, Rank rank, int64_t step) const {
  const Duration trained = world_.options().step_time * std::max<int64_t>(step - group.base, 0);
  return group.since + trained + SaveTime(rank, step);
}

int64_t Workload::NextSave(const Group& group, const Member& member) const {
  const int64_t every = world_.options().saves.every;
  return (std::max(member.saved_to, Done(group)) / every + 1) * every;
}

void Workload::Seal(Generation generation, const Group& group, Rank rank, Member& member) {
  const int64_t step = std::exchange(member.writing, -1);
  Node& node = world_.node(member.node);
  SimArena* arena = node.shelf().Find({node.name(), rank.value()});
  if (arena == nullptr || !member.slot.has_value()) return;
  const SavedStep saved = NameOf(generation, step);
  if (done_of_.emplace(saved, step).first->second != step) {
    world_.Fail("restore_newest", "two states have one name: " + Say(saved));
  }
  arena->Seal(*member.slot, {.rank = static_cast<uint32_t>(rank.value()),
                             .saved = saved,
                             .world_size = group.world_size,
                             .content = MixContent(group.content, static_cast<uint64_t>(step)),
                             .done = step,
                             .is_replica = world_.options().saves.is_replica});
}

void Workload::SaveStep(Generation generation, const Group& group, Rank rank, Member& member,
                        int64_t step) {
  Node& node = world_.node(member.node);
  SimArena* arena = node.shelf().Find({node.name(), rank.value()});
  if (arena == nullptr) return;
  member.slot = arena->Begin(NameOf(generation, step));  // none: this step is skipped
  member.writing = step;
  member.seal_at = SealTime(group, rank, step);
  if (member.seal_at <= world_.queue().now()) Seal(generation, group, rank, member);
}

// Makes the saves up to now; of many in a row only those that leave a trace.
void Workload::Save(Generation generation, Group& group, Rank rank, Member& member) {
  const SaveOptions& saves = world_.options().saves;
  if (!saves.is_used || !group.started) return;
  Node& node = world_.node(member.node);
  if (!node.IsAwake(member.pid)) return;
  if (member.writing >= 0) {
    if (world_.queue().now() < member.seal_at) return;
    Seal(generation, group, rank, member);
  }
  const int64_t done = Done(group);
  const int64_t first = member.saved_to / saves.every + 1;
  const int64_t last = done / saves.every;
  member.saved_to = done;
  if (last < first) return;
  const SimArena* arena = node.shelf().Find({node.name(), rank.value()});
  const std::optional<SavedStep> hold = arena == nullptr ? std::nullopt : arena->hold();
  const int64_t held = hold.has_value() ? FirstFrom(generation, *hold) / saves.every : first;
  const SaveRun run{first, last, held};
  for (int64_t i = first; i <= last && member.writing < 0; ++i) {
    i = run.Traced(i);
    SaveStep(generation, group, rank, member, i * saves.every);
  }
}

void Workload::SyncSaves(const Node* only) {
  for (auto& [generation, group] : groups_) {
    for (auto& [rank, member] : group.members) {
      if (only == nullptr || member.node == only->index()) Save(generation, group, rank, member);
    }
  }
}

Workload::Saving Workload::SavingOf(const Node& node, Rank rank) const {
  Saving newest;
  for (const auto& [generation, group] : groups_) {
    const auto member = group.members.find(rank);
    if (member == group.members.end() || member->second.node != node.index()) continue;
    newest = {member->second.pid, generation, member->second.saved_to};
  }
  return newest;
}

const Workload::Member* Workload::MemberOf(const RankProcess& process) const {
  const auto group = groups_.find(process.generation);
  if (group == groups_.end()) return nullptr;
  const auto member = group->second.members.find(process.rank);
  return member == group->second.members.end() ? nullptr : &member->second;
}

Instant Workload::NextSeal(const RankProcess& process, Duration* save) const {
  const Member* member = MemberOf(process);
  if (member == nullptr) return Instant::Max();
  const Group& group = groups_.at(process.generation);
  if (!group.moving) return Instant::Max();
  const int64_t step = NextSave(group, *member);
  *save = SaveTime(process.rank, step);
  return SealTime(group, process.rank, step);
}

Instant Workload::NextSeal(const Node& node) const {
  Instant next = Instant::Max();
  for (const auto& [pid, process] : node.processes()) {
    const Member* member = MemberOf(process);
    Duration save;
    const bool is_writing = member != nullptr && member->writing >= 0 && node.IsAwake(pid);
    const Instant now = world_.queue().now();
    next = std::min(next, is_writing ? std::max(member->seal_at, now) : NextSeal(process, &save));
  }
  return next;
}

Instant Workload::MiddleOfNextSave(const RankProcess& process) const {
  Duration save;
  const Instant seal = NextSeal(process, &save);
  return seal.is_max() ? seal : seal - save / 2;
}

void Workload::WatchSaves(const Group& group) {
  if (!world_.options().saves.is_used) return;
  std::set<uint32_t> nodes;
  for (const auto& [rank, member] : group.members) nodes.insert(member.node);
  for (const uint32_t index : nodes) {
    AgentHost* agent = world_.node(index).agent();
    if (agent == nullptr || agent->has_ended()) continue;
    agent->WhenAwake([agent] { agent->station().WatchSaves(); });
  }
}

}  // namespace paceline::sim

#include "paceline/sim/checkpoint/station.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "paceline/base/mark.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

constexpr Duration kStalledLook = Duration::Milliseconds(200);
constexpr size_t kReplicatedMax = 3;  // steps that are remembered

}  // namespace

SimStation::SimStation(SimWorld& world, Node& node, AgentHost& agent)
    : world_(world),
      node_(node),
      agent_(agent),
      machine_(
          {.node = node.name(), .report_every = world.options().spec.timers.heartbeat_interval}),
      peers_(world, node, agent) {
  // Claims of an earlier agent.
  for (auto& [place, arena] : node_.shelf().all()) {
    if (place.node == node_.name()) arena.ForgetReaders();
  }
}

void SimStation::OpenToPeers() {
  Feed(core::PeersOpened{peers_.address(), peers_.domain()});
  SeeCopies();
}

void SimStation::SeeCopies() { Feed(peers_.Seen()); }

void SimStation::Feed(const core::StationEvent& event) {
  const auto* ordered = std::get_if<core::CheckpointOrdered>(&event);
  if (ordered != nullptr && ordered->order.replicated.has_value()) {
    replicated_at_.emplace(*ordered->order.replicated, world_.queue().now());
    while (replicated_at_.size() > kReplicatedMax) replicated_at_.erase(replicated_at_.begin());
  }
  for (const core::StationAction& action : machine_.Step(world_.queue().now(), event)) {
    std::visit([this](const auto& one) { Do(one); }, action);
  }
  Rearm();
}

std::optional<core::AnswerProblem> SimStation::Refuses(uint64_t rank, uint64_t generation) {
  return machine_.Refuses(rank, generation, world_.options().saves.terms);
}

void SimStation::Rearm() {
  const Instant deadline = machine_.NextDeadline();
  if (deadline.is_max() || deadline == armed_for_) return;
  armed_for_ = deadline;
  agent_.Later(deadline - world_.queue().now(), [deadline](AgentHost& agent) {
    SimStation& station = agent.station();
    if (station.armed_for_ != deadline) return;
    station.armed_for_ = Instant::Max();
    const Instant now = station.world_.queue().now();
    if (!station.machine_.IsReportDue(now)) return station.Feed(core::StationTimePassed{});
    station.world_.SyncSaves(station.node_);
    const Options& options = station.world_.options();
    std::vector<MemoryImage> images = station.node_.shelf().Images(options.saves.says_replica);
    if (options.canary == Canary::kHideCopies) {
      std::erase_if(images, [](const MemoryImage& image) { return image.is_copy; });
    }
    station.Feed(core::ReportDue{std::move(images)});
    station.WatchSaves();
  });
}

// Ranks announce complete images. Between two reports one announcement suffices.
void SimStation::WatchSaves() {
  if (is_watching_ || !machine_.has_ranks()) return;
  const Instant at = world_.workload().NextSeal(node_);
  if (at.is_max()) return;
  is_watching_ = true;
  agent_.Later(at - world_.queue().now(), [](AgentHost& agent) {
    SimStation& station = agent.station();
    station.is_watching_ = false;
    for (const auto& [pid, process] : station.node_.processes()) {
      const core::StationPeer peer = station.node_.ranks_saves().PeerOf(pid);
      if (!station.machine_.Knows(peer)) continue;
      station.Feed(core::ImageSealed{peer});
      return;
    }
  });
}

void SimStation::CleanUp() {
  const bool is_over = machine_.order().is_over || world_.EndsInAHurry();
  if (!machine_.order().problem.empty() || !is_over) return;
  JudgeEnd();
  // Nodes of one machine share its memory, and each removes all arenas of the job there.
  node_.shelf().Clear();
}

// If no problem was reported, the newest complete step in the remaining nodes' memory must be in
// storage before the first of them frees its memory. A node that is lost during the end loses its
// images.
void SimStation::JudgeEnd() {
  if (!world_.master().is_on()) return;
  if (agent_.obeys() < world_.master().term())
    return;  // an old master ended what it took for the job
  const core::JobState& state = world_.master().job().state();
  const core::CheckpointBook& book = state.checkpoints;
  struct Whole {
    std::set<uint32_t> ranks;
    uint32_t world_size = 0;
  };
  std::map<SavedStep, Whole> steps;
  for (uint32_t i = 0; i < world_.node_count(); ++i) {
    Node& node = world_.node(i);
    const core::NodeState* known = state.Find(node.name());
    if (known == nullptr || !known->IsMember() || !world_.IsLinked(node)) continue;
    for (const auto& [place, arena] : node.shelf().all()) {
      if (place.node != node.name()) continue;
      for (const SimImage* image : arena.Sealed()) {
        if (image->is_flipped || image->is_zombies || core::IsGivenUp(book, image->saved)) continue;
        steps[image->saved].ranks.insert(image->rank);
        steps[image->saved].world_size = image->world_size;
      }
    }
  }
  for (const auto& [saved, whole] : steps) {
    const bool is_stored =
        book.committed.has_value() && !world_.workload().IsEarlier(book.committed->saved, saved);
    if (whole.ranks.size() < whole.world_size || is_stored) continue;
    return world_.Fail("end_stores_newest", node_.name() + " gives back step " +
                                                std::to_string(saved.step) + " of world " +
                                                std::to_string(saved.generation) +
                                                ", and it is not in storage");
  }
}

// ---- what the machine wants ----

void SimStation::Do(const core::SendReport& action) {
  if (action.report.generation != spoken_for_) {
    spoken_for_ = action.report.generation;
    spoken_at_ = world_.queue().now();
  }
  CheckpointReport report = action.report;
  if (world_.options().canary == Canary::kHideBlindness) report.is_blind = false;
  if (world_.options().canary == Canary::kForgetEqual) report.equal.clear();
  agent_.Tell(report);
}

void SimStation::Do(const core::AnswerRestore& action) { node_.ranks_saves().OnRestore(action); }

void SimStation::Do(const core::AnswerDurable& action) {
  node_.ranks_saves().OnDurable(action.peer);
}

// No simulated script waits for a second host.
void SimStation::Do(const core::AnswerReplicated&) {}

// No simulated script withdraws a wait.
void SimStation::Do(const core::AnswerWithdrawn&) {}

void SimStation::Do(const core::AnswerProblem& action) { node_.ranks_saves().OnProblem(action); }

void SimStation::Do(const core::SetHold& action) {
  world_.SyncSaves(node_);
  told_[action.rank] = {action.from, world_.workload().SavingOf(node_, Rank(action.rank))};
  if (world_.options().canary == Canary::kForgetHold) return;
  SimArena* arena = node_.shelf().Find({node_.name(), action.rank});
  if (arena != nullptr) arena->SetHold(action.from);
}

void SimStation::Do(const core::ClearHolds&) {
  for (auto& [place, arena] : node_.shelf().all()) {
    if (place.node == node_.name() && !place.is_copy) arena.SetHold(std::nullopt);
  }
}

void SimStation::Do(const core::KeepImages& action) {
  world_.SyncSaves(node_);
  std::vector<std::pair<uint32_t, SavedStep>> kept;
  for (auto& [place, arena] : node_.shelf().all()) {
    if (place.node != node_.name() || place.is_copy) continue;
    for (const std::optional<SavedStep>& saved : {action.copied, action.copying}) {
      if (!saved.has_value() || !action.Keeps(*saved, arena.slot_count())) continue;
      if (arena.BeginRead(*saved)) kept.emplace_back(place.rank, *saved);
    }
  }
  for (const auto& [rank, saved] : std::exchange(kept_, kept)) {
    SimArena* arena = node_.shelf().Find({node_.name(), rank});
    if (arena != nullptr) arena->EndRead(saved);
  }
}

void SimStation::Do(const core::FetchImages& action) {
  peers_.Take(action.orders, action.drop_others);
  SeeCopies();
}

void SimStation::Do(const core::DropCopy& action) {
  node_.shelf().all().erase({node_.name(), action.rank, true});
  SeeCopies();
}

// Sharing changes no outcome: a host that gets no chunk from another one reads storage itself.
void SimStation::Do(const core::ShareReading& /*action*/) { MARK("chunks of storage are shared"); }

// Runs beside the worker. Fetched files are on this host's disk.
void SimStation::Do(const core::FetchStored& action) {
  const SaveOptions& saves = world_.options().saves;
  if (saves.terms.directory.starts_with('/')) {
    return world_.Fail("checkpoints", action.name + " is fetched from a directory");
  }
  const Duration work = action.part != StoredPart::kAll
                            ? DrawShort()
                            : Duration::Nanoseconds(world_.prng().Between(
                                  saves.read_min.nanoseconds(), saves.read_max.nanoseconds()));
  After(work, [this, action] {
    core::StoredFetched fetched{.peer = action.peer, .name = action.name};
    if (world_.storage().is_away) {
      MARK("files of an object store are waited for");
      fetched.end = core::StoredFetched::End::kAway;
      fetched.problem = "it does not answer";
    }
    Feed(fetched);
  });
}

void SimStation::Do(const core::EndStation&) { agent_.MayExit(); }

// ---- the worker ----

void SimStation::Add(Job job) {
  jobs_.push_back(std::move(job));
  if (!is_busy_) RunNext();
}

void SimStation::RunNext() {
  is_busy_ = !jobs_.empty();
  if (!is_busy_) return;
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  job();
}

void SimStation::EndJob() { RunNext(); }

void SimStation::After(Duration work, Job stage) {
  agent_.Later(work, [stage = std::move(stage)](AgentHost& agent) {
    SimStation& station = agent.station();
    if (station.world_.storage().is_stalled) {
      station.After(kStalledLook, stage);
    } else {
      stage();
    }
  });
}

Duration SimStation::DrawShort() {
  return Duration::Microseconds(world_.prng().Between(200, 5'000));
}

SimArena* SimStation::ArenaWith(Rank rank, SavedStep saved) {
  for (const bool is_copy : {false, true}) {
    SimArena* arena = node_.shelf().Find({node_.name(), rank.value(), is_copy});
    if (arena != nullptr && arena->Find(saved) != nullptr) return arena;
  }
  return nullptr;
}

void SimStation::Do(const core::WriteImage& action) {
  world_.SyncSaves(node_);
  SimArena* arena = ArenaWith(action.shard.rank, action.saved);
  if (arena == nullptr || !arena->BeginRead(action.saved)) {
    MARK("image was gone before it was written");
    JudgeLost(action);
    return Feed(core::ShardEnded{action.shard.rank, action.saved,
                                 core::StationMachine::NotHeld(action.saved), Duration()});
  }
  Add([this, action] {
    After(DrawShort(), [this, action] {
      const std::string why = world_.storage().BeginShard(action.name, world_.queue().now());
      if (!why.empty()) return EndImage(action, why);
      const SaveOptions& saves = world_.options().saves;
      const Duration work = Duration::Nanoseconds(
          world_.prng().Between(saves.write_min.nanoseconds(), saves.write_max.nanoseconds()));
      After(work, [this, action] { EndImage(action, ""); });
    });
  });
}

// An image may be gone if its rank heard too late that it must stay, or is another process now.
// Otherwise its loss is a bug.
void SimStation::JudgeLost(const core::WriteImage& action) {
  // The job is over, and another node of this machine has freed the memory; see JudgeEnd.
  if (node_.shelf().Find({node_.name(), action.shard.rank.value()}) == nullptr) return;
  const auto told = told_.find(action.shard.rank.value());
  if (told == told_.end() || !told->second.from.has_value()) return;
  const Workload::Saving& before = told->second.saving;
  const Workload::Saving now = world_.workload().SavingOf(node_, action.shard.rank);
  const int64_t first = world_.workload().FirstFrom(now.generation, *told->second.from);
  const bool was_in_time = before.pid != 0 && before.pid == now.pid && before.saved_to < first &&
                           before.generation.value() == action.saved.generation;
  if (!was_in_time || action.saved != world_.workload().NameOf(now.generation, first)) return;
  world_.Fail("held_stays", node_.name() + " was told in time to keep " + Say(action.saved) +
                                " of rank " + ToString(action.shard.rank) + ", and it is gone");
}

void SimStation::EndImage(const core::WriteImage& action, const std::string& begun) {
  std::string problem = begun;
  SimArena* arena = ArenaWith(action.shard.rank, action.saved);
  const SimImage* image = arena == nullptr ? nullptr : arena->Find(action.saved);
  if (problem.empty()) {
    // A claimed image stays until it is released.
    problem = image == nullptr
                  ? "its memory is gone"
                  : world_.storage().EndShard(action.name, *image, action.shard.file_of,
                                              world_.queue().now());
  }
  if (arena != nullptr) arena->EndRead(action.saved);
  Feed(core::ShardEnded{action.shard.rank, action.saved, problem, Duration()});
  EndJob();
}

void SimStation::Do(const core::WriteCommit& action) {
  Add([this, action] { After(DrawShort(), [this, action] { Assemble(action); }); });
}

void SimStation::Assemble(const core::WriteCommit& action) {
  const bool checks = world_.options().canary != Canary::kCommitUnchecked;
  if (!world_.storage().Claim(node_.terms().seen())) {
    MARK("an old master's commit is refused");
    return EndCommit(action, "the directory is a newer master's now", true);
  }
  SimManifest manifest;
  const std::string why = world_.storage().Assemble(action.order, checks, &manifest);
  if (!why.empty()) return EndCommit(action, why, world_.storage().IsPassed(action.order));
  After(DrawShort(), [this, action, manifest] {
    Storage& storage = world_.storage();
    const std::string why =
        storage.WriteManifest(action.order.name, manifest, world_.queue().now());
    if (!why.empty()) return EndCommit(action, why);
    After(DrawShort(), [this, action] {
      const bool is_ours = world_.storage().Claim(node_.terms().seen());
      const std::string why = is_ours ? world_.storage().WriteLatest(action.order.name)
                                      : std::string("the directory is a newer master's now");
      if (why.empty()) {
        world_.Committed(node_, node_.terms().seen());
        world_.storage().RemoveParts(action.order.name);
        world_.storage().Prune(action.keep, world_.options().canary != Canary::kPruneNewest);
      }
      EndCommit(action, why, !is_ours);
    });
  });
}

void SimStation::EndCommit(const core::WriteCommit& action, const std::string& problem,
                           bool is_passed) {
  world_.trace().Add(world_.queue().now(), node_.name(), problem.empty() ? "commit" : "no_commit",
                     static_cast<uint64_t>(action.order.saved.step), problem);
  const Options& options = world_.options();
  const bool has_own =
      options.saves.has_own_parameters && options.canary != Canary::kHideOwnParameters;
  Feed(core::CommitEnded{action.order.name, problem, 1'000'000, has_own, is_passed});
  EndJob();
}

void SimStation::Do(const core::LookInStorage& action) {
  Add([this, action] {
    After(DrawShort(), [this, action] {
      core::StorageLooked looked;
      looked.problem = world_.storage().Newest(action.except, &looked.stored);
      if (looked.problem.empty()) world_.storage().NoteSeen();
      Feed(looked);
      EndJob();
    });
  });
}

}  // namespace paceline::sim

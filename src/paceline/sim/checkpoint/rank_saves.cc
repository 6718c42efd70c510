#include "paceline/sim/checkpoint/rank_saves.h"

#include <algorithm>
#include <set>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// As in python/paceline/_checkpoint/link.py, but with longer pauses.
constexpr Duration kConnectMax = Duration::Seconds(60);
constexpr Duration kConnectAgain = Duration::Milliseconds(50);
constexpr Duration kAsleepLook = Duration::Milliseconds(100);

}  // namespace

void RankSaves::Begin(int32_t pid) {
  ranks_[pid].since = world_.queue().now();
  OpenAfter(pid, Duration());
}

void RankSaves::AgentStarted() {
  for (auto& [pid, one] : ranks_) {
    one.peer = 0;
    one.since = world_.queue().now();
    OpenAfter(pid, Duration::Milliseconds(world_.prng().Between(1, 1'000)));
  }
}

core::StationPeer RankSaves::PeerOf(int32_t pid) const {
  const auto found = ranks_.find(pid);
  return found == ranks_.end() ? 0 : found->second.peer;
}

int32_t RankSaves::PidOf(core::StationPeer peer) const {
  for (const auto& [pid, one] : ranks_) {
    if (one.peer == peer) return pid;
  }
  return 0;
}

// ---- opening ----

void RankSaves::OpenAfter(int32_t pid, Duration wait) {
  const uint64_t attempt = ++ranks_[pid].attempt;
  world_.queue().After(wait, [this, pid, attempt] { Open(pid, attempt); });
}

void RankSaves::Open(int32_t pid, uint64_t attempt) {
  const auto found = ranks_.find(pid);
  if (found == ranks_.end() || found->second.attempt != attempt) return;
  if (!node_.IsAwake(pid)) return OpenAfter(pid, kAsleepLook);
  AgentHost* agent = node_.agent();
  if (agent == nullptr || agent->has_ended()) {
    if (world_.queue().now() - found->second.since > kConnectMax) {
      return Fail(pid, "nobody keeps this rank's checkpoints");
    }
    return OpenAfter(pid, kConnectAgain);
  }
  agent->WhenAwake([this, pid, attempt] {
    const auto one = ranks_.find(pid);
    if (one != ranks_.end() && one->second.attempt == attempt) OpenAt(pid);
  });
}

void RankSaves::OpenAt(int32_t pid) {
  const RankProcess& process = node_.processes().at(pid);
  SimStation& station = node_.agent()->station();
  const uint64_t rank = process.rank.value();
  const uint64_t generation = process.generation.value();
  if (const auto why = station.Refuses(rank, generation)) return Fail(pid, why->what);
  One& one = ranks_[pid];
  one.peer = world_.NextPeer();
  if (one.stage == Stage::kOpening) one.stage = Stage::kRestoring;
  station.Feed(core::RankOpened{one.peer, rank, generation});
  if (one.stage == Stage::kTraining || one.stage == Stage::kWaiting) {
    station.Feed(core::ArenaReady{});
  }
  Ask(ranks_[pid], process.world_size);
}

// An unanswered request is repeated to the next agent.
void RankSaves::Ask(const One& one, uint32_t world_size) {
  SimStation& station = node_.agent()->station();
  if (one.stage == Stage::kRestoring) station.Feed(core::RestoreAsked{one.peer, world_size});
  if (one.stage == Stage::kWaiting) {
    station.Feed(core::DurabilityAsked{one.peer, one.awaited.step, one.awaited.branch});
  }
}

// ---- restoring ----

void RankSaves::OnRestore(const core::AnswerRestore& answer) {
  const int32_t pid = PidOf(answer.peer);
  if (pid == 0 || ranks_[pid].stage != Stage::kRestoring) return;
  ranks_[pid].stage = Stage::kReading;
  const SaveOptions& saves = world_.options().saves;
  const Duration work = Duration::Nanoseconds(
      world_.prng().Between(saves.read_min.nanoseconds(), saves.read_max.nanoseconds()));
  world_.queue().After(work, [this, pid, answer] { Read(pid, answer); });
}

void RankSaves::Read(int32_t pid, const core::AnswerRestore& answer) {
  if (!ranks_.contains(pid)) return;
  const bool waits = answer.order.from == RestoreOrder::From::kStorage && !answer.is_fetched &&
                     world_.storage().is_stalled;
  if (waits || !node_.IsAwake(pid)) {
    world_.queue().After(kAsleepLook, [this, pid, answer] { Read(pid, answer); });
    return;
  }
  Restored restored;
  if (Load(pid, answer, &restored)) Train(pid, restored);
}

bool RankSaves::Load(int32_t pid, const core::AnswerRestore& answer, Restored* restored) {
  std::vector<SimImage> images;
  switch (answer.order.from) {
    case RestoreOrder::From::kNothing:
      if (answer.order.name.empty()) return true;
      MARK("every checkpoint is damaged");
      Fail(pid, "every checkpoint is damaged");
      return false;
    case RestoreOrder::From::kMemory:
      if (!LoadFromMemory(pid, answer, &images)) return false;
      break;
    case RestoreOrder::From::kStorage:
      // If another host has read the tensors for all, the rank reads only its own notes.
      if (!LoadFromStorage(pid, answer, &images)) return false;
      if (!answer.images.empty() && !LoadFromMemory(pid, answer, &images)) return false;
      break;
  }
  Judge(pid, answer, images);
  restored->saved = answer.order.saved;
  restored->content = images.front().content;
  restored->done = images.front().done;
  return true;
}

bool RankSaves::LoadFromMemory(int32_t pid, const core::AnswerRestore& answer,
                               std::vector<SimImage>* images) {
  images->clear();
  world_.SyncSaves(node_);
  for (const RestoreOrder::Image& place : answer.images) {
    const SimArena* arena = node_.shelf().Find({place.place, place.rank.value(), place.is_copy});
    const SimImage* image = arena == nullptr ? nullptr : arena->Find(answer.order.saved);
    if (world_.options().canary == Canary::kMixSteps && arena != nullptr &&
        place.rank.value() % 2 == 1 && !arena->Sealed().empty()) {
      image = arena->Sealed().front();
    }
    if (image == nullptr || image->is_flipped) {
      MARK("restore found a damaged image");
      Tell(core::ImageFoundDamaged{place.place, place.rank.value(), place.is_copy,
                                   answer.order.saved});
      Fail(pid, "step " + std::to_string(answer.order.saved.step) + " cannot be restored");
      return false;
    }
    images->push_back(*image);
  }
  return true;
}

bool RankSaves::LoadFromStorage(int32_t pid, const core::AnswerRestore& answer,
                                std::vector<SimImage>* images) {
  const RankProcess& process = node_.processes().at(pid);
  const Storage::Read read = world_.storage().ReadFor(
      answer.order.name, process.rank.value(), process.world_size, answer.is_fetched, images);
  if (read == Storage::Read::kWhole) return true;
  if (read == Storage::Read::kDamaged) {
    MARK("restore found a damaged checkpoint");
    Tell(core::CheckpointFoundDamaged{answer.order.name});
  } else {
    MARK("restore could not read storage");
  }
  Fail(pid, "step " + std::to_string(answer.order.saved.step) + " cannot be restored");
  return false;
}

// Checks that the images are one step's exact state, complete, or that there is an error.
void RankSaves::Judge(int32_t pid, const core::AnswerRestore& answer,
                      const std::vector<SimImage>& images) {
  const RankProcess& process = node_.processes().at(pid);
  const std::string who =
      "rank " + ToString(process.rank) + " of generation " + ToString(process.generation);
  std::set<uint32_t> ranks;
  for (const SimImage& image : images) {
    if (image.saved != answer.order.saved || image.content != images.front().content) {
      return world_.Fail("one_state",
                         who + " restores step " + std::to_string(answer.order.saved.step) +
                             " and gets bytes of step " + std::to_string(image.saved.step));
    }
    ranks.insert(image.rank);
  }
  if (images.empty()) return world_.Fail("one_state", who + " restores from no image");
  const SimImage& first = images.front();
  const bool is_own =
      first.world_size == process.world_size && ranks.contains(process.rank.value());
  const bool is_all = ranks.size() == first.world_size;
  if (is_own || is_all || first.is_replica) return;
  world_.Fail("one_state", who + " restores tensors of other ranks");
}

void RankSaves::Train(int32_t pid, const Restored& restored) {
  const RankProcess& process = node_.processes().at(pid);
  const ArenaPlace place{node_.name(), process.rank.value()};
  for (const auto& [other, rival] : node_.processes()) {
    if (other != pid && rival.rank == process.rank && ranks_.contains(other) &&
        ranks_[other].stage == Stage::kTraining) {
      return Fail(pid, "another process saves there");
    }
  }
  node_.shelf().OpenOrMake(place, world_.options().saves.slots).ForgetUnfinished();
  ranks_[pid].stage = Stage::kTraining;
  Tell(core::ArenaReady{});
  world_.workload().Join(process.generation, process.world_size, process.rank, {node_.index(), pid},
                         restored);
}

// ---- the end ----

void RankSaves::Finish(int32_t pid) {
  const auto found = ranks_.find(pid);
  if (found == ranks_.end()) return;
  if (!node_.IsAwake(pid)) {
    world_.queue().After(kAsleepLook, [this, pid] { Finish(pid); });
    return;
  }
  world_.SyncSaves(node_);
  const RankProcess& process = node_.processes().at(pid);
  const SimArena* arena = node_.shelf().Find({node_.name(), process.rank.value()});
  const SavedStep last = world_.workload().NameOf(process.generation, world_.options().LastSave());
  found->second.stage = Stage::kWaiting;
  if (arena == nullptr || arena->Find(last) == nullptr) {
    MARK("a rank has no last save to wait for");
    return Exit(pid);
  }
  found->second.awaited = last;
  Tell(core::DurabilityAsked{found->second.peer, last.step, last.branch, /*is_closing=*/true});
}

void RankSaves::OnDurable(core::StationPeer peer) {
  const int32_t pid = PidOf(peer);
  if (pid != 0 && ranks_[pid].stage == Stage::kWaiting) Exit(pid);
}

void RankSaves::Exit(int32_t pid) {
  ExitCause success;
  success.kind = ExitCause::Kind::kExited;
  world_.queue().After(Duration::Milliseconds(1),
                       [this, pid, success] { node_.EndRank(pid, success); });
}

void RankSaves::OnProblem(const core::AnswerProblem& answer) {
  if (const int32_t pid = PidOf(answer.peer); pid != 0) Fail(pid, answer.what);
}

void RankSaves::Tell(const core::StationEvent& event) {
  AgentHost* agent = node_.agent();
  if (agent == nullptr || agent->has_ended()) return;
  agent->WhenAwake([agent, event] { agent->station().Feed(event); });
}

void RankSaves::Fail(int32_t pid, const std::string& why) {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kExited;
  cause.code = 1;
  cause.fingerprint = "CheckpointError@checkpoint.py";
  cause.headline = "CheckpointError: " + why;
  world_.queue().After(Duration::Milliseconds(1),
                       [this, pid, cause] { node_.EndRank(pid, cause); });
}

}  // namespace paceline::sim

#include "paceline/agent/memory/checkpoint_station.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "paceline/agent/shaping.h"
#include "paceline/base/host_text.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

// How long a keeper waits for the directory before it numbers a world without it.
constexpr int64_t kWorldLookMaxNs = 10'000'000'000;

}  // namespace

CheckpointStation::CheckpointStation(Reactor& reactor, Setup setup, Listener listener)
    : reactor_(reactor),
      setup_(std::move(setup)),
      listener_(std::move(listener)),
      machine_({setup_.node, setup_.report_every, setup_.is_private}),
      shelf_(setup_.arena_roots, setup_.job_id, setup_.boot_id),
      tier_(setup_.tier, setup_.node, setup_.job_id),
      on_disk_(tier_.Images()),
      worker_(MakeWorker()),
      reader_(MakeWorker()),
      claims_(std::make_unique<ClaimDesk>(
          reactor_, ClaimDesk::Setup{setup_.job_id, setup_.boot_id, setup_.store_host}, &tier_,
          ClaimDesk::Listener{.changed = [this] { OnClaim(); },
                              .says = [this](const std::string& text) { TellAll(text); },
                              .looked =
                                  [this](const RescueDone& done) {
                                    if (rescue_ != nullptr) rescue_->OnLooked(done);
                                  }})) {}

std::unique_ptr<CheckpointWorker> CheckpointStation::MakeWorker() {
  const auto post = [this](CheckpointDone done) {
    reactor_.Post([this, done = std::move(done)] { OnDone(done); });
  };
  return std::make_unique<CheckpointWorker>(post, setup_.store_host, &tier_);
}

absl::StatusOr<std::unique_ptr<CheckpointStation>> CheckpointStation::Open(Reactor& reactor,
                                                                           Setup setup,
                                                                           Listener listener) {
  auto station = std::unique_ptr<CheckpointStation>(
      new CheckpointStation(reactor, std::move(setup), std::move(listener)));
  CheckpointStation* const raw = station.get();
  ASSIGN_OR_RETURN(
      raw->server_,
      LineServer::Listen(reactor, raw->setup_.socket,
                         {.line = [raw](LineServer::PeerId peer,
                                        const std::string& line) { raw->OnLine(peer, line); },
                          .gone =
                              [raw](LineServer::PeerId peer) {
                                std::erase_if(raw->waiting_, [peer](const Waiting& one) {
                                  return one.peer == peer;
                                });
                                std::erase_if(raw->unclaimed_, [peer](const auto& one) {
                                  return one.first == peer;
                                });
                                raw->openers_.erase(peer);
                                if (!raw->machine_.Knows(peer)) return;
                                raw->Feed(core::RankClosed{peer});
                                raw->listener_.ranks();
                              }}));
  raw->shelf_.Refresh();
  for (const MemoryImage& image : raw->shelf_.Images()) {
    // Claims of an earlier agent.
    if (image.place != raw->setup_.node) continue;
    raw->shelf_.Find({image.place, image.rank.value(), image.is_copy})->ForgetReaders();
  }
  if (raw->setup_.peers.has_value()) raw->OpenToPeers(*raw->setup_.peers);
  return station;
}

void CheckpointStation::OpenToPeers(Setup::Peers with) {
  chunks_.reset();
  peers_.reset();
  auto peers = PeerMemory::Start(reactor_, &shelf_,
                                 {setup_.node, std::move(with.host), std::move(with.credentials),
                                  setup_.store_host, setup_.tier},
                                 [this] { SeeCopies(); });
  if (!peers.ok()) {
    LogWarning("no_peers", {{"why", peers.status()}});
    return;
  }
  auto chunks = ChunkServer::Listen(
      Concat(setup_.socket, ".c"),
      [reading = &(*peers)->reading()](const StoredChunk& chunk) { return reading->Fetch(chunk); });
  if (!chunks.ok()) {
    LogWarning("no_peers", {{"why", chunks.status()}});
    return;
  }
  peers_ = *std::move(peers);
  chunks_ = *std::move(chunks);
  LogInfo("peers", {{"address", peers_->address()}, {"domain", with.domain}});
  Feed(core::PeersOpened{peers_->address(), with.domain});
  SeeCopies();
}

CheckpointStation::~CheckpointStation() {
  reactor_.Cancel(timer_);
  reactor_.Cancel(waiting_timer_);
  reactor_.Cancel(world_look_.timer);
}

// ---- called by the agent ----

void CheckpointStation::SetGeneration(Generation generation) {
  if (generation == machine_.generation()) return;
  shelf_.Refresh();
  Feed(core::GenerationCarriedOut{generation});
  Readmit();
}

void CheckpointStation::LookAnew() {
  shelf_.Refresh();
  Feed(core::LookExpired{});
}

void CheckpointStation::Readmit() {
  for (const Waiting& one : std::exchange(waiting_, {})) OnLine(one.peer, one.line);
}

uint64_t CheckpointStation::NewestImage() {
  shelf_.Refresh();
  uint64_t newest = 0;
  for (const MemoryImage& image : shelf_.Images()) {
    newest = std::max(newest, image.saved.generation);
  }
  for (const MemoryImage& image : on_disk_) newest = std::max(newest, image.saved.generation);
  return newest;
}

std::optional<uint64_t> CheckpointStation::StoredGeneration(const std::string& directory) {
  if (world_look_.directory != directory) {
    ForgetStored();
    world_look_.directory = directory;
    reader_->Add(LookTask{directory, {}, /*is_for_world=*/true});
    world_look_.timer =
        reactor_.CallAt(MonotonicNs() + kWorldLookMaxNs, [this] { EndWorldLook(0); });
  }
  return world_look_.generation;
}

void CheckpointStation::ForgetStored() {
  reactor_.Cancel(world_look_.timer);
  world_look_ = {};
}

void CheckpointStation::EndWorldLook(uint64_t generation) {
  reactor_.Cancel(std::exchange(world_look_.timer, 0));
  if (world_look_.directory.empty() || world_look_.generation.has_value()) return;
  world_look_.generation = generation;
  Readmit();
}

void CheckpointStation::Linked() { Feed(core::StationLinked{}); }

void CheckpointStation::TellNow() {
  Feed(core::StationLinked{});
  Report();
}

void CheckpointStation::Take(const CheckpointOrder& order) {
  if (order.restore.has_value() && order.restore != machine_.order().restore) {
    LogInfo("restore_ordered", {{"generation", order.restore->generation},
                                {"step", order.restore->saved.step},
                                {"why", order.restore->reason}});
  }
  if (order.persist.has_value()) shelf_.Refresh();
  Feed(core::CheckpointOrdered{order});
  SetRate();
}

void CheckpointStation::CleanUp() {
  const std::string& problem = machine_.order().problem;
  if (!problem.empty() && rescued_.empty()) {
    LogWarning("arenas_stay", {{"why", problem}});
    return;
  }
  kept_.clear();
  shelf_.RemoveAll();
  tier_.RemoveAll();
  claims_->Release();
}

// ---- the loss of the master's host ----

void CheckpointStation::SetLinked(bool is_linked) {
  if (rescue_ == nullptr) {
    rescue_ = std::make_unique<RescueDesk>(
        reactor_, setup_.job_id, setup_.node,
        RescueDesk::Host{
            .directory = [this] { return Directory(); },
            .memory = [this] { return Memory(); },
            .look = [this](RescueTask task) { claims_->LookForRescue(std::move(task)); },
            .write = [this](const RescueShard& shard,
                            const RescueCall& call) { WriteRescued(shard, call); },
            .end_ranks = [this](uint64_t term) { listener_.rescued(term); },
            .ended =
                [this](bool frees_memory) {
                  if (frees_memory) rescued_ = CheckpointNameOf(rescue_->call().saved);
                  listener_.over();
                }});
  }
  rescue_->SetLinked(is_linked);
}

std::string CheckpointStation::Directory() const {
  const std::string& known = machine_.terms().directory;
  return known.empty() ? setup_.directory : known;
}

bool CheckpointStation::MayEnd(bool has_hope) {
  if (rescue_ != nullptr && rescue_->Holds()) return false;
  return !has_hope || !machine_.IsAwaited();
}

RescueAnswer CheckpointStation::Memory() {
  shelf_.Refresh();
  RescueAnswer answer{.host = HostName(),
                      .term = term_,
                      .images = shelf_.Images(),
                      .equal = machine_.equal(),
                      .shards = {}};
  answer.images.insert(answer.images.end(), on_disk_.begin(), on_disk_.end());
  return answer;
}

void CheckpointStation::WriteRescued(const RescueShard& shard, const RescueCall& call) {
  ArenaShelf::Place place{setup_.node, shard.image_of.value(), false};
  std::shared_ptr<const ImageClaim> claim = shelf_.Claim(place, call.saved);
  place.is_copy = true;
  if (claim == nullptr) claim = shelf_.Claim(place, call.saved);
  ShardTask task{.directory = Directory(),
                 .place = {.name = CheckpointNameOf(call.saved),
                           .job_id = setup_.job_id,
                           .saved = call.saved,
                           .rank = shard.rank.value(),
                           .file_of = shard.file_of.value()},
                 .claim = std::move(claim),
                 .term = call.term,
                 .is_rescue = true};
  const bool is_on_disk = shard.image_of == shard.rank && tier_.Has(place.rank, call.saved);
  if (task.claim == nullptr && !is_on_disk) {
    return rescue_->OnShard({task, core::StationMachine::NotHeld(call.saved), Duration()});
  }
  worker_->Add(std::move(task));
}

// ---- results of the workers ----

void CheckpointStation::OnDone(CheckpointDone done) {
  std::visit([this](auto& one) { On(one); }, done);
}

void CheckpointStation::On(ShardDone& done) {
  done.task.claim.reset();
  if (done.task.is_rescue) return rescue_->OnShard(done);
  TellClaims(done.problem);
  LogInfo("shard_written", {{"rank", done.task.place.rank},
                            {"checkpoint", done.task.place.name},
                            {"ms", done.took.milliseconds()},
                            {"problem", done.problem}});
  Feed(
      core::ShardEnded{Rank(done.task.place.rank), done.task.place.saved, done.problem, done.took});
}

void CheckpointStation::On(const ClaimGone&) { claims_->Missed(); }

void CheckpointStation::SetTerm(uint64_t term) {
  term_ = term;
  claims_->SetTerm(term);
}

void CheckpointStation::On(const ImageFreed&) {
  on_disk_ = tier_.Images();
  Feed(core::ImagesChanged{});
}

void CheckpointStation::On(const CommitDone& done) {
  TellClaims(done.problem);
  LogInfo("checkpoint_commit", {{"checkpoint", done.name}, {"problem", done.problem}});
  Feed(core::CommitEnded{done.name, done.problem, done.bytes, done.has_own_parameters,
                         done.is_passed});
}

void CheckpointStation::On(const LookDone& done) {
  if (done.is_for_world) {
    if (done.directory != world_look_.directory) return;
    uint64_t generation = done.stored.has_value() ? done.stored->saved.generation : 0;
    for (const ckpt::PassedOver& one : done.passed_over) {
      generation = std::max(generation, SavedStepIn(one.name).value_or(SavedStep()).generation);
    }
    return EndWorldLook(generation);
  }
  if (!done.problem.empty()) {
    LogWarning("storage_away", {{"directory", done.directory}, {"why", done.problem}});
  }
  passed_over_ = {done.stored.has_value() ? done.stored->name : "", done.passed_over};
  Feed(core::StorageLooked{done.stored, done.problem, done.is_refused, done.is_newer});
}

void CheckpointStation::On(const FetchDone& done) {
  LogInfo("checkpoint_fetched", {{"checkpoint", done.task.name},
                                 {"bytes", done.fetched.bytes},
                                 {"bytes_here", done.fetched.bytes_there},
                                 {"problem", done.problem}});
  core::StoredFetched fetched{.peer = done.task.asked_by,
                              .name = done.task.name,
                              .problem = done.problem,
                              .was_here = done.fetched.bytes == 0 && done.problem.empty()};
  const bool is_damaged = done.kind == FailureKind::kDamaged ||
                          done.kind == FailureKind::kInvalid || done.kind == FailureKind::kNotFound;
  if (!done.problem.empty()) {
    fetched.end = done.kind == FailureKind::kBusy ? core::StoredFetched::End::kAway
                  : is_damaged                    ? core::StoredFetched::End::kDamaged
                                                  : core::StoredFetched::End::kRefused;
  }
  Feed(fetched);
}

// ---- the machine ----

void CheckpointStation::Feed(const core::StationEvent& event) {
  for (const core::StationAction& action : machine_.Step(MonotonicNow(), event)) {
    std::visit([this](const auto& one) { Do(one); }, action);
  }
  Rearm();
}

void CheckpointStation::Rearm() {
  const Instant deadline = machine_.NextDeadline();
  if (deadline == armed_for_) return;
  if (timer_ != 0) reactor_.Cancel(std::exchange(timer_, 0));
  armed_for_ = deadline;
  if (deadline.is_max()) return;
  timer_ = reactor_.CallAt(deadline.nanoseconds(), [this] {
    timer_ = 0;
    armed_for_ = Instant::Max();
    if (machine_.IsReportDue(MonotonicNow())) {
      Report();
    } else {
      Feed(core::StationTimePassed{});
    }
  });
}

void CheckpointStation::Report() {
  std::vector<MemoryImage> images = shelf_.Images();
  // Images on disk come after those in memory, which are faster to read.
  images.insert(images.end(), on_disk_.begin(), on_disk_.end());
  Feed(core::ReportDue{std::move(images)});
}

void CheckpointStation::SeeCopies() {
  core::CopiesSeen seen;
  for (const MemoryImage& image : shelf_.Images()) {
    if (image.is_copy && image.place == setup_.node) seen.here.insert({image.rank, image.saved});
  }
  if (peers_ != nullptr) seen.failed = peers_->Failures();
  Feed(seen);
}

// Full speed if a rank waits for storage; else training has priority.
void CheckpointStation::SetRate() {
  worker_->SetRate(BytesPerSecond(machine_.terms().policy, persist_bytes_, machine_.IsUrgent()));
}

void CheckpointStation::Do(const core::SendReport& action) { listener_.report(action.report); }

void CheckpointStation::Do(const core::SetHold& action) {
  const auto arena = shelf_.Find({setup_.node, action.rank});
  if (arena != nullptr && arena->hold() != action.from) arena->SetHold(action.from);
}

void CheckpointStation::Do(const core::ClearHolds&) {
  for (const MemoryImage& image : shelf_.Images()) {
    if (image.place != setup_.node || image.is_copy) continue;
    shelf_.Find({image.place, image.rank.value()})->SetHold(std::nullopt);
  }
}

void CheckpointStation::Do(const core::KeepImages& action) {
  std::vector<std::shared_ptr<const ImageClaim>> kept;
  for (const MemoryImage& image : shelf_.Images()) {
    if (image.place != setup_.node || image.is_copy) continue;
    const ArenaShelf::Place place{image.place, image.rank.value(), false};
    if (!action.Keeps(image.saved, shelf_.Find(place)->slot_count())) continue;
    if (auto claim = shelf_.Claim(place, image.saved)) kept.push_back(std::move(claim));
  }
  kept_ = std::move(kept);  // images that stay were claimed twice for a moment
}

void CheckpointStation::TellClaims(const std::string& problem) {
  if (problem.starts_with(kRefusedForGood)) claims_->Taken(problem);
}

std::string CheckpointStation::WhyLost(const std::string& directory) const {
  const std::string& by = claims_->lost_to();
  return by.empty() ? "" : Concat(kRefusedForGood, by, " has saved to ", directory);
}

void CheckpointStation::Do(const core::WriteImage& action) {
  if (std::string why = WhyLost(action.directory); !why.empty()) {
    return Feed(core::ShardEnded{action.shard.rank, action.saved, std::move(why), Duration()});
  }
  const ArenaShelf::Place place{setup_.node, action.shard.rank.value()};
  std::shared_ptr<const ImageClaim> claim = shelf_.Claim(place, action.saved);
  // An earlier agent may have written it to the disk, and the rank has overwritten the slot since.
  if (claim == nullptr && !tier_.Has(place.rank, action.saved)) {
    claim = shelf_.Claim({place.node, place.rank, true}, action.saved);
    if (claim == nullptr) {
      return Feed(core::ShardEnded{action.shard.rank, action.saved,
                                   core::StationMachine::NotHeld(action.saved), Duration()});
    }
  }
  if (persisting_ != action.saved) persist_bytes_ = 0;
  persisting_ = action.saved;
  if (claim != nullptr && action.shard.file_of == action.shard.rank) {
    persist_bytes_ += claim->image.file_bytes;
  }
  worker_->Add(ShardTask{action.directory,
                         {.name = action.name,
                          .job_id = setup_.job_id,
                          .saved = action.saved,
                          .rank = place.rank,
                          .file_of = action.shard.file_of.value()},
                         claim,
                         claims_->known(),
                         term_});
}

void CheckpointStation::Do(const core::WriteCommit& action) {
  if (std::string why = WhyLost(action.directory); !why.empty()) {
    return Feed(core::CommitEnded{action.order.name, std::move(why), 0, false});
  }
  worker_->Add(CommitTask{
      action.directory, {action.order, setup_.job_id}, action.keep, claims_->known(), term_});
}

void CheckpointStation::Do(const core::LookInStorage& action) {
  reader_->Add(LookTask{action.directory, action.except});
}

void CheckpointStation::Do(const core::FetchImages& action) {
  if (peers_ == nullptr) return;
  peers_->Take(action.orders, action.drop_others, action.directory);
  SeeCopies();
}

void CheckpointStation::Do(const core::DropCopy& action) {
  shelf_.RemoveCopy({setup_.node, action.rank, true});
  SeeCopies();
}

void CheckpointStation::Do(const core::FetchStored& action) {
  reader_->Add(FetchTask{action.directory, action.name, {action.ranks, action.part}, action.peer});
}

void CheckpointStation::Do(const core::ShareReading& action) {
  if (peers_ != nullptr) peers_->reading().Set(action.readers, action.directory);
}

void CheckpointStation::Do(const core::EndStation&) { listener_.over(); }

}  // namespace paceline::agent

#include "paceline/core/checkpoint/station_machine.h"

#include <algorithm>

#include "paceline/base/mark.h"

namespace paceline::core {
namespace {

// Urgent news is collected for this long, because ranks of a node save at the same moment.
constexpr Duration kGather = Duration::Milliseconds(5);
constexpr Duration kUrgentEvery = Duration::Milliseconds(20);
constexpr size_t kDamagedToldMax = 8;
// A healthy storage answers sooner than this.
constexpr Duration kBlindAfter = Duration::Seconds(10);
constexpr Duration kStorageLookAgain = Duration::Milliseconds(500);
constexpr uint32_t kLookDoublingsMax = 5;
// Steps for which a node remembers equal files; an arena has as many slots.
constexpr size_t kEqualStepsMax = 4;

}  // namespace

std::vector<StationAction> StationMachine::Step(Instant now, const StationEvent& event) {
  now_ = now;
  std::visit([this](const auto& one) { On(one); }, event);
  if (look_at_ <= now_) Look();
  if (!is_blind_ && blind_at_ <= now_) {
    MARK("storage is not seen");
    is_blind_ = true;
    ReportSoon(true);
    TellSilence();
  }
  if (fetch_at_ <= now_) {
    fetch_at_ = Instant::Max();
    AnswerRestores();
  }
  return std::exchange(actions_, {});
}

Instant StationMachine::NextDeadline() const {
  const Instant blind_at = is_blind_ ? Instant::Max() : blind_at_;
  return std::min({report_at_, look_at_, blind_at, fetch_at_});
}

bool StationMachine::IsUrgent() const {
  return order_.is_ending || std::any_of(peers_.begin(), peers_.end(), [](const auto& one) {
           return one.second.awaited.has_value();
         });
}

CheckpointTerms StationMachine::terms() const {
  if (order_.terms.has_value()) return *order_.terms;
  return terms_.value_or(CheckpointTerms{});
}

std::string StationMachine::NotHeld(SavedStep saved) {
  return "its memory does not hold " + Say(saved) + " any more";
}

std::optional<AnswerProblem> StationMachine::Refuses(uint64_t rank, uint64_t generation,
                                                     const CheckpointTerms& terms) {
  if (generation_.value() > generation) {
    MARK("rank of an older world may not save");
    return AnswerProblem{0, "this rank is of a world that has ended",
                         "its generation is " + std::to_string(generation) + ", the node's is " +
                             ToString(generation_),
                         "nothing to do: this rank is about to be stopped"};
  }
  const std::optional<CheckpointTerms>& known = order_.terms.has_value() ? order_.terms : terms_;
  if (known.has_value() && *known != terms && !setup_.is_private) {
    return AnswerProblem{0,
                         "ranks disagree about their checkpoints",
                         "the job saves to " + known->directory + " and keeps " +
                             std::to_string(known->keep) + ", rank " + std::to_string(rank) +
                             " asks for another directory, number or interval",
                         "give every rank's Checkpointer the same arguments, and use one in a job",
                         "",
                         /*is_final=*/true};
  }
  terms_ = terms;
  return std::nullopt;
}

// ---- ranks ----

void StationMachine::On(const RankOpened& event) {
  Peer& peer = peers_[event.peer];
  peer.rank = event.rank;
  peer.generation = event.generation;
  finished_.erase(static_cast<uint32_t>(event.rank));
  HoldAll();  // its arena may be older than this station
  if (!has_looked_ && !is_looking_ && look_at_.is_max()) Look();
  ReportSoon(true);
}

void StationMachine::On(const RankClosed& event) {
  if (peers_.erase(event.peer) == 0) return;
  ReportSoon(true);
}

void StationMachine::On(const RankFinished& event) {
  const auto peer = peers_.find(event.peer);
  if (peer == peers_.end()) return;
  finished_.insert(static_cast<uint32_t>(peer->second.rank));
  ReportSoon(true);
}

void StationMachine::On(const ArenaReady&) {
  holds_.clear();  // a new arena has no holds
  HoldAll();
  actions_.push_back(KeepImages{order_.replicated, order_.copying});
}

void StationMachine::On(const ImageSealed& event) {
  const auto peer = peers_.find(event.peer);
  if (peer == peers_.end()) return;
  const Peer& rank = peer->second;
  ReportSoon(order_.hold.has_value() || rank.awaited.has_value() ||
             rank.awaits_replica.has_value());
}

void StationMachine::On(const RestoreAsked& event) {
  const auto peer = peers_.find(event.peer);
  if (peer == peers_.end()) return;
  if (event.after.has_value()) return AnswerAgain(event, peer->second);
  peer->second.wants_restore = true;
  peer->second.world_size = event.world_size;
  TellSilence();
  AnswerRestores();
}

void StationMachine::On(const DurabilityAsked& event) {
  const auto peer = peers_.find(event.peer);
  if (peer == peers_.end()) return;
  peer->second.awaited = SavedStep{peer->second.generation, event.step, event.branch};
  peer->second.is_closing = event.is_closing;
  if (event.is_closing) finished_.insert(static_cast<uint32_t>(peer->second.rank));
  AnswerWaits();
  ReportSoon(true);
}

void StationMachine::On(const ReplicaAsked& event) {
  const auto peer = peers_.find(event.peer);
  if (peer == peers_.end()) return;
  peer->second.awaits_replica = SavedStep{peer->second.generation, event.step, event.branch};
  AnswerReplicaWaits();
  ReportSoon(true);
}

void StationMachine::On(const WaitWithdrawn& event) {
  const auto peer = peers_.find(event.peer);
  if (peer == peers_.end()) return;
  peer->second.awaited.reset();
  peer->second.awaits_replica.reset();
  actions_.push_back(AnswerWithdrawn{event.peer});
  ReportSoon(false);
}

void StationMachine::On(const CheckpointFoundDamaged& event) {
  if (damaged_.size() >= kDamagedToldMax) return;
  damaged_.insert(event.name);
  Look();
  ReportSoon(true);
}

void StationMachine::On(const ImageFoundDamaged& event) {
  // A copy can be fetched again.
  if (event.is_copy && event.place == setup_.node) actions_.push_back(DropCopy{event.rank});
  bad_images_.insert({event.place, event.rank, event.is_copy, event.saved});
  ReportSoon(true);
}

void StationMachine::On(const ImagesChanged&) { ReportSoon(true); }

void StationMachine::On(const CopiesSeen& event) {
  const bool is_news = copies_.here != event.here || copies_.failed != event.failed;
  copies_ = event;
  are_copies_known_ = true;
  // A damaged image that left memory is forgotten: if it comes again, it was verified.
  std::erase_if(bad_images_, [&](const auto& bad) {
    const auto& [place, rank, is_copy, saved] = bad;
    return is_copy && place == setup_.node && !event.here.contains({Rank(rank), saved});
  });
  AnswerRestores();
  if (is_news) ReportSoon(true);
}

// ---- the node ----

void StationMachine::On(const GenerationCarriedOut& event) {
  if (event.generation == generation_) return;
  generation_ = event.generation;
  finished_.clear();
  holds_.clear();
  actions_.push_back(ClearHolds{});
  ReportSoon(true);
}

// The next rank that opens triggers a look.
void StationMachine::On(const LookExpired&) {
  has_looked_ = false;
  looks_again_ = is_looking_;
  stored_.reset();
  ReportSoon(true);
}

void StationMachine::On(const PeersOpened& event) {
  peer_memory_ = event;
  ReportSoon(true);
}

void StationMachine::On(const StationLinked&) {
  told_.reset();
  ReportSoon(true);
}

// Until a look succeeds, or has failed for a while, no report of this node is complete.
void StationMachine::Look() {
  look_at_ = Instant::Max();
  is_looking_ = true;
  if (blind_at_.is_max()) blind_at_ = now_ + kBlindAfter;
  has_looked_ = false;
  std::set<std::string> except = damaged_;
  except.insert(order_.damaged.begin(), order_.damaged.end());
  actions_.push_back(LookInStorage{terms().directory, std::move(except)});
}

void StationMachine::On(const StorageLooked& event) {
  is_looking_ = false;
  // A look that expired while it was in progress is repeated.
  if (std::exchange(looks_again_, false)) return Look();
  if (!event.problem.empty()) {
    // If the directory cannot be read, it does not count as empty: training would start from
    // nothing.
    MARK("storage cannot be looked at");
    const uint32_t doublings = std::min(looks_failed_++, kLookDoublingsMax);
    look_at_ = now_ + kStorageLookAgain * (int64_t{1} << doublings);
    return AnswerUnseen(event);
  }
  looks_failed_ = 0;
  blind_at_ = Instant::Max();
  is_blind_ = false;
  has_seen_storage_ = true;
  has_looked_ = !event.stored.has_value() || !IsKnownDamaged(event.stored->name);
  stored_ = event.stored;
  ReportSoon(true);
}

bool StationMachine::IsKnownDamaged(const std::string& name) const {
  const std::vector<std::string>& told = order_.damaged;
  return damaged_.contains(name) || std::find(told.begin(), told.end(), name) != told.end();
}

// ---- orders ----

void StationMachine::On(const CheckpointOrdered& event) {
  const CheckpointOrder& order = event.order;
  const bool was_over = order_.is_over;
  const bool was_ending = order_.is_ending;
  const bool has_more_damaged = order.damaged != order_.damaged;
  // Earlier failures do not answer a rank that waits now: the step is tried again for it.
  const bool has_failed =
      order_.persist.has_value() && !order.persist.has_value() && !order.problem.empty();
  std::optional<RestoreOrder> known = std::move(order_.restore);
  std::vector<FetchOrder> fetches = std::move(order_.fetch);
  const std::vector<StorageReader> readers = std::move(order_.readers);
  order_ = order;
  // A later master may not know the sources any more, but the decision's sources are valid. Their
  // fetches continue: without them a rank would wait for ever.
  const bool is_poorer = known.has_value() && order_.restore.has_value() &&
                         known->generation == order_.restore->generation &&
                         order_.restore->from == RestoreOrder::From::kMemory &&
                         order_.restore->sources.empty();
  if (is_poorer) {
    order_.restore = std::move(known);
    if (order_.fetch.empty()) order_.fetch = std::move(fetches);
  }
  if (has_more_damaged && terms_.has_value()) Look();
  // An order that was withdrawn may be given again, and is then tried again.
  if (!order_.persist.has_value()) {
    persisting_.reset();
    shards_.clear();
  }
  if (!order_.commit.has_value()) commit_.reset();
  NoteEqual();
  StartPersist();
  HoldAll();
  actions_.push_back(KeepImages{order_.replicated, order_.copying});
  StartCommit();
  if (peer_memory_.has_value()) {
    are_copies_known_ = false;
    actions_.push_back(FetchImages{order_.fetch, order_.drop_others, terms().directory});
  }
  if (order_.readers != readers) {
    actions_.push_back(ShareReading{order_.readers, terms().directory});
  }
  AnswerRestores();
  AnswerWaits();
  AnswerReplicaWaits();
  if (has_failed) {
    TellUnstored(Patience::kNone, "repair the storage; paceline tries again with a later step");
    TellRefusal();
  }
  if (order_.is_ending && !was_ending) ReportSoon(true);
  if (order_.is_over && !was_over) actions_.push_back(EndStation{});
}

// A later master knows equal files only from the nodes.
void StationMachine::NoteEqual() {
  for (const EqualFiles& equal : order_.equal) {
    if (std::find(equal_.begin(), equal_.end(), equal) == equal_.end()) equal_.push_back(equal);
  }
  std::set<SavedStep> steps;
  for (const EqualFiles& equal : equal_) steps.insert(equal.saved);
  while (steps.size() > kEqualStepsMax) steps.erase(steps.begin());
  std::erase_if(equal_, [&](const EqualFiles& equal) { return !steps.contains(equal.saved); });
}

void StationMachine::HoldAll() {
  for (const auto& [peer, rank] : peers_) {
    const auto number = static_cast<uint32_t>(rank.rank);
    const auto [known, is_new] = holds_.try_emplace(number);
    if (!is_new && known->second == order_.hold) continue;
    known->second = order_.hold;
    actions_.push_back(SetHold{number, order_.hold});
  }
}

void StationMachine::StartPersist() {
  if (!order_.persist.has_value() || order_.persist == persisting_) return;
  persisting_ = order_.persist;
  shards_.clear();
  // A second try may fail at once for the same reason. Its report would equal the last one and
  // would not be sent, and the master would wait for ever.
  told_.reset();
  for (const PersistOrder::Shard& shard : persisting_->shards) {
    shards_[shard.rank.value()] = {.rank = shard.rank, .saved = persisting_->saved};
    actions_.push_back(WriteImage{terms().directory, persisting_->name, persisting_->saved, shard});
  }
  ReportSoon(true);
}

void StationMachine::On(const ShardEnded& event) {
  const auto state = shards_.find(event.rank.value());
  if (state != shards_.end() && state->second.saved == event.saved) {
    state->second.is_durable = event.problem.empty();
    state->second.problem = event.problem;
    state->second.took = event.took;
  }
  ReportSoon(true);
}

void StationMachine::StartCommit() {
  if (!order_.commit.has_value()) return;
  const bool is_known = commit_.has_value() && commit_->name == order_.commit->name;
  if (is_known && commit_->problem.empty()) return;
  commit_ = CommitState{.name = order_.commit->name};
  const CheckpointTerms terms = this->terms();
  actions_.push_back(WriteCommit{terms.directory, terms.keep, *order_.commit});
}

void StationMachine::On(const CommitEnded& event) {
  if (commit_.has_value() && commit_->name == event.name) {
    commit_->is_done = event.problem.empty();
    commit_->problem = event.problem;
    commit_->bytes = event.bytes;
    commit_->has_own_parameters = event.has_own_parameters;
  }
  // The job may have to go on from there, so the master must hear of it.
  if (event.is_passed && !is_looking_) Look();
  ReportSoon(true);
}

// ---- reports ----

CheckpointReport StationMachine::MakeReport(const std::vector<MemoryImage>& images) const {
  CheckpointReport report;
  // Until it has looked at storage, a node's report is incomplete. The look waits for the node's
  // first rank, which knows where storage is, even if older images are here. If the look fails, the
  // report says so, and the master decides how to use the rest.
  report.is_blind = is_blind_;
  report.generation = has_looked_ || is_blind_ ? generation_ : Generation();
  report.terms = terms_;
  report.images = images;
  std::erase_if(report.images, [&](const MemoryImage& image) {
    return bad_images_.contains({image.place, image.rank.value(), image.is_copy, image.saved});
  });
  for (const auto& [rank, state] : shards_) report.shards.push_back(state);
  report.commit = commit_;
  report.stored = stored_;
  for (const auto& [peer, rank] : peers_) {
    if (!rank.awaited.has_value()) continue;
    report.flush = std::max(report.flush.value_or(*rank.awaited), *rank.awaited);
    report.is_closing = report.is_closing || rank.is_closing;
  }
  report.finished.assign(finished_.begin(), finished_.end());
  report.damaged.assign(damaged_.begin(), damaged_.end());
  report.place = setup_.node;
  if (peer_memory_.has_value()) {
    report.address = peer_memory_->address;
    report.domain = peer_memory_->domain;
    report.failed = copies_.failed;
  }
  for (const EqualFiles& equal : equal_) {
    const auto is_one = [&](const MemoryImage& image) {
      return image.saved == equal.saved && image.file_root == equal.file_root;
    };
    if (std::any_of(report.images.begin(), report.images.end(), is_one)) {
      report.equal.push_back(equal);
    }
  }
  report.is_final = order_.is_ending && peers_.empty();
  return report;
}

void StationMachine::ReportSoon(bool is_urgent) {
  if (!report_at_.is_max() && (is_report_urgent_ || !is_urgent)) return;
  is_report_urgent_ = is_urgent;
  const Duration every = is_urgent ? kUrgentEvery : setup_.report_every;
  report_at_ = std::max(now_ + kGather, told_at_ + every);
}

void StationMachine::On(const ReportDue& event) {
  report_at_ = Instant::Max();
  is_report_urgent_ = false;
  CheckpointReport report = MakeReport(event.images);
  // A node whose ranks never made a Checkpointer reports nothing, except at the end.
  const bool has_nothing = !report.terms.has_value() && report.images.empty();
  const bool is_silent = !told_.has_value() && has_nothing && !report.is_final;
  if (is_silent || told_ == report) return;
  told_ = report;
  told_at_ = now_;
  actions_.push_back(SendReport{std::move(report)});
}

}  // namespace paceline::core

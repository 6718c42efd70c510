#include "paceline/sim/master.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "paceline/base/mark.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// The wall clock at virtual time 0.
constexpr Instant kWallEpoch = Instant::FromNanoseconds(1'700'000'000'000'000'000);
constexpr Duration kFullDiskRetry = Duration::Milliseconds(250);
constexpr uint64_t kDroppedRecord = 7;   // for the canary
constexpr uint64_t kRecordsAPiece = 16;  // of a copy

JobSpec SubmittedSpec(const Options& options) {
  JobSpec spec = options.spec;
  if (options.canary == Canary::kHastySilence) spec.timers.lost_after_max = spec.timers.lost_after;
  return spec;
}

}  // namespace

Master::Master(SimWorld& world, uint64_t term)
    : world_(world), term_(term), copies_("master's host", kRecordsAPiece) {
  job_.emplace();
}

// The real master's clock: its start plus monotonic progress. The start is the wall clock or the
// newest record, whichever is later. Clamping each reading instead would stop time until a clock
// that was set back has caught up.
Instant Master::clock() const { return wall_at_start_ + (world_.queue().now() - started_at_); }

void Master::Start() {
  if (is_on_ || has_finished_) return;
  is_on_ = true;
  is_frozen_ = is_committing_ = false;
  started_at_ = world_.queue().now();
  wall_at_start_ = kWallEpoch + Duration::Nanoseconds(started_at_.nanoseconds()) + clock_offset_;
  incarnation_ = world_.NextIncarnation();
  has_waited_ = false;
  armed_for_ = Instant::Max();
  batches_.clear();
  backlog_.clear();
  held_.clear();
  connection_of_.clear();
  copies_ = core::JournalCopies("master's host", kRecordsAPiece);
  job_.emplace();
  pace_desk_ = core::PaceDesk();
  time_desk_ = core::TimeDesk();
  memory_desk_ = core::MemoryDesk();
  world_.trace().Add(started_at_, "master", "start", incarnation_);
  if (term_ == 0 || !durable_.empty()) return Begin(core::History::kOwn);
  succession_.emplace(clock(),
                      core::Succession::Setup{.term = term_, .survivors = world_.CountAgents()});
  PassSuccession();
}

void Master::Begin(core::History history) {
  succession_.reset();
  size_t count = durable_.size();
  if (world_.options().canary == Canary::kForgetRecord && count > 0) --count;
  for (size_t i = 0; i < count; ++i) job_->Restore(durable_[i]);
  if (world_.options().canary != Canary::kClockRunsBack) {
    wall_at_start_ = std::max(wall_at_start_, job_->state().last_record_at);
  }
  if (!is_former_ && history != core::History::kOwn) world_.MasterSucceeded();
  if (!is_former_) world_.MasterRestored();
  if (durable_.empty()) Step(core::JobSubmitted{SubmittedSpec(world_.options())});
  Step(core::MasterStarted{.incarnation = incarnation_, .term = term_, .history = history});
  if (!is_former_) world_.MasterIsUp();
  for (const core::Event& event : std::exchange(held_, {})) Feed(event);
}

// ---- the succession ----

void Master::PassSuccession() {
  while (is_on_ && !is_frozen_ && succession_.has_value()) {
    const std::optional<core::SuccessionAction> action = succession_->Next(clock());
    if (!action.has_value()) return Rearm();
    if (const auto* fetch = std::get_if<core::FetchPiece>(&*action)) {
      Fetch(*fetch);
      continue;
    }
    const core::History history = std::get<core::BeginJob>(*action).history;
    world_.trace().Add(world_.queue().now(), "master", "succeeds", fetched_.size());
    if (history == core::History::kCopy) {
      MARK("a master begins with a copy of the journal");
      durable_ = std::exchange(fetched_, {});
    } else {
      MARK("a master begins without a past");
    }
    Begin(history);
  }
}

void Master::Fetch(const core::FetchPiece& fetch) {
  if (fetch.from == 0) fetched_.clear();
  world_.SendToAgent(fetch.connection, [from = fetch.from](AgentHost& agent, ConnectionId id) {
    agent.OnJournalWanted(id, from);
  });
}

void Master::OnRegister(uint64_t incarnation, const core::NodeRegistered& event,
                        const CopyOffer& copy) {
  if (!IsMine(incarnation)) return;
  if (is_frozen_) {
    backlog_.push_back([=, this] { OnRegister(incarnation, event, copy); });
    return;
  }
  if (succession_.has_value() && world_.network().IsOpen(event.connection, End::kMaster)) {
    succession_->Offered(clock(), event.connection, event.report.name, copy);
  }
  Receive(incarnation, event.connection, event);
  PassSuccession();
}

void Master::OnPiece(uint64_t incarnation, ConnectionId connection, const Piece& piece) {
  if (!IsMine(incarnation) || !succession_.has_value()) return;
  if (is_frozen_) {
    backlog_.push_back([=, this] { OnPiece(incarnation, connection, piece); });
    return;
  }
  if (piece.from != fetched_.size()) return;  // a second answer
  fetched_.insert(fetched_.end(), piece.content.begin(), piece.content.end());
  succession_->Fetched(clock(), connection, fetched_.size());
  PassSuccession();
}

// ---- copies of the journal ----

void Master::OnHeld(uint64_t incarnation, ConnectionId connection, uint64_t taken) {
  if (!IsMine(incarnation)) return;
  if (is_frozen_) {
    backlog_.push_back([=, this] { OnHeld(incarnation, connection, taken); });
    return;
  }
  for (const auto& [node, current] : connection_of_) {
    if (current == connection) copies_.Held(node, taken);
  }
  SendCopies();
}

void Master::SendCopies() {
  if (!world_.options().copies_journal) return;
  for (const core::JournalCopies::Send& send : copies_.Next(durable_.size())) {
    const auto it = connection_of_.find(send.node);
    if (it == connection_of_.end()) continue;
    const auto begin = durable_.begin() + static_cast<std::ptrdiff_t>(send.from);
    Piece piece{.term = term_,
                .from = send.from,
                .content = {begin, begin + static_cast<std::ptrdiff_t>(send.size)},
                .is_whole = send.is_whole,
                .keepers = copies_.keepers()};
    world_.SendToAgent(it->second, [piece = std::move(piece)](AgentHost& agent, ConnectionId id) {
      agent.OnJournalPiece(id, piece);
    });
  }
}

void Master::Crash() {
  if (!is_on_) return;
  is_on_ = is_frozen_ = false;
  size_t survived = 0;
  if (is_committing_ && !is_disk_full_) {
    size_t in_flight = 0;
    for (const Batch& batch : batches_) in_flight += batch.records.size();
    survived = in_flight == 0 ? 0 : world_.prng().Below(in_flight + 1);
  }
  world_.trace().Add(world_.queue().now(), "master", "crash", survived);
  size_t left = survived;
  for (Batch& batch : batches_) {
    const size_t taken = std::min(left, batch.records.size());
    batch.records.resize(taken);
    Append(batch);
    left -= taken;
  }
  batches_.clear();
  backlog_.clear();
  succession_.reset();
  if (is_former_) return world_.network().CloseAll(incarnation_);
  world_.MasterDied(incarnation_);
}

void Master::LoseHost() {
  world_.trace().Add(world_.queue().now(), "master", "host_lost", durable_.size());
  is_on_ = is_frozen_ = false;
  is_former_ = true;
  batches_.clear();
  backlog_.clear();
  succession_.reset();
  world_.network().AbandonAll(incarnation_);
}

void Master::Freeze() {
  if (!is_on_ || is_frozen_) return;
  is_frozen_ = true;
  frozen_at_ = world_.queue().now();
}

void Master::Thaw() {
  if (!is_on_ || !is_frozen_) return;
  is_frozen_ = false;
  pauses_.push_back({frozen_at_, world_.queue().now()});
  // After a freeze, timers may run before or after the waiting messages.
  const bool timers_first = world_.prng().Chance(1, 2);
  if (timers_first) OnDeadline(incarnation_, armed_for_);
  PassSuccession();
  while (!backlog_.empty() && is_on_ && !is_frozen_) {
    const Task task = std::move(backlog_.front());
    backlog_.pop_front();
    task();
  }
  if (is_on_ && !is_frozen_) OnDeadline(incarnation_, armed_for_);
}

// ---- events ----

void Master::Receive(uint64_t incarnation, ConnectionId connection, const core::Event& event) {
  if (!is_on_ || incarnation != incarnation_) return;
  if (std::holds_alternative<core::NodeRegistered>(event) &&
      !world_.network().IsOpen(connection, End::kMaster)) {
    return;  // no answer could be sent
  }
  if (world_.options().canary == Canary::kTrustStreams) {
    core::NodesHeard heard;
    for (const auto& [node, current] : connection_of_) heard.nodes.push_back(node);
    Feed(heard);
  }
  Feed(event);
}

void Master::ReceiveSamples(uint64_t incarnation, NodeId node,
                            const std::vector<RankSample>& samples,
                            const std::vector<RankTimes>& times) {
  if (!is_on_ || is_frozen_ || incarnation != incarnation_) return;
  if (const auto told = time_desk_.Take(clock(), job_->state(), node, times)) Step(*told);
  if (samples.empty()) return;
  const auto judged = pace_desk_.Take(job_->state(), node, samples);
  if (judged.has_value()) Step(*judged);
}

void Master::ReceiveMemory(uint64_t incarnation, NodeId node, const NodeMemory& memory) {
  if (!is_on_ || is_frozen_ || incarnation != incarnation_) return;
  const auto due = memory_desk_.Take(job_->state(), {.now = clock()}, node, memory);
  if (due.has_value()) Step(*due);
}

void Master::OnEndOfStream(uint64_t incarnation, ConnectionId connection) {
  if (!is_on_ || incarnation != incarnation_) return;
  for (const auto& [node, current] : connection_of_) {
    if (current != connection) continue;
    const NodeId id = node;
    connection_of_.erase(id);
    copies_.Went(id);
    Feed(core::NodeDisconnected{id, connection});
    SendCopies();
    return;
  }
  if (!succession_.has_value()) return;
  succession_->Left(clock(), connection);
  std::erase_if(held_, [&](const core::Event& event) {
    const auto* registered = std::get_if<core::NodeRegistered>(&event);
    return registered != nullptr && registered->connection == connection;
  });
  PassSuccession();
}

void Master::Feed(const core::Event& event) {
  if (!is_on_) return;
  if (is_frozen_) {
    backlog_.push_back([this, event] { Feed(event); });
    return;
  }
  if (succession_.has_value()) {
    held_.push_back(event);
    return;
  }
  Step(event);
}

// A canary: no step is announced for storage before the world is as old as the interval.
void Master::HoldBack(Instant now, core::Actions* actions) const {
  if (now - job_->state().world_since > world_.options().saves.terms.policy.time) return;
  for (core::Effect& effect : actions->effects) {
    if (auto* order = std::get_if<core::OrderCheckpoint>(&effect)) order->order.hold.reset();
  }
}

void Master::Step(const core::Event& event) {
  const Instant now = clock();
  core::Actions actions = job_->Step(now, event);
  if (world_.options().canary == Canary::kRestartInterval) HoldBack(now, &actions);
  if (!is_former_) world_.Decided(now, event, actions);
  if (!actions.records.empty() || !actions.effects.empty()) {
    batches_.push_back(
        Batch{std::move(actions.records), std::move(actions.effects), job_->state().last_seq});
    if (world_.options().canary == Canary::kEffectBeforeDurable) {
      Run(batches_.back());
      batches_.back().effects.clear();
    }
    RunReady();
  }
  Rearm();
}

// ---- the journal ----

// Batches without records need no disk once all earlier batches are durable.
void Master::RunReady() {
  while (is_on_ && !is_committing_ && !batches_.empty() && batches_.front().records.empty()) {
    const Batch batch = std::move(batches_.front());
    batches_.pop_front();
    Run(batch);
  }
  if (is_on_ && !is_committing_ && !batches_.empty()) Commit();
}

void Master::Commit() {
  is_committing_ = true;
  const Options& options = world_.options();
  Duration fsync = Duration::Nanoseconds(
      world_.prng().Between(options.fsync_min.nanoseconds(), options.fsync_max.nanoseconds()));
  if (options.canary == Canary::kWildClock) {
    fsync += Duration::Nanoseconds(static_cast<int64_t>(options.outside));
  }
  const size_t batch_count = batches_.size();
  world_.queue().After(fsync, [this, incarnation = incarnation_, batch_count] {
    Committed(incarnation, batch_count);
  });
}

void Master::Committed(uint64_t incarnation, size_t batch_count) {
  if (!is_on_ || incarnation != incarnation_) return;
  if (is_frozen_) {
    backlog_.push_back([this, incarnation, batch_count] { Committed(incarnation, batch_count); });
    return;
  }
  if (is_disk_full_) {
    if (!std::exchange(has_waited_, true)) Step(core::JournalStalled{});
    world_.queue().After(kFullDiskRetry,
                         [this, incarnation, batch_count] { Committed(incarnation, batch_count); });
    return;
  }
  // All records of one write become durable together; then their effects run in order.
  std::vector<Batch> group;
  for (size_t i = 0; i < batch_count; ++i) {
    group.push_back(std::move(batches_.front()));
    batches_.pop_front();
  }
  for (const Batch& batch : group) {
    Append(batch);
    if (!is_on_) return;  // a planned crash at exactly this record
  }
  for (const Batch& batch : group) Run(batch);
  is_committing_ = false;
  SendCopies();
  if (is_on_ && std::exchange(has_waited_, false)) Step(core::JournalCaughtUp{});
  RunReady();
}

void Master::Append(const Batch& batch) {
  for (const core::Record& record : batch.records) {
    const bool is_dropped =
        world_.options().canary == Canary::kDropRecord && record.seq == RecordSeq(kDroppedRecord);
    if (!is_dropped) {
      durable_.push_back(record);
      if (is_former_) {
        world_.PersistedByFormer(record);
      } else {
        world_.Persisted(record);
      }
    }
    world_.trace().Add(world_.queue().now(), "journal", core::FactName(record.fact),
                       record.seq.value(),
                       world_.trace().is_full() ? core::Sentence(record) : std::string());
    const bool is_due = crash_countdown_ > 0 && --crash_countdown_ == 0;
    if (is_on_ && (is_due || world_.options().crash_at_record == record.seq.value())) {
      is_committing_ = false;
      batches_.clear();
      Crash();
      return;
    }
  }
}

// ---- the deadline ----

void Master::Rearm() {
  if (!is_on_ || world_.options().canary == Canary::kIgnoreSilence) return;
  const Instant deadline =
      succession_.has_value() ? succession_->NextDeadline() : job_->NextDeadline();
  if (deadline.is_max() || deadline == armed_for_) return;
  armed_for_ = deadline;
  const Instant now = clock();
  const Duration wait = deadline > now ? deadline - now : Duration();
  world_.queue().After(
      wait, [this, incarnation = incarnation_, deadline] { OnDeadline(incarnation, deadline); });
}

void Master::OnDeadline(uint64_t incarnation, Instant at) {
  if (!is_on_ || is_frozen_ || incarnation != incarnation_) return;
  if (at != armed_for_ || at.is_max()) return;
  armed_for_ = Instant::Max();
  if (succession_.has_value()) return PassSuccession();
  Step(core::TimePassed{});
}

}  // namespace paceline::sim

#include "paceline/master/event_loop.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "paceline/base/log.h"
#include "paceline/core/detect/detectors.h"
#include "paceline/core/tasks/task_scale.h"
#include "paceline/master/handlers.h"
#include "paceline/master/succession/memo.h"
#include "paceline/wire/codec/history_codec.h"
#include "paceline/wire/codec/journal_codec.h"

namespace paceline::master {
namespace {

// How long an operator has to store the job's end. The launcher in the master's pod kills a master
// that is still there 5 s after the end.
constexpr Duration kEndKeptWithin = Duration::Milliseconds(4500);

}  // namespace

EventLoop::EventLoop(EventQueue* queue, Journal* journal, Outside* outside)
    : queue_(queue),
      journal_(journal),
      outside_(outside),
      clock_(Instant()),
      executor_(outside),
      copies_(outside),
      stack_desk_(outside),
      ring_desk_(outside) {
  executor_.OnAdmitted([this](NodeId node, ConnectionId connection) {
    const auto link = job_.links().find(node);
    const std::string host = link == job_.links().end() ? "" : link->second.boot_id;
    copies_.Admitted(node, connection, job_.state().NameOf(node), host);
  });
  executor_.OnEnded([this] { return EndHistory(); });
}

void EventLoop::SetTerm(Term term) {
  term_ = std::move(term);
  copies_.Enable(term_.term, term_.own_host);
}

void EventLoop::SetLeases(LeaseHost* leases) {
  leases_ = leases;
  executor_.SetLeasePort(static_cast<uint32_t>(leases->port()));
}

void EventLoop::SetNotifier(Notifier* notifier, std::string run_dir) {
  notices_.Start(notifier, std::move(run_dir));
}

void EventLoop::SetHistory(HistoryKeeper* keeper, JobHistory own) {
  history_.Start(keeper, std::move(own));
}

void EventLoop::Begin(const JobSpec& spec, const std::vector<core::Record>& records, bool resumes) {
  resumes_ = resumes;
  submitted_ = spec;
  // The first term's master has nothing to ask for. Nor has one that was started anew.
  const uint64_t own_term = TermIn(records);
  const bool is_next = term_.term > 1 && own_term < term_.term;
  if (!is_next) {
    if (!records.empty()) executor_.SetDurable(records.back().seq);
    Fold(spec, records, core::History::kOwn);
    return;
  }
  std::string content;
  for (const core::Record& record : records) wire::AppendCopied(record, &content);
  successor_.emplace(
      clock_.Now(), outside_,
      core::Succession::Setup{
          .term = term_.term, .survivors = term_.survivors, .own = {own_term, content.size(), {}}},
      spec.job_id, records);
  own_ = records;
  PassSuccession();
}

void EventLoop::PassSuccession() {
  if (!successor_.has_value()) return;
  std::optional<Successor::Begun> begun = successor_->Next(clock_.Now());
  if (!begun.has_value()) return;
  successor_.reset();
  std::vector<core::Record> records = std::exchange(own_, {});
  const size_t written = records.size();
  if (begun->history == core::History::kCopy) records = std::move(begun->records);
  if (written > 0) executor_.SetDurable(RecordSeq(written));
  LogInfo("succession", {{"records", records.size()}, {"written", written}});
  if (records.size() > written) {
    const auto first = records.begin() + static_cast<std::ptrdiff_t>(written);
    journal_->Append({first, records.end()});
  }
  Fold(submitted_, records, begun->history);
  for (const MasterEvent& event : begun->held) Handle(event);
}

void EventLoop::Fold(const JobSpec& spec, const std::vector<core::Record>& records,
                     core::History history) {
  copies_.Append(records);
  for (const core::Record& record : records) {
    job_.Restore(record);
    Fold(record);
    notices_.Fold(record);
  }
  if (!records.empty()) clock_ = Clock(records.back().at);
  last_step_at_ = clock_.Now();
  copies_.SetDurable(executor_.durable());
  executor_.SetWelcome(spec, core::HeartbeatInterval(spec));
  Step(core::JobSubmitted{spec});
  // The journal's spec, even if the spec file was edited since.
  executor_.SetWelcome(job_.state().spec, core::HeartbeatInterval(job_.state().spec));
  executor_.SetMaster(std::max(term_.term, job_.state().term), job_.state().master_incarnation + 1);
  Step(core::MasterStarted{.incarnation = job_.state().master_incarnation + 1,
                           .resumes = resumes_,
                           .term = term_.term,
                           .history = history,
                           .memo = ReadMemo(term_.memo)});
  history_.Recall(&scale_desk_);
  const std::optional<core::SizeRequested> first = scale_desk_.First(job_.state());
  if (first.has_value() && job_.WhyNotSize(first->nodes).empty()) Step(*first);
}

void EventLoop::NoteSizes(Instant now) {
  history_.Note(now, scale_desk_);
  if (job_.state().spec.scale != ScaleMode::kAuto) return;  // nothing can be due
  const auto due = scale_desk_.Due(
      job_.state(), {.now = now, .created_at = created_at_, .steps_left = StepsLeft(job_)});
  if (due.has_value() && job_.WhyNotSize(due->nodes).empty()) Step(*due);
}

std::optional<Duration> EventLoop::Outlook() const {
  const int64_t steps = StepsLeft(job_);
  const double per_second = pace_.PerSecond(clock_.Now());
  if (steps < 0 || per_second <= 0) return std::nullopt;
  constexpr double kYear = 365.0 * 24 * 3600;
  const double left = std::min(static_cast<double>(steps) / per_second, kYear);
  return Duration::Seconds(static_cast<int64_t>(left) + 1);
}

void EventLoop::Run() {
  for (;;) {
    const Instant now = clock_.Now();
    if (IsOver(now)) {
      history_.Close(now, scale_desk_);
      return;
    }
    stack_desk_.PassTime(now);
    ring_desk_.PassTime(now);
    Instant deadline = std::min(job_.NextDeadline(), stack_desk_.deadline());
    deadline = std::min(deadline, ring_desk_.deadline());
    if (successor_.has_value()) deadline = std::min(deadline, successor_->NextDeadline());
    if (over_at_.has_value()) deadline = std::min(deadline, EndOfGoodbye());
    deadline = std::min(deadline, executor_.NextRepeat());
    if (executor_.HasOperator()) deadline = std::min(deadline, summary_.next_at());
    const Duration wait = deadline.is_max() ? Duration::Infinite() : deadline - now;
    const std::vector<MasterEvent> events = queue_->Take(std::max(wait, Duration()));
    HearOfLeases();
    for (const MasterEvent& event : events) Handle(event);
    PassSuccession();
    if (clock_.Now() >= job_.NextDeadline()) Step(core::TimePassed{});
    TellSummary(clock_.Now());
    executor_.RepeatEnd(clock_.Now());
  }
}

void EventLoop::HearOfLeases() {
  if (leases_ == nullptr) return;
  const core::LeasedWorkDone work = leases_->work();
  if (work == leased_work_) return;
  leased_work_ = work;
  Step(work);
}

void EventLoop::TellSummary(Instant now) {
  if (!executor_.HasOperator() || now < summary_.next_at()) return;
  if (!successor_.has_value()) {  // until then this master does not know the job
    const core::ChosenSize& size = job_.state().size;
    if (size.seq <= executor_.durable()) summary_.SetSize(size);
    if (summary_.NeedsMeasures(now)) summary_.SetMeasures(now, MeasuresOf(Metrics()));
  }
  const std::optional<wire::Summary> summary =
      summary_.Take(now, Brief(), counts_.Of(job_), job_.state());
  if (summary.has_value()) executor_.Tell(*summary);
}

std::string EventLoop::EndHistory() {
  const wire::JobStatus status = Status();
  const auto summary = summary_.Take(clock_.Now(), status, counts_.Of(job_), job_.state());
  if (summary.has_value()) executor_.Tell(*summary);
  return wire::EncodeHistory({status, last_events_.Rows(names_)});
}

// All clients were told of the end and have disconnected, or had time to do so.
bool EventLoop::IsOver(Instant now) {
  if (!executor_.ended().has_value()) return false;
  if (!over_at_.has_value()) {
    over_at_ = now;
    ServeWatchers();
  }
  const bool has_told_all = executor_.has_told_end() && registered_.empty() &&
                            executor_.supervisors() == 0 && watchers_.empty();
  if (!has_told_all) return now >= EndOfGoodbye();
  return now >= std::min(executor_.may_come_back_until(), *over_at_ + kEndKeptWithin);
}

Instant EventLoop::EndOfGoodbye() const {
  const Instant linger = *over_at_ + job_.state().spec.timers.finish_linger;
  const Instant longest = *over_at_ + kEndKeptWithin;
  if (executor_.IsEndMissed()) return std::max(linger, longest);
  // A browser that shows the page gets the job's end, too.
  if (watchers_.contains(kPageWatch)) return std::max(linger, longest);
  return std::max(linger, std::min(executor_.may_come_back_until(), longest));
}

void EventLoop::Handle(const MasterEvent& event) {
  ++counters_.events;
  if (successor_.has_value() && successor_->Take(clock_.Now(), event)) return;
  const Handlers handlers{*this};
  const auto visit = [&](const auto& body) { handlers(body); };
  if (const auto* server = std::get_if<wire::ServerEvent>(&event)) {
    std::visit(visit, *server);
  } else if (const auto* journal = std::get_if<JournalEvent>(&event)) {
    std::visit(visit, *journal);
  } else if (const auto* metrics = std::get_if<MetricsAsked>(&event)) {
    handlers(*metrics);
  } else if (const auto* pulse = std::get_if<PulseAsked>(&event)) {
    handlers(*pulse);
  } else if (const auto* brief = std::get_if<BriefAsked>(&event)) {
    handlers(*brief);
  } else if (const auto* heat = std::get_if<HeatAsked>(&event)) {
    handlers(*heat);
  } else if (const auto* moved = std::get_if<TablesTaken>(&event)) {
    Step(moved->taken);
  } else {
    handlers(std::get<HealthAsked>(event));
  }
}

void EventLoop::Fold(const core::Record& record) {
  names_.Fold(record);
  goodput_.Fold(record);
  summary_.Fold(record);
  last_events_.Fold(record);
  if (std::holds_alternative<core::JobCreated>(record.fact)) created_at_ = record.at;
  const auto* committed = std::get_if<core::CheckpointCommitted>(&record.fact);
  if (committed != nullptr) stored_at_ = record.at;
  if (committed != nullptr && leases_ != nullptr) {
    leases_->Committed(static_cast<uint64_t>(committed->saved.step));
  }
}

void EventLoop::Step(const core::Event& event) {
  const Instant now = clock_.Now();
  core::Actions actions = job_.Step(now, event);
  counts_.Note(job_, event, !actions.records.empty());
  pace_.Note(now, {.generation = job_.state().generation,
                   .step = job_.world_step(),
                   .step_count = job_.step_count()});
  if (const auto since = pace_.SinceLast(now)) last_step_at_ = now - *since;
  const Duration took = clock_.Now() - now;
  counters_.step_time += took;
  counters_.step_time_max = std::max(counters_.step_time_max, took);
  counters_.records += actions.records.size();
  counters_.effects += actions.effects.size();
  for (const core::Note& note : actions.notes) {
    Log(note.level == core::Note::Level::kWarning ? LogLevel::kWarning : LogLevel::kInfo, "note",
        {{"text", note.text}});
  }
  for (const core::Record& record : actions.records) {
    Fold(record);
    notices_.Add(record, names_, job_.state().spec);
    LogInfo(core::FactName(record.fact),
            {{"seq", record.seq}, {"sentence", core::Sentence(record, names_.worlds())}});
  }
  copies_.Append(actions.records);
  const RecordSeq after = job_.state().last_seq;
  if (!actions.records.empty()) journal_->Append(std::move(actions.records));
  for (core::Effect& effect : actions.effects) executor_.Add(after, std::move(effect));
  TellRouting(after);
}

// After the record is durable, and before any later order: a table server that is started after a
// move must not hear of the routing before it.
void EventLoop::TellRouting(RecordSeq after) {
  const core::JobState& state = job_.state();
  if (leases_ == nullptr || state.routing.empty() || state.moves_seq == told_routing_) return;
  told_routing_ = state.moves_seq;
  executor_.AddReply(after, [leases = leases_, text = EncodeNews(core::NewsFor(state))] {
    leases->SetRouting(text);
  });
}

HostView EventLoop::View(Instant now) const {
  return {.pid = getpid(),
          .goodput = goodput_.At(now).runtime,
          .steps_per_second = pace_.PerSecond(now),
          .since_step = pace_.SinceLast(now),
          .is_still = pace_.IsStill(now),
          .created_at = created_at_,
          .journal = journal_state_,
          .durable = executor_.durable(),
          .pending_nodes = &pending_nodes_,
          .scale_desk = &scale_desk_};
}

wire::JobStatus EventLoop::Status() const {
  const Instant now = clock_.Now();
  return BeforeTheJob(MakeJobStatus(job_, now, View(now)));
}

wire::JobStatus EventLoop::Brief() const {
  const Instant now = clock_.Now();
  return BeforeTheJob(MakeJobBrief(job_, now, View(now)));
}

// Until a master of a new term has the job's history, it says what it waits for.
wire::JobStatus EventLoop::BeforeTheJob(wire::JobStatus status) const {
  if (!successor_.has_value()) return status;
  status.job_id = submitted_.job_id;
  status.name = submitted_.name;
  status.phase = core::PhaseName(core::Phase::kWaiting);
  status.pending = "a new master " + successor_->Pending();
  return status;
}

MetricSource EventLoop::Metrics() {
  MetricSource source{.status = Brief(),
                      .counts = counts_.Of(job_),
                      .counters = counters_,
                      .goodput = goodput_.At(clock_.Now()),
                      .last_step_at = last_step_at_,
                      .stored_at = stored_at_,
                      .notices = notices_.counts()};
  source.counters.agents_connected = executor_.connections();
  source.counters.effects_waiting = executor_.waiting();
  return source;
}

void EventLoop::ServeWatcher(wire::WatchId id, Watcher* watcher) {
  if (watcher->is_reading) return;
  const uint64_t durable = executor_.durable().value();
  if (watcher->from_seq <= durable) {
    watcher->is_waiting = false;
    watcher->is_reading = true;
    const uint64_t count = std::min<uint64_t>(watcher->count_max, durable - watcher->from_seq + 1);
    journal_->Read(id.value(), RecordSeq(watcher->from_seq), static_cast<uint32_t>(count));
    return;
  }
  if (watcher->follow && !executor_.ended().has_value()) {
    watcher->is_waiting = true;
    return;
  }
  outside_->SendEvents(id, {}, true);
}

void EventLoop::ServeWatchers() {
  for (auto& [id, watcher] : watchers_) {
    if (watcher.is_waiting) ServeWatcher(id, &watcher);
  }
}

}  // namespace paceline::master

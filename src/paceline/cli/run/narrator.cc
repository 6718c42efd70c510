#include "paceline/cli/run/narrator.h"

#include <time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

#include "paceline/agent/agent_files.h"
#include "paceline/agent/ranks/exit_cause.h"
#include "paceline/base/file_text.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/run/earlier_runs.h"
#include "paceline/core/budget.h"

namespace paceline::cli {
namespace {

constexpr Duration kReconnectPause = Duration::Milliseconds(50);
// How long to wait for the last event after the end of the job, if no journal can be read.
constexpr Duration kLastEventWait = Duration::Seconds(1);

// In place of the rank that failed first, if none did.
constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

std::string ClockTime(int64_t time_ns) {
  const time_t seconds = static_cast<time_t>(time_ns / 1'000'000'000);
  tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d", local.tm_hour, local.tm_min,
                local.tm_sec);
  return text.data();
}

// True for events that only scripts need, or that the next event's sentence includes.
bool IsQuiet(const wire::JobEvent& event) {
  const std::string& kind = event.kind;
  if (kind == "pairs_judged") return DetailOf(event, "all_good") == "true";
  return kind == "job_created" || kind == "progress_made" || kind == "master_took_over" ||
         kind == "time_accounted";
}

}  // namespace

Narrator::Narrator(wire::ControlClient& client, std::string run_dir, Console& console,
                   std::optional<uint64_t> told_seq, std::string job_id)
    : run_dir_(std::move(run_dir)),
      console_(console),
      told_seq_(told_seq),
      job_id_(std::move(job_id)),
      client_(client),
      thread_([this] { Listen(); }) {}

Narrator::~Narrator() { Leave(); }

bool Narrator::IsOverWithin(Duration patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  return wake_.wait_for(lock, std::chrono::nanoseconds(patience.nanoseconds()),
                        [this] { return is_over_; });
}

Story Narrator::Finish() {
  const bool has_journal = ::access((run_dir_ + "/journal.db").c_str(), R_OK) == 0;
  if (!has_journal) IsOverWithin(kLastEventWait);
  Leave();
  if (!has_journal || story_.is_whole) return story_;
  const Check problem =
      EventsFromJournal({.run_dir = run_dir_}, next_seq_, [this](const auto& event) {
        Take(event);
        return true;
      });
  // A master that never served has left no event, and the launcher says why it ended.
  if (problem.has_value() && next_seq_ > 1) {
    console_.Narrate(
        Concat("paceline: the last events of the job cannot be read: ", problem->what));
  }
  return story_;
}

void Narrator::Leave() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  client_.Cancel();
  thread_.join();
}

// Returns false if this thread should end.
bool Narrator::Pause(Duration duration) {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, std::chrono::nanoseconds(duration.nanoseconds()),
                 [this] { return is_ending_; });
  return !is_ending_;
}

// Prints one line about the events up to now, and counts them.
absl::Status Narrator::TellBefore() {
  EarlierRuns before;
  std::vector<wire::JobEvent> events;
  RETURN_IF_ERROR(
      client_.WatchEvents(/*from_seq=*/1, /*follow=*/false, [&](const wire::JobEvent& event) {
        before.Add(event);
        events.push_back(event);
        return true;
      }));
  told_seq_ = before.last_seq();
  for (const wire::JobEvent& event : events) Take(event);
  const std::string text = before.Text(job_id_);
  if (!text.empty()) console_.Narrate(Concat("paceline: ", text));
  return absl::OkStatus();
}

void Narrator::Listen() {
  bool goes_on = true;
  while (goes_on) {
    absl::Status status;
    if (!told_seq_.has_value()) status = TellBefore();
    if (status.ok()) {
      status = client_.WatchEvents(next_seq_, /*follow=*/true, [this](const auto& event) {
        Take(event);
        return true;
      });
    }
    goes_on = !status.ok() && Pause(kReconnectPause);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
  }
  wake_.notify_all();
}

void Narrator::Take(const wire::JobEvent& event) {
  next_seq_ = event.seq + 1;
  if (event.kind == "world_formed") {
    ++story_.worlds;
    story_.root.reset();
  } else if (event.kind == "tasks_placed") {
    story_.root.reset();
  } else if (event.kind == "job_resumed") {
    story_ = Story{.not_stored = story_.not_stored};
  } else if (event.kind == "rank_failed") {
    ++story_.failures;
    TakeFailure(event);
  }
  story_.is_whole = event.kind == "job_finished";
  if (event.seq > told_seq_.value_or(0) && !IsQuiet(event)) Tell(event);
  if (event.kind == "checkpoint_not_stored") {
    story_.not_stored = NotStored{.step = event.step.value_or(-1),
                                  .directory = DetailOf(event, "directory"),
                                  .reason = DetailOf(event, "reason"),
                                  .is_final = DetailOf(event, "final") == "true"};
  } else if (event.kind == "checkpoint_committed" && story_.not_stored.has_value()) {
    story_.not_stored.reset();
    if (event.seq > told_seq_.value_or(0)) {
      console_.Narrate(
          Concat("paceline ", ClockTime(event.time_ns),
                 "  storage accepts writes again: ", Visible(DetailOf(event, "directory"))));
    }
  }
}

void Narrator::TakeFailure(const wire::JobEvent& event) {
  if (story_.root.has_value() || !event.rank.has_value()) return;
  RootFailure root;
  root.node = event.node;
  root.rank = *event.rank;
  root.generation = event.generation;
  root.world = DetailOf(event, "world");
  root.step = event.step;
  root.sentence = event.sentence;
  root.headline = DetailOf(event, "headline");
  const std::string how = DetailOf(event, "how");
  root.was_started = how != "not_started";
  const auto code = ParseWhole<int>(DetailOf(event, "code"));
  if (how == "exited") root.rank_exit_code = code;
  if (how == "signaled" && code.has_value()) root.rank_exit_code = 128 + *code;
  const agent::AgentFiles files{run_dir_, event.node};
  const std::string record =
      ReadText(files.ErrorRecord(event.generation, *event.rank), agent::kErrorRecordBytesMax);
  const auto pid = ParseWhole<int32_t>(DetailOf(event, "pid"));
  root.traceback = agent::TracebackOf(record, pid.value_or(0));
  story_.root = std::move(root);
}

void Narrator::Tell(const wire::JobEvent& event) {
  FoldTraces(event);
  std::string text =
      Concat("paceline ", ClockTime(event.time_ns), "  ", Visible(reason_told_.Shorten(event)));
  if (event.kind == "rank_failed" && event.rank.has_value()) {
    TellFailure(event, std::move(text));
  } else {
    console_.Narrate(std::move(text));
  }
}

// Folds the traces of a world whose end no rank has caused by itself, or whose cause stays unknown.
void Narrator::FoldTraces(const wire::JobEvent& event) {
  const bool is_decided =
      event.kind == "world_formed" || event.kind == "tasks_placed" || event.kind == "stop_decided";
  if (is_decided && broken_.has_value()) {
    console_.Blame(broken_->first, broken_->second);
    broken_.reset();
  }
  if (event.kind != "world_ended" || broken_.has_value() || blamed_in_ >= event.generation) return;
  console_.Blame(event.generation, kNoRank);
}

void Narrator::TellFailure(const wire::JobEvent& event, std::string text) {
  ExitCause cause;
  cause.headline = DetailOf(event, "headline");
  const std::string role = DetailOf(event, "role");
  if (!role.empty()) {
    cause.role = role == "cascade" ? ExitCause::Role::kCascade : ExitCause::Role::kCause;
  }
  const bool explains = DetailOf(event, "explains") == "true";
  const bool is_first = explains || DetailOf(event, "charged") == "true";
  if (!is_first) return console_.Narrate(std::move(text));
  if (!explains && core::LooksLikeCascade(cause)) {
    broken_ = {event.generation, *event.rank};
    return console_.Narrate(std::move(text));
  }
  broken_.reset();
  blamed_in_ = event.generation;
  console_.NarrateCause(std::move(text), event.generation, *event.rank);
}

}  // namespace paceline::cli

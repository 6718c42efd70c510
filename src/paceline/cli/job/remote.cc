#include "paceline/cli/job/remote.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/ckpt/rescue.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/text.h"
#include "paceline/core/goodput/ledger.h"
#include "paceline/core/job.h"
#include "paceline/master/journal/journal.h"
#include "paceline/master/report/event_row.h"
#include "paceline/master/report/status.h"

namespace paceline::cli {
namespace {

constexpr size_t kTokenBytesMax = 256;
constexpr int kPauseMilliseconds = 100;  // between looks at a job whose master is being restarted

Problem EndedElsewhere(const JobPlace& place) {
  return Problem{.code = "PL-E030",
                 .what = Concat(place.id, " has ended with exit code ", place.end->exit_code, ": ",
                                Visible(place.end->reason)),
                 .where = place.run_dir,
                 .why = Concat("its history is on the master's host, ", place.master_addr),
                 .fix = "the same command there"};
}

Problem RunDirGone(const JobPlace& place) {
  return Problem{
      .code = "PL-E030",
      .what = place.id + " runs, but its run directory is gone",
      .where = place.run_dir,
      .why = "it was removed or moved to another disk while the job ran; nothing can be read there",
      .fix = "paceline stop " + NamedByFlag(place)};
}

Instant Monotonic() { return Instant::FromNanoseconds(agent::MonotonicNs()); }

}  // namespace

Problem MasterIsAway(const JobPlace& place) {
  const KnownCheckpoints known = CheckpointsKnownIn(place.run_dir);
  if (!known.rescued.empty() && !place.is_running()) {
    return Problem{.code = "PL-E030",
                   .what = place.id + " has ended here without its master",
                   .where = place.run_dir,
                   .why = Concat("`paceline ckpt rescue` brought its newest step to storage: ",
                                 known.directory, "/", known.rescued),
                   .fix =
                       "the same `paceline run …` on the hosts that are left, with another "
                       "--run-dir; its Checkpointer goes on from this step"};
  }
  // If the launcher on the master's host still runs, `paceline run --resume` is refused there.
  std::string fix =
      "`paceline status` on the master's host; if nothing runs there any more, paceline run "
      "--resume there";
  if (place.is_running()) fix += "; or `paceline stop` here to end this host's part";
  const std::string rescue = RescueCommand(place.run_dir);
  if (!rescue.empty()) {
    fix += Concat("; if that host is lost for good, `", rescue,
                  "` brings the newest step in the other hosts' memory to storage");
  }
  return Problem{.code = "PL-E030",
                 .what = "the master of " + place.id + " does not answer",
                 .where = place.master_addr,
                 .why =
                     "it runs on another host, which has the journal; that host is down or cut "
                     "off, or the job has ended there",
                 .fix = fix};
}

Result<std::vector<core::Record>> RecordsFromJournal(const JobPlace& place) {
  if (place.is_joined) return place.end.has_value() ? EndedElsewhere(place) : MasterIsAway(place);
  auto records = master::ReadJournal(place.run_dir + "/journal.db");
  if (records.ok() && !records->empty()) return *std::move(records);
  const bool is_there = records.ok();
  if (!is_there && !absl::IsNotFound(records.status())) return ProblemFrom(records.status());
  const std::string job = place.id.empty() ? "this job" : place.id;
  const std::string said = ShellWord(place.id.empty() ? place.run_dir : place.id);
  return Problem{.code = "PL-E030",
                 .what = "there is no status of " + job + " yet",
                 .where = place.run_dir,
                 .why = is_there ? "no master answers on this host, and the journal has no record: "
                                   "it was emptied, or each master died before its first record"
                                 : "no master answers on this host, and there is no journal to "
                                   "read",
                 .fix = place.is_running() ? "paceline wait --for running --job " + said
                                           : "see the logs in " + place.run_dir + "/logs"};
}

// A job that ended without storage keeps its last step in memory. The journal names the step, and
// the folder of the images says that this host still has them.
void AddLeftInMemory(const core::Job& job, wire::CheckpointStatus* status) {
  const auto& left = job.state().checkpoints.not_stored;
  if (!left.has_value() || !left->is_final) return;
  status->problem = Concat("step ", left->saved.step, " is not in storage: ", left->reason);
  const agent::ArenaHomes homes = agent::ArenaHomesOfUser();
  for (const std::string& home : {homes.memory, homes.disk}) {
    const std::string images = Concat(home, "/", job.state().spec.job_id);
    if (access(images.c_str(), F_OK) == 0) status->memory_step = left->saved.step;
  }
}

// The status of a job without a master, from its journal. No node counts as connected. On a host
// that joined, only how the job ended is known.
Result<wire::JobStatus> StatusFromJournal(const JobPlace& place) {
  if (place.is_joined && place.end.has_value()) {
    return wire::JobStatus{.job_id = place.id,
                           .phase = "finished",
                           .exit_code = place.end->exit_code,
                           .final_reason = place.end->reason};
  }
  auto records = RecordsFromJournal(place);
  if (!records.ok()) return records.problem();
  core::Job job;
  core::GoodputLedger goodput;
  for (const core::Record& record : *records) {
    job.Restore(record);
    goodput.Fold(record);
  }
  master::HostView host{.journal = "ok"};
  Instant end = WallNow();
  if (!records->empty()) {
    host.created_at = records->front().at;
    host.durable = records->back().seq;
    if (job.state().phase == core::Phase::kFinished) end = records->back().at;
  }
  host.goodput = goodput.At(end).runtime;
  wire::JobStatus status = master::MakeJobStatus(job, end, host);
  if (status.job_id.empty()) status.job_id = place.id;
  if (status.step < 0) status.step = job.state().step_max;
  if (job.state().phase == core::Phase::kFinished) AddLeftInMemory(job, &status.checkpoints);
  return status;
}

void EachEvent(const std::vector<core::Record>& records, uint64_t from_seq,
               const std::function<bool(const wire::JobEvent&)>& take) {
  master::NodeNames names;
  for (const core::Record& record : records) {
    names.Fold(record);
    if (record.seq.value() < from_seq) continue;
    if (!take(master::MakeJobEvent(record, names))) return;
  }
}

Check EventsFromJournal(const JobPlace& place, uint64_t from_seq,
                        const std::function<bool(const wire::JobEvent&)>& take) {
  const auto records = RecordsFromJournal(place);
  if (!records.ok()) return records.problem();
  EachEvent(*records, from_seq, take);
  return std::nullopt;
}

bool IsAway(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

Asked AskUntil(const JobPlace& place, const Patience& patience,
               const std::function<bool(const JobPlace& now, Duration limit)>& ask) {
  const Instant deadline = Monotonic() + patience.in_all;
  while (true) {
    const auto told = ReadJobPlace(place.run_dir);
    const JobPlace& now = told.ok() ? *told : place;
    // Before it is asked: what it may have done since then is in the answer.
    const bool has_somebody = now.is_running();
    const Duration left = deadline - Monotonic();
    if (ask(now, std::min(left, patience.each))) return Asked::kAnswered;
    if (!has_somebody && !patience.also_for_nobody) return Asked::kNobodyRunsIt;
    if (Monotonic() >= deadline) return Asked::kTimeIsUp;
    poll(nullptr, 0, kPauseMilliseconds);
  }
}

Result<JobPlace> JobOf(Invocation& invocation, JobUse use) {
  if (invocation.place != nullptr) return *invocation.place;
  auto found =
      FindJob(invocation.environment, invocation.line.Text("job"), use, CurrentDirectory());
  if (!found.ok()) return found.problem();
  if (!found->note.empty()) invocation.out.Say(found->note);
  found->place.on = LookupOr(invocation.environment, kOnVariable, "");
  return std::move(found->place);
}

Result<wire::ControlClientOptions> ControlOptions(const JobPlace& place, Duration timeout) {
  if (place.master_addr.empty()) {
    return Problem{.code = "PL-E030",
                   .what = "the master of " + place.id + " has no address yet",
                   .where = place.run_dir + "/job.json",
                   .why = "it is just starting, or it failed to start",
                   .fix = "see " + place.run_dir + "/logs/master.log"};
  }
  const std::string path = place.run_dir + "/token";
  const std::string token(Trimmed(ReadOwnText(path, kTokenBytesMax)));
  if (!wire::IsToken(token)) {
    return Problem{.code = "PL-E102",
                   .what = "the job's token cannot be read",
                   .where = path,
                   .why = "it is missing, damaged, a link, or not yours",
                   .fix = "run the command as the user who started the job"};
  }
  wire::ControlClientOptions options{
      .address = place.master_addr, .credentials = {.token = token}, .timeout = timeout};
  auto tls = wire::LoadCredentials(place.run_dir + "/tls", token);
  if (tls.ok()) options.credentials = *std::move(tls);
  return options;
}

Result<wire::JobStatus> StatusOf(const JobPlace& place, Duration timeout) {
  if (place.kept != nullptr) return place.kept->status;
  if (place.is_run_dir_gone) return RunDirGone(place);
  // No process that could answer is alive, or the job has ended and its launcher only cleans up.
  // Then the journal has the answer, and there is nothing to wait for.
  // A master on another host may go on without this host's part.
  if (!place.has_master() && (!place.is_joined || place.is_running())) {
    auto status = StatusFromJournal(place);
    if (!place.is_running() || (status.ok() && status->phase == "finished")) return status;
  }
  auto options = ControlOptions(place, timeout);
  if (!options.ok()) {
    if (options.problem().code == "PL-E030") return StatusFromJournal(place);
    return options.problem();
  }
  wire::ControlClient client(*options);
  auto status = client.GetStatus();
  if (status.ok()) return *std::move(status);
  // Without this host's part, another job may have the address by now, and refuses the token.
  const bool is_left = place.is_joined && !place.is_running();
  if (!is_left && !IsAway(status.status())) return ProblemFrom(status.status());
  return StatusFromJournal(place);
}

Check EventsOf(const JobPlace& place, uint64_t from_seq, bool follow,
               const std::function<bool(const wire::JobEvent&)>& take) {
  if (place.kept != nullptr) {
    for (const wire::JobEvent& event : place.kept->events) {
      if (event.seq >= from_seq && !take(event)) break;
    }
    return std::nullopt;
  }
  if (place.is_run_dir_gone) return RunDirGone(place);
  uint64_t next = from_seq;
  bool wants_more = true;
  bool is_over = false;  // until the job is resumed
  const auto take_new = [&](const wire::JobEvent& event) {
    next = event.seq + 1;
    is_over = event.kind == "job_finished";
    wants_more = take(event);
    return wants_more;
  };
  while (true) {
    auto now = ReadJobPlace(place.run_dir);
    const bool is_left = now.ok() && now->is_joined && !now->is_running();
    const bool is_alive = now.ok() && (now->is_running() || is_left);
    auto options = is_alive ? ControlOptions(*now, Duration::Seconds(5))
                            : Result<wire::ControlClientOptions>(Problem{.code = "PL-E030"});
    if (!options.ok()) {
      if (options.problem().code != "PL-E030") return options.problem();
      if (!is_alive || !follow) return EventsFromJournal(place, next, take_new);
    } else {
      wire::ControlClient client(*options);
      const absl::Status status = client.WatchEvents(next, follow, take_new);
      if (!wants_more || (status.ok() && (is_over || !follow))) return std::nullopt;
      if (!status.ok() && is_left) {
        return now->end.has_value() ? EndedElsewhere(*now) : MasterIsAway(*now);
      }
      if (!status.ok() && !IsAway(status)) return ProblemFrom(status);
      if (is_over || !follow) return EventsFromJournal(place, next, take_new);
    }
    // The launcher starts a new master, or is about to end with the job.
    poll(nullptr, 0, kPauseMilliseconds);
  }
}

Result<wire::ScaleReply> AskToScale(const JobPlace& place, const wire::ScaleRequest& request) {
  constexpr Patience kPatience = {.each = Duration::Seconds(1), .in_all = Duration::Seconds(10)};
  Check problem;
  wire::ScaleReply reply;
  AskUntil(place, kPatience, [&](const JobPlace& now, Duration limit) {
    const auto options = ControlOptions(now, limit);
    if (!options.ok()) {
      problem = options.problem();
      return problem->code != "PL-E030";
    }
    const auto answer = wire::ControlClient(*options).Scale(request);
    problem = answer.ok() ? Check() : Check(ProblemFrom(answer.status()));
    if (answer.ok()) reply = *answer;
    return !problem || problem->code != "PL-E030";
  });
  if (problem) return *std::move(problem);
  return reply;
}

Result<wire::DrillReply> AskToDrill(const JobPlace& place, const wire::DrillRequest& request) {
  const auto options = ControlOptions(place, Duration::Seconds(10));
  if (!options.ok()) return options.problem();
  auto answer = wire::ControlClient(*options).Drill(request);
  if (!answer.ok()) return ProblemFrom(answer.status());
  return *std::move(answer);
}

}  // namespace paceline::cli

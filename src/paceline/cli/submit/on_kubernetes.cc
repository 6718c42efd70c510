// Commands with `--on kubernetes/NAMESPACE/JOB`. Most of them run in the pod of the job's master.
// `wait` watches the ElasticJob, `logs` reads the pods, and of a job that has ended `status`, `why`
// and `events` show what its status keeps. The page of `report` is made in the pod and written
// here.

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/wait.h"
#include "paceline/cli/page/report.h"
#include "paceline/cli/settings/value.h"
#include "paceline/cli/submit/elastic_job.h"
#include "paceline/cli/submit/kubectl.h"
#include "paceline/cli/submit/pod_logs.h"

namespace paceline::cli {
namespace {

// deploy/kubernetes/operator/command/command.go has it too.
constexpr std::string_view kRunDirInPod = "/tmp/paceline/run";
constexpr int kWatchPauseMilliseconds = 1000;

Result<ElasticJobSeen> GetElasticJob(const OnPlace& place, const Environment& environment) {
  auto found = RunTool(Kubectl(place, {"get", "elasticjob", place.job, "--output", "json"}), "",
                       environment);
  if (!found.ok()) return found.problem();
  if (found->exit_code != 0) return Refused("the job's status cannot be read", place, *found);
  return ReadElasticJob(ParseJson(found->out));
}

Problem EndedOnCluster(const OnPlace& place, const ElasticJobSeen& job, const std::string& why) {
  const std::string master = Concat(place.job, "-master-", job.master_term);
  return {.code = "PL-E048",
          .what = Concat("the job has ended: ", Visible(job.state)),
          .where = OnPlaceText(place),
          .why = why.empty() ? "its status gives no reason" : Visible(why),
          .fix = Concat("kubectl logs ", master,
                        place.space.empty() ? "" : " --namespace " + place.space)};
}

// Polls, because a watch that breaks would have to be read anew anyway. An API server that is away
// does not end the wait.
int WaitForElasticJob(const OnPlace& place, Invocation& invocation) {
  Output& out = invocation.out;
  const auto goal = WaitGoalOf(invocation.line.Text("for", "finished"));
  if (!goal.ok()) return out.Fail(goal.problem());
  const Duration patience =
      ParseDuration(invocation.line.Text("timeout")).value_or(Duration::Infinite());
  const int64_t begin = agent::MonotonicNs();
  JobPlace where;
  where.id = place.job;
  where.on = OnPlaceText(place);
  while (true) {
    std::string still;
    const auto job = GetElasticJob(place, invocation.environment);
    if (job.ok()) {
      const bool is_goal_end = goal->phase == "finished";
      if (job->has_ended && !job->exit_code.has_value() && is_goal_end) {
        return out.Fail(EndedOnCluster(place, *job, job->end_reason));
      }
      const auto code = JudgeWait(*goal, PlainStatusOf(*job, place.job), where, out);
      if (code.has_value()) return *code;
      still = Concat(job->state.empty() ? "the operator has not looked at it yet" : job->state,
                     job->wait_reason.empty() ? "" : ": " + job->wait_reason);
    } else {
      if (!IsUnreachable(job.problem().why)) return out.Fail(job.problem());
      still = job.problem().why;
    }
    const Duration waited = Duration::Nanoseconds(agent::MonotonicNs() - begin);
    if (waited >= patience) return out.Fail(WaitedTooLong(where, Visible(still), patience));
    const Duration left = patience - waited;
    const int64_t pause = left.nanoseconds() / 1'000'000 + 1;
    poll(nullptr, 0, static_cast<int>(std::min<int64_t>(pause, kWatchPauseMilliseconds)));
  }
}

// Whether a command can run in the master's pod: the pod runs, and the user may enter it.
Check CheckMasterPod(const OnPlace& place, const ElasticJobSeen& job, const std::string& master,
                     const Environment& environment) {
  auto phase =
      RunTool(Kubectl(place, {"get", "pod", master, "--output", "jsonpath={.status.phase}"}), "",
              environment);
  if (!phase.ok()) return phase.problem();
  const bool is_missing = WordsOf(*phase).find("not found") != std::string::npos;
  if (phase->exit_code != 0 && !is_missing) {
    return Refused("the master's pod cannot be looked at", place, *phase);
  }
  if (phase->exit_code != 0 || Trimmed(phase->out) != "Running") {
    return Problem{
        .code = "PL-E030",
        .what = Concat(
            "the job's master does not run: ",
            job.state.empty() ? "the operator has not looked at the job yet" : Visible(job.state)),
        .where = Concat("pod ", master),
        .why = job.wait_reason.empty() ? "its pod is starting" : Visible(job.wait_reason),
        .fix = Concat("kubectl describe elasticjob ", place.job,
                      place.space.empty() ? "" : " --namespace " + place.space)};
  }
  auto may = RunTool(Kubectl(place, {"auth", "can-i", "create", "pods", "--subresource", "exec"}),
                     "", environment);
  if (!may.ok()) return may.problem();
  if (Trimmed(may->out) != "no") return std::nullopt;
  return Problem{.code = "PL-E046",
                 .what = "you may not run commands in the job's pods",
                 .where = Concat("pod ", master),
                 .why =
                     "the command runs in the master's pod, and you lack the right "
                     "`create pods/exec`",
                 .fix = "ask for the right `create pods/exec` in the namespace"};
}

// The page is made in the pod and written here. `line` runs `paceline report` there.
int BringReport(std::vector<std::string> line, Invocation& invocation) {
  line.insert(line.end(), {"--out", "-"});
  const auto report = RunTool(line, "", invocation.environment);
  if (!report.ok()) return invocation.out.Fail(report.problem());
  if (report->exit_code == 0) return KeepReport(report->out, invocation);
  std::fputs(report->out.c_str(), stdout);
  std::fputs(report->err.c_str(), stderr);
  return report->exit_code;
}

}  // namespace

int RunOnKubernetes(const OnPlace& place, const std::vector<std::string>& words,
                    Invocation& invocation) {
  Output& out = invocation.out;
  const std::string_view command = invocation.command.name;
  if (command == "wait") return WaitForElasticJob(place, invocation);
  const auto job = GetElasticJob(place, invocation.environment);
  if (!job.ok()) return out.Fail(job.problem());
  if (command == "logs") return ShowPodLogs(place, *job, invocation);
  if (job->has_ended) {
    const JobPlace kept = KeptPlaceOf(*job, OnPlaceText(place), place.job);
    const bool is_shown = command == "status" ||
                          (!kept.kept->events.empty() && (command == "why" || command == "events"));
    if (!is_shown) return out.Fail(EndedOnCluster(place, *job, job->end_reason));
    invocation.place = &kept;
    return invocation.command.handler(invocation);
  }
  const std::string master = Concat(place.job, "-master-", job->master_term);
  if (const Check problem = CheckMasterPod(place, *job, master, invocation.environment)) {
    return out.Fail(*problem);
  }
  std::vector<std::string> line = Kubectl(place, {"exec", "pod/" + master});
  line.insert(line.end(), {"--", "paceline"});
  line.insert(line.end(), words.begin(), words.end());
  line.insert(line.end(), {"--job", std::string(kRunDirInPod)});
  if (command == "report" && ReportFile(invocation) != "-") {
    return BringReport(std::move(line), invocation);
  }
  return out.Fail(BecomeTool(line, invocation.environment));
}

}  // namespace paceline::cli

// `paceline scale`: the number of nodes of a job that trains.

#include <cstdio>
#include <string>
#include <utility>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/size_curve.h"

namespace paceline::cli {
namespace {

// As --nnodes has it.
constexpr int64_t kNodesAtMost = 100'000;

constexpr Flag kScaleFlags[] = {
    {.dest = "nodes",
     .spellings = {"--nodes"},
     .kind = FlagKind::kInteger,
     .metavar = "N",
     .help = "the number of nodes from now on, within the limits of --nnodes",
     .minimum = 1,
     .maximum = kNodesAtMost},
    {.dest = "now",
     .spellings = {"--now"},
     .kind = FlagKind::kSwitch,
     .help = "at once, even if steps are then done twice"},
    {.dest = "dry_run",
     .spellings = {"--dry-run"},
     .kind = FlagKind::kSwitch,
     .help = "only say what would happen"},
};

// Each request has a short limit, because the master may be starting.
constexpr Duration kScaleLook = Duration::Seconds(1);
constexpr Duration kScalePatience = Duration::Seconds(10);

size_t SeatedIn(const wire::JobStatus& status) {
  size_t seated = 0;
  for (const wire::NodeStatus& node : status.nodes) seated += node.state == "seated" ? 1 : 0;
  return status.generation == 0 ? 0 : seated;
}

std::string SizeLimits(const wire::SizeStatus& size) {
  std::string text = size.nodes_min == size.nodes_max
                         ? "always " + std::to_string(size.nodes_max)
                         : std::to_string(size.nodes_min) + " to " + std::to_string(size.nodes_max);
  return size.unit > 1 ? text + " in steps of " + std::to_string(size.unit) : text;
}

nlohmann::json TextOrNull(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

// What was measured, the size that follows, and why the job does not change to it by itself.
void ShowMeasured(const wire::SizeStatus& size, Output& out) {
  for (const SizeSpeed& speed : size.curve) {
    char times[64];
    std::snprintf(times, sizeof(times), "  %.4f s a step  ±%.4f  (", speed.step_seconds,
                  speed.error);
    out.DataLine(
        Concat("  ", Counted(speed.nodes, "node"), times, Counted(speed.windows, "window"), ")"));
  }
  if (!size.advice.empty()) out.DataLine("best: " + Visible(size.advice));
  if (size.hindrance.empty() || size.mode != "auto") return;
  out.DataLine("not changed: " + Visible(size.hindrance));
}

int ShowSize(const wire::JobStatus& status, Output& out) {
  const size_t seated = SeatedIn(status);
  if (out.is_json()) {
    const nlohmann::json json = {
        {"schema", "paceline.scale/1"},
        {"nodes", seated},
        {"nodes_min", status.size.nodes_min},
        {"nodes_max", status.size.nodes_max},
        {"unit", status.size.unit},
        {"chosen", status.size.chosen > 0 ? nlohmann::json(status.size.chosen) : nlohmann::json()},
        {"by_measurement", status.size.is_measured},
        {"mode", status.size.mode},
        {"best", status.size.best > 0 ? nlohmann::json(status.size.best) : nlohmann::json()},
        {"advice", TextOrNull(status.size.advice)},
        {"hindrance", TextOrNull(status.size.hindrance)},
        {"curve", CurveJson(status.size.curve)},
        {"pending", status.pending}};
    out.DataLine(PrintJson(json));
    return kExitDone;
  }
  out.DataLine(
      Concat(Visible(status.name), ": ", Counted(seated, "node"), " of ", SizeLimits(status.size),
             status.size.chosen == 0
                 ? ""
                 : ", " + std::to_string(status.size.chosen) +
                       (status.size.is_measured ? " by measurement" : " by `paceline scale`")));
  out.DataLine(Visible(status.pending));
  ShowMeasured(status.size, out);
  return kExitDone;
}

// What will happen now, in a sentence or two.
std::string Outlook(const wire::JobStatus& status, const wire::ScaleRequest& request) {
  const size_t seated = SeatedIn(status);
  const std::string size = Counted(request.nodes, "node");
  if (seated == 0) return "the job begins with " + size;
  if (request.nodes == seated) return "the job stays at " + size;
  const std::string change = "the job goes from " + std::to_string(seated) + " to " + size;
  if (request.at_once) return change + " at once, from its newest checkpoint";
  const std::string when = request.nodes > seated ? ", when they are there and it costs no step"
                                                  : ", as soon as it costs no step";
  if (status.size.can_keep) return change + when;
  return change + when +
         "; no checkpoint is known yet, so that is after the first one (--now does not wait, and "
         "all steps are done again)";
}

Problem SizeRefused(const JobPlace& place, const wire::ScaleRequest& request,
                    const std::string& why, const wire::JobStatus& status) {
  std::string fix = "choose a number of nodes out of " + SizeLimits(status.size);
  // No number would be accepted now.
  if (status.phase == "finished") {
    fix = place.run_dir.empty() || !place.on.empty()
              ? "submit the job again, with the number of nodes that it is to have"
              : ResumeCommand(place.run_dir) + ", then paceline scale";
  } else if (status.phase == "stopping") {
    fix = "nothing to do: the job ends; paceline wait " + NamedByFlag(place) + " returns then";
  }
  return {.code = "PL-E115",
          .what = place.id + " cannot have " + Counted(request.nodes, "node"),
          .where = "--nodes " + std::to_string(request.nodes),
          .why = Visible(why),
          .fix = std::move(fix)};
}

}  // namespace

FlagTable ScaleFlags() { return kScaleFlags; }

int RunScale(Invocation& invocation) {
  Output& out = invocation.out;
  const bool changes = invocation.line.Has("nodes");
  for (const char* flag : {"now", "dry_run"}) {
    if (changes || !invocation.line.Has(flag)) continue;
    return out.Fail({.code = "PL-E010",
                     .what = "paceline scale has nothing to change",
                     .where = std::string("--") + (flag[0] == 'n' ? "now" : "dry-run"),
                     .why = "no number of nodes is given",
                     .fix = "paceline scale --nodes N"});
  }
  auto place = JobOf(invocation, changes ? JobUse::kChange : JobUse::kShow);
  if (!place.ok()) return out.Fail(place.problem());
  const auto status = StatusOf(*place, kStatusPatience);
  if (!status.ok()) return out.Fail(status.problem());
  if (!changes) return ShowSize(*status, out);
  const wire::ScaleRequest request{
      .nodes = static_cast<uint32_t>(invocation.line.Number("nodes", 0)),
      .at_once = invocation.line.Has("now"),
      .dry_run = invocation.line.Has("dry_run"),
      .why = "paceline scale was typed"};
  if (status->phase == "finished") {
    return out.Fail(SizeRefused(*place, request, "the job has ended", *status));
  }
  Check problem;
  wire::ScaleReply reply;
  AskUntil(*place, {.each = kScaleLook, .in_all = kScalePatience},
           [&](const JobPlace& now, Duration limit) {
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
  if (problem) return out.Fail(*problem);
  if (!reply.refusal.empty()) return out.Fail(SizeRefused(*place, request, reply.refusal, *status));
  const std::string outlook = Outlook(*status, request);
  if (request.dry_run) {
    out.DataLine("with this size, " + outlook);
    return kExitDone;
  }
  out.Say(outlook);
  return kExitDone;
}

}  // namespace paceline::cli

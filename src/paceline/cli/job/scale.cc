// `paceline scale`: the number of nodes of a job that trains.

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/scale_log.h"
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
    {.dest = "freeze",
     .spellings = {"--freeze"},
     .kind = FlagKind::kSwitch,
     .help = "keep the present number of nodes, also with --scale auto"},
    {.dest = "log",
     .spellings = {"--log"},
     .kind = FlagKind::kSwitch,
     .help = "the sizes that were chosen, why, and what became of each"},
    {.dest = "dry_run",
     .spellings = {"--dry-run"},
     .kind = FlagKind::kSwitch,
     .help = "only say what would happen"},
};

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

int ShowLog(const JobPlace& place, Output& out) {
  std::vector<wire::JobEvent> events;
  const Check problem = EventsOf(place, 1, /*follow=*/false, [&](const wire::JobEvent& event) {
    events.push_back(event);
    return true;
  });
  if (problem) return out.Fail(*problem);
  const std::vector<SizeDecision> decisions = SizeDecisions(events);
  if (out.is_json()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const SizeDecision& one : decisions) {
      nlohmann::ordered_json row = {{"seq", one.seq},
                                    {"nodes", one.nodes},
                                    {"by_measurement", one.is_measured},
                                    {"reason", one.reason},
                                    {"outcome", OutcomeOf(one)}};
      row["reached_after_ms"] = one.reached_after.has_value()
                                    ? nlohmann::ordered_json(one.reached_after->milliseconds())
                                    : nlohmann::ordered_json();
      list.push_back(std::move(row));
    }
    out.DataLine(
        PrintJson(nlohmann::ordered_json{{"schema", "paceline.scale_log/1"}, {"decisions", list}}));
    return kExitDone;
  }
  if (decisions.empty()) {
    out.DataLine("nobody has chosen a size: the job takes the nodes that come");
    return kExitDone;
  }
  std::vector<std::vector<std::string>> rows = {{"TIME", "NODES", "CHOSEN BY", "OUTCOME", "WHY"}};
  for (const SizeDecision& one : decisions) {
    rows.push_back({TimeOfDay(one.time_ns), std::to_string(one.nodes),
                    one.is_measured ? "measurement" : "a user", OutcomeOf(one),
                    Visible(one.reason)});
  }
  out.Rows(rows);
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

Check RefuseTogether(const ParsedLine& line) {
  constexpr const char* kActions[] = {"nodes", "freeze", "log"};
  const auto count = std::count_if(std::begin(kActions), std::end(kActions),
                                   [&](const char* dest) { return line.Has(dest); });
  if (count <= 1) return std::nullopt;
  return Problem{
      .code = "PL-E010",
      .what = "paceline scale was asked for two things",
      .where = "paceline scale",
      .why = "--nodes and --freeze choose a size, and --log shows those that were chosen",
      .fix = "give one of them"};
}

}  // namespace

FlagTable ScaleFlags() { return kScaleFlags; }

// The size of a job of tasks is that of its tasks.
Check RefuseTasks(const wire::JobStatus& status) {
  if (status.tasks.empty()) return std::nullopt;
  return Problem{.code = "PL-E010",
                 .what = "the size of this job is no number of nodes",
                 .where = "paceline scale",
                 .why = "it has tasks, which are spread over the nodes that are there",
                 .fix = "paceline tasks scale worker=N ps=M"};
}

int RunScale(Invocation& invocation) {
  Output& out = invocation.out;
  const bool freezes = invocation.line.Has("freeze");
  const bool changes = invocation.line.Has("nodes") || freezes;
  if (Check problem = RefuseTogether(invocation.line)) return out.Fail(*problem);
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
  if (const Check problem = RefuseTasks(*status)) return out.Fail(*problem);
  if (invocation.line.Has("log")) return ShowLog(*place, out);
  if (!changes) return ShowSize(*status, out);
  if (freezes && SeatedIn(*status) == 0) {
    return out.Fail({.code = "PL-E010",
                     .what = "the job has no size to keep",
                     .where = "--freeze",
                     .why = Visible(status->pending),
                     .fix = "paceline scale --nodes N"});
  }
  const wire::ScaleRequest request{
      .nodes = freezes ? static_cast<uint32_t>(SeatedIn(*status))
                       : static_cast<uint32_t>(invocation.line.Number("nodes", 0)),
      .at_once = invocation.line.Has("now"),
      .dry_run = invocation.line.Has("dry_run"),
      .why = freezes ? "paceline scale --freeze was typed" : "paceline scale was typed"};
  if (status->phase == "finished") {
    return out.Fail(SizeRefused(*place, request, "the job has ended", *status));
  }
  const auto reply = AskToScale(*place, request);
  if (!reply.ok()) return out.Fail(reply.problem());
  if (!reply->refusal.empty())
    return out.Fail(SizeRefused(*place, request, reply->refusal, *status));
  const std::string outlook = Outlook(*status, request);
  if (request.dry_run) {
    out.DataLine("with this size, " + outlook);
    return kExitDone;
  }
  out.Say(outlook);
  return kExitDone;
}

}  // namespace paceline::cli

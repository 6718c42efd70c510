#include "paceline/cli/plan/show.h"

#include <algorithm>
#include <utility>

#include "paceline/agent/agent_files.h"
#include "paceline/agent/agent_json.h"
#include "paceline/agent/ranks/page_file.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/plan/stages.h"
#include "paceline/model/ids.h"
#include "paceline/plan/explain.h"
#include "paceline/plan/json.h"

namespace paceline::cli {
namespace {

constexpr Duration kShowPatience = Duration::Seconds(2);

std::string MeasuredText(const wire::PlanStatus& plan,
                         const std::optional<MeasuredSteps>& measured) {
  const std::string predicted =
      plan.step > 0 ? plan::SecondsText(plan.step) + " predicted" : "not predicted";
  if (!measured.has_value()) return predicted + "; no rank has done two steps on this host yet";
  std::string text = Concat(predicted, ", ", plan::SecondsText(measured->seconds), " measured");
  if (plan.step > 0) {
    const double ratio = measured->seconds / plan.step - 1;
    Append(&text, " (", plan::PercentText(ratio < 0 ? -ratio : ratio),
           ratio < 0 ? " shorter)" : " longer)");
  }
  return Concat(text, " over ", Counted(measured->steps, "step"), " of rank ", measured->rank);
}

void PrintText(Output& out, const wire::JobStatus& status,
               const std::optional<MeasuredSteps>& measured) {
  const wire::PlanStatus& plan = status.plan;
  out.DataLine(out.Painted(Paint::kBold, Visible(plan.words)));
  out.DataLine(Visible(plan.sentence));
  out.DataLine("");
  out.DataLine(Visible(
      Concat("job     ", status.job_id, ", ", status.phase, ", world ", status.restart_count + 1)));
  out.DataLine("step    " + MeasuredText(plan, measured));
  const auto parsed = plan::ReadPlan(plan.plan);
  if (!parsed.ok()) return;
  out.DataLine("");
  PrintStages(out, *parsed);
}

void PrintAsJson(Output& out, const wire::JobStatus& status,
                 const std::optional<MeasuredSteps>& measured) {
  nlohmann::ordered_json json;
  json["schema"] = "paceline.plan_show/1";
  json["job"] = status.job_id;
  json["generation"] = WorldNumber(status.plan.generation);
  json["words"] = status.plan.words;
  json["sentence"] = status.plan.sentence;
  json["predicted_step_seconds"] = nullptr;
  if (status.plan.step > 0) json["predicted_step_seconds"] = status.plan.step;
  json["measured"] = nullptr;
  if (measured.has_value()) {
    json["measured"] = {
        {"rank", measured->rank}, {"step_seconds", measured->seconds}, {"steps", measured->steps}};
  }
  const auto parsed = plan::ReadPlan(status.plan.plan);
  json["plan"] = nullptr;
  if (parsed.ok()) json["plan"] = ParseOrderedJson(plan::PrintPlan(*parsed));
  out.DataLine(PrintJson(json));
}

}  // namespace

std::optional<MeasuredSteps> StepsOnPages(const std::string& run_dir, uint64_t generation) {
  std::optional<MeasuredSteps> slowest;
  for (const std::string& node : EntriesOf(run_dir + "/nodes")) {
    auto page = agent::PageFile::Open(agent::PagePathIn(run_dir, node));
    if (!page.ok()) {
      page = agent::PageFile::Open(agent::AgentFiles{.run_dir = run_dir, .node = node}.LastPage());
    }
    if (!page.ok()) continue;
    for (uint32_t slot = 0; slot < (*page)->slot_count(); ++slot) {
      const std::optional<SlotReading> reading = (*page)->Read(slot);
      if (!reading.has_value() || reading->generation != generation) continue;
      const int64_t took = reading->last_step_monotonic_ns - reading->first_step_monotonic_ns;
      // A script may report only some steps, or one step twice, if it says their numbers.
      const uint64_t first = reading->first_step > 0 ? reading->first_step - 1 : 1;
      const uint64_t last = reading->first_step > 0
                                ? static_cast<uint64_t>(std::max<int64_t>(0, reading->step))
                                : reading->step_count;
      if (last <= first || reading->rank < 0 || took <= 0) continue;
      const uint64_t steps = last - first;
      const double seconds = static_cast<double>(took) / 1e9 / static_cast<double>(steps);
      if (slowest.has_value() && slowest->seconds >= seconds) continue;
      slowest = {static_cast<uint32_t>(reading->rank), seconds, steps};
    }
  }
  return slowest;
}

int ShowPlan(Invocation& invocation) {
  Output& out = invocation.out;
  auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  const auto status = StatusOf(*place, kShowPatience);
  if (!status.ok()) return out.Fail(status.problem());
  if (status->plan.generation == 0) {
    return out.Fail({.code = "PL-E123",
                     .what = "the job has no parallel plan",
                     .where = place->id,
                     .why = "its script has not come as far as paceline.parallel.parallelize",
                     .fix = "wait for its first step, or call parallelize in the script"});
  }
  const auto measured = StepsOnPages(place->run_dir, status->plan.generation);
  if (out.is_json()) {
    PrintAsJson(out, *status, measured);
  } else {
    PrintText(out, *status, measured);
  }
  return kExitDone;
}

}  // namespace paceline::cli

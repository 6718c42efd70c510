// `paceline plan`: how a model would run on a cluster, and why.

#include <algorithm>
#include <set>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/plan/inputs.h"
#include "paceline/cli/plan/needs_hint.h"
#include "paceline/cli/plan/show.h"
#include "paceline/cli/plan/stages.h"
#include "paceline/plan/axis/axis.h"
#include "paceline/plan/explain.h"
#include "paceline/plan/family/needs.h"
#include "paceline/plan/json.h"
#include "paceline/plan/search.h"
#include "paceline/plan/utilization.h"

namespace paceline::cli {
namespace {

using enum FlagKind;

constexpr Flag kPlanFlags[] = {
    {.dest = "model",
     .spellings = {"--model"},
     .metavar = "NAME|FILE",
     .help = "a model by name (llama-70b), or a Hugging Face config.json, instead of a script"},
    {.dest = "cluster",
     .spellings = {"--cluster"},
     .metavar = "TYPE:COUNT,…|FILE",
     .help = "the devices: H100-80G:64,A100-80G:128, or a file with measured ones"},
    {.dest = "global_batch",
     .spellings = {"--global-batch"},
     .kind = kInteger,
     .metavar = "N",
     .help = "samples of a step over all replicas; the script's, or 1024 with --model"},
    {.dest = "sequence",
     .spellings = {"--sequence"},
     .kind = kInteger,
     .metavar = "TOKENS",
     .help = "tokens of a sample, with --model; its own by default"},
    {.dest = "precision",
     .spellings = {"--precision"},
     .kind = kChoice,
     .default_text = "bf16",
     .metavar = "bf16|fp16|fp32",
     .help = "precision of matrix products, with --model; bf16 by default",
     .choices = "bf16|fp16|fp32"},
    {.dest = "node",
     .spellings = {"--devices-per-node"},
     .kind = kInteger,
     .default_text = "8",
     .metavar = "N",
     .help = "devices that share a node's fast links"},
    {.dest = "network",
     .spellings = {"--network"},
     .kind = kNumber,
     .default_text = "50",
     .metavar = "GB/S",
     .help = "gigabytes a second of one device to other nodes; 50 by default"},
    {.dest = "profile",
     .spellings = {"--profile"},
     .kind = kChoice,
     .default_text = "paceline",
     .metavar = "paceline|megatron|megatron-core|llama3|torchtitan",
     .help = "whose execution to predict, with --model; megatron's plans are for Megatron-LM",
     .choices = "paceline|megatron|megatron-core|llama3|torchtitan"},
    {.dest = "only",
     .spellings = {"--only"},
     .metavar = "AXIS=VALUE,…",
     .help = "look only at plans with these values: pp=1,tp=1,recompute=none"},
    {.dest = "why_not",
     .spellings = {"--why-not"},
     .metavar = "AXIS=VALUE",
     .help = "say why the plan does not have this value: tp=8"},
    {.dest = "show",
     .spellings = {"--show"},
     .kind = kSwitch,
     .help = "the plan of a job that runs, and its measured beside its predicted step time"},
};

std::string ParametersText(const ModelSummary& model) {
  uint64_t parameters = 0;
  for (const LayerRow& row : model.rows) parameters += row.parameters * row.count;
  return plan::ParametersText(parameters);
}

std::string SharesText(const ParallelPlan& plan) {
  const std::set<uint64_t> shares(plan.shares.begin(), plan.shares.end());
  if (plan.shares.size() == 1) return Counted(plan.shares[0], "sample");
  if (shares.size() == 1) return Concat(Counted(*shares.begin(), "sample"), " each");
  return Concat(*shares.begin(), " to ", *shares.rbegin(), " samples each");
}

void PrintRejected(Output& out, const ParallelPlan& plan) {
  if (plan.rejected.empty()) return;
  std::vector<std::vector<std::string>> rows = {{"REJECTED", "STEP", "BECAUSE"}};
  for (const RejectedPlan& one : plan.rejected) {
    rows.push_back({Visible(one.plan), one.step ? plan::SecondsText(*one.step) : "none",
                    Visible(one.because)});
  }
  out.DataLine("");
  out.Rows(rows);
}

// What the plan needs before `parallelize` can carry it out, and the flag for a plan without needs.
void PrintNeeds(Output& out, const PlanInputs& inputs, const ParallelPlan& plan) {
  const std::vector<plan::PlanNeed> needs = plan::NeedsOf(inputs.model_type, plan);
  for (const plan::PlanNeed& need : needs) out.DataLine(Visible(Concat("needs:  ", need.what)));
  if (needs.empty()) return;
  const std::string only = OnlyWithoutNeeds(inputs, needs);
  out.DataLine(only.empty() ? "        no plan was found that parallelize carries out"
                            : Concat("        --only ", only,
                                     " looks for a plan that parallelize carries out"));
}

void PrintPlanText(Output& out, const PlanInputs& inputs, const ParallelPlan& plan) {
  const PlanCost& cost = plan.predicted;
  out.DataLine(out.Painted(Paint::kBold, Visible(plan::WordsOf(plan))));
  out.DataLine(Visible(Concat("because ", plan.because)));
  out.DataLine("");
  out.DataLine(Visible(Concat("model   ", inputs.model.name, ", ", ParametersText(inputs.model),
                              ", ", inputs.model.precision)));
  out.DataLine(Concat("step    ", plan::SecondsText(cost.step), " = ",
                      plan::SecondsText(cost.compute), " compute + ",
                      plan::SecondsText(cost.communication), " communication that is not hidden + ",
                      plan::SecondsText(cost.bubble), " waiting"));
  if (const std::string used = plan::UtilizationText(cost); !used.empty()) {
    out.DataLine(Concat("rate    ", used));
  }
  const double gap = cost.step / plan.bound - 1;
  out.DataLine(Concat("bound   no plan of this search is faster than ",
                      plan::SecondsText(plan.bound), "; this one is ",
                      gap < 0.005 ? "as fast" : plan::PercentText(gap) + " slower"));
  out.DataLine(Concat("batch   ", plan.global_batch, " samples: ", Counted(plan.data, "replica"),
                      " with ", SharesText(plan), ", in ", plan.micro_batches,
                      plan.micro_batches == 1 ? " pass" : " passes"));
  out.DataLine(
      Concat("profile ", inputs.wishes.execution->name, ": ", inputs.wishes.execution->told));
  PrintNeeds(out, inputs, plan);
  out.DataLine("");
  PrintStages(out, plan);
  for (const DeviceType& type : inputs.cluster.types) {
    out.DataLine(Visible(Concat(type.name, ": ", type.source)));
  }
  PrintRejected(out, plan);
}

void PrintWhyNot(Output& out, const PlanInputs& inputs, const ParallelPlan& chosen,
                 const AxisValue& asked) {
  const std::string why =
      plan::WhyNot(inputs.model, inputs.cluster, inputs.wishes, chosen, asked.axis, asked.value);
  if (!out.is_json()) {
    out.DataLine(Visible(why));
    return;
  }
  nlohmann::ordered_json json;
  json["schema"] = "paceline.why_not/1";
  json["axis"] = plan::Axes()[static_cast<size_t>(asked.axis)]->name;
  json["value"] = asked.value;
  json["because"] = why;
  out.DataLine(PrintJson(json));
}

Problem AsProblem(const plan::NoPlan& none) {
  return {
      .code = "PL-E122", .what = none.what, .where = none.where, .why = none.why, .fix = none.fix};
}

}  // namespace

FlagTable PlanFlags() { return kPlanFlags; }

int RunPlan(Invocation& invocation) {
  Output& out = invocation.out;
  if (invocation.line.Find("show") != nullptr || invocation.line.Find("job") != nullptr) {
    return ShowPlan(invocation);
  }
  auto inputs = ReadPlanInputs(invocation);
  if (!inputs.ok()) return out.Fail(inputs.problem());
  std::optional<AxisValue> asked;
  if (const Given* why_not = invocation.line.Find("why_not")) {
    auto wish = ParseAxisValue(why_not->value, "--why-not");
    if (!wish.ok()) return out.Fail(wish.problem());
    asked = *wish;
  }
  auto answer = plan::ChoosePlan(inputs->model, inputs->cluster, inputs->wishes);
  if (const auto* none = std::get_if<plan::NoPlan>(&answer)) return out.Fail(AsProblem(*none));
  auto& chosen = std::get<ParallelPlan>(answer);
  chosen.needs = plan::NeedsTexts(plan::NeedsOf(inputs->model_type, chosen));
  if (asked) {
    PrintWhyNot(out, *inputs, chosen, *asked);
    return kExitDone;
  }
  if (out.is_json()) {
    out.DataLine(plan::PrintPlan(chosen));
    return kExitDone;
  }
  PrintPlanText(out, *inputs, chosen);
  return kExitDone;
}

}  // namespace paceline::cli

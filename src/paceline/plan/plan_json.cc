#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "paceline/plan/axis/axis.h"
#include "paceline/plan/json.h"
#include "paceline/plan/json_fields.h"
#include "paceline/plan/scene.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlanSchema = "paceline.plan/1";
constexpr size_t kRanksMax = 1'000'000;
constexpr uint64_t kBatchMax = uint64_t{1} << 32;
constexpr size_t kStagesMax = 1024;
constexpr size_t kRejectedReadMax = 64;
constexpr size_t kSentenceMax = 4096;
constexpr size_t kNeedsMax = 16;
constexpr size_t kChunksMax = 1024;

Json OrNull(const std::optional<double>& number) {
  return number.has_value() ? Json(*number) : Json(nullptr);
}

// The value is a name. Older versions wrote true for "full" and false for "none".
Recompute ReadRecompute(Fields& fields) {
  const nlohmann::json* value = fields.Take("recompute", false);
  if (value == nullptr) return Recompute::kNone;
  if (value->is_boolean()) return value->get<bool>() ? Recompute::kFull : Recompute::kNone;
  const auto named =
      value->is_string() ? FindRecompute(value->get<std::string>()) : std::optional<uint32_t>();
  if (!named) fields.Refuse("recompute is none of " + JoinWith(kRecomputeNames, ", "));
  return static_cast<Recompute>(named.value_or(0));
}

LayerRange ReadLater(Fields& fields, const nlohmann::json& list) {
  if (!list.is_array()) {
    fields.Refuse(fields.Name("later") + " has an entry that is no list");
    return {};
  }
  const auto layers = NumbersOf<uint32_t>(fields, list, fields.Name("later"), kLayersMax);
  if (layers.size() == 2 && layers[0] < layers[1]) return {layers[0], layers[1]};
  fields.Refuse(fields.Name("later") + " has an entry that is no first and last layer");
  return {};
}

PlanStage ReadStage(Fields& parent, const nlohmann::json& object, size_t index) {
  Fields fields(object, Concat("stages[", index, "]"));
  PlanStage stage;
  const auto layers =
      NumbersOf<uint32_t>(fields, fields.List("layers", 2), fields.Name("layers"), kLayersMax);
  if (layers.size() != 2 || layers[0] >= layers[1]) {
    fields.Refuse(fields.Name("layers") + " is no first and last layer");
  } else {
    stage.begin = layers[0];
    stage.end = layers[1];
  }
  const nlohmann::json& later = fields.List("later", kChunksMax, true);
  for (size_t i = 0; i < later.size(); ++i) stage.later.push_back(ReadLater(fields, later[i]));
  stage.ranks =
      NumbersOf<uint32_t>(fields, fields.List("ranks", kRanksMax), fields.Name("ranks"), kRanksMax);
  parent.Adopt(fields.Done());
  return stage;
}

void ReadPredicted(Fields& parent, PlanCost& cost) {
  const nlohmann::json* object = parent.Take("predicted", false);
  if (object == nullptr) return;
  Fields fields(*object, "predicted");
  cost.step = fields.Number("step");
  cost.compute = fields.Number("compute");
  cost.communication = fields.Number("communication");
  cost.bubble = fields.Number("bubble");
  cost.memory = NumbersOf<uint64_t>(fields, fields.List("memory", kStagesMax),
                                    fields.Name("memory"), kWholeMax);
  const auto read = [&](const char* key, std::optional<double>& into) {
    const nlohmann::json* value = fields.Take(key, true);
    if (value != nullptr && !value->is_null()) into = fields.Number(key);
  };
  read("device_flops", cost.device_flops);
  read("utilization", cost.utilization);
  parent.Adopt(fields.Done());
}

RejectedPlan ReadRejected(Fields& parent, const nlohmann::json& object, size_t index) {
  Fields fields(object, Concat("rejected[", index, "]"));
  RejectedPlan rejected;
  rejected.plan = fields.Text("plan");
  const nlohmann::json* step = fields.Take("step", false);
  if (step != nullptr && !step->is_null()) rejected.step = fields.Number("step");
  rejected.because = fields.Text("because", std::nullopt, kSentenceMax);
  parent.Adopt(fields.Done());
  return rejected;
}

// All fields except those that two hosts may compute differently.
Json Agreed(const ParallelPlan& plan) {
  Json json;
  json["schema"] = kPlanSchema;
  json["model"] = plan.model;
  json["global_batch"] = plan.global_batch;
  json["data"] = plan.data;
  json["tensor"] = plan.tensor;
  if (plan.sequence) json["sequence"] = true;
  json["shard"] = plan.shard;
  json["recompute"] = kRecomputeNames[static_cast<size_t>(plan.recompute)];
  json["micro_batches"] = plan.micro_batches;
  json["schedule"] = plan.schedule;
  json["stages"] = Json::array();
  for (const PlanStage& stage : plan.stages) {
    Json one = {{"layers", {stage.begin, stage.end}}};
    for (const LayerRange& chunk : stage.later) one["later"].push_back({chunk.begin, chunk.end});
    one["ranks"] = stage.ranks;
    json["stages"].push_back(std::move(one));
  }
  json["shares"] = plan.shares;
  json["unused"] = plan.unused;
  return json;
}

Failure Unsound(std::string why) {
  return {.kind = FailureKind::kInvalid, .message = std::move(why)};
}

Result<void> CheckRanks(const ParallelPlan& plan, uint32_t devices) {
  std::set<uint32_t> ranks;
  const auto take = [&](uint32_t rank) { return rank < devices && ranks.insert(rank).second; };
  const uint64_t each = static_cast<uint64_t>(plan.data) * plan.tensor;
  size_t named = plan.unused.size();
  for (const PlanStage& stage : plan.stages) named += stage.ranks.size();
  if (named != devices) {
    return Unsound(Concat("it is for ", Counted(named, "rank"), ", and the world has ", devices));
  }
  for (const PlanStage& stage : plan.stages) {
    if (stage.ranks.size() != each) return Unsound("a stage has not data × tensor ranks");
    for (const uint32_t rank : stage.ranks) {
      if (!take(rank)) return Unsound(Concat("rank ", rank, " is named twice or does not exist"));
    }
  }
  for (const uint32_t rank : plan.unused) {
    if (!take(rank)) return Unsound(Concat("rank ", rank, " is named twice or does not exist"));
  }
  return {};
}

Result<void> CheckLayers(const ParallelPlan& plan, const ModelSummary& summary) {
  const size_t later = plan.stages[0].later.size();
  for (const PlanStage& stage : plan.stages) {
    if (stage.later.size() != later) return Unsound("its stages have unequal numbers of chunks");
  }
  const bool is_in_parts = plan.schedule == kZeroBubble.name;
  if (!is_in_parts && (plan.schedule == kInterleaved.name) != (later > 0)) {
    return Unsound("stages with several chunks of layers and the schedule do not go together");
  }
  if (is_in_parts && (plan.shard || plan.recompute != Recompute::kNone)) {
    return Unsound(
        "a backward pass in two parts goes with neither sharded state nor recomputation");
  }
  const PipelineSize size = {static_cast<uint32_t>(plan.stages.size()), plan.micro_batches,
                             static_cast<uint32_t>(later + 1)};
  const Schedule& schedule = is_in_parts ? kZeroBubble : kInterleaved;
  if (later > 0 || is_in_parts) {
    if (const std::string why = schedule.refuses(size); !why.empty()) return Unsound(why);
  }
  uint32_t next = 0;
  for (size_t chunk = 0; chunk <= later; ++chunk) {
    for (const PlanStage& stage : plan.stages) {
      const LayerRange own =
          chunk == 0 ? LayerRange{stage.begin, stage.end} : stage.later[chunk - 1];
      if (own.begin != next) return Unsound("its stages leave out layers, or repeat some");
      next = own.end;
    }
  }
  uint64_t layers = 0;
  for (const LayerRow& row : summary.rows) layers += row.count;
  if (next != layers) return Unsound(Concat("its stages end at layer ", next, " of ", layers));
  return {};
}

Result<void> CheckSequence(const ParallelPlan& plan, const ModelSummary& summary) {
  if (!plan.sequence) return {};
  if (plan.tensor == 1) return Unsound("it divides sequences, but its ranks share no layers");
  const auto is_divided = [](const LayerRow& row) {
    return row.tensor.has_value() && row.tensor->sequence.has_value();
  };
  if (std::none_of(summary.rows.begin(), summary.rows.end(), is_divided)) {
    return Unsound("it divides sequences, but no layer of the model says how");
  }
  if (summary.sequence_divides % plan.tensor != 0) {
    return Unsound(Concat("it divides sequences among ", plan.tensor,
                          " ranks, and that does not divide the ", summary.sequence_divides,
                          " tokens of a sample"));
  }
  return {};
}

Result<void> CheckShares(const ParallelPlan& plan) {
  uint64_t samples = 0;
  if (plan.shares.size() != plan.data) return Unsound("shares has not an entry for each replica");
  for (const uint64_t share : plan.shares) {
    if (share < plan.micro_batches)
      return Unsound("a replica has fewer samples than micro-batches");
    if (plan.stages.size() > 1 && share % plan.micro_batches != 0) {
      return Unsound("a share of a pipeline is no multiple of its micro-batches");
    }
    samples += share;
  }
  if (samples != plan.global_batch) {
    return Unsound(
        Concat("shares add up to ", samples, ", and the global batch is ", plan.global_batch));
  }
  return {};
}

}  // namespace

Result<ParallelPlan> ReadPlan(std::string_view text) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseSchema(text, kPlanSchema, kChosenTextMax));
  Fields fields(json, "");
  ParallelPlan plan;
  fields.Text("schema");
  plan.model = fields.Text("model");
  plan.global_batch = fields.Whole("global_batch", kBatchMax);
  plan.data = fields.Small("data");
  plan.tensor = fields.Small("tensor");
  plan.sequence = fields.Take("sequence", true) != nullptr && fields.Flag("sequence");
  plan.shard = fields.Flag("shard");
  plan.recompute = ReadRecompute(fields);
  plan.micro_batches = fields.Small("micro_batches");
  plan.schedule = fields.Text("schedule");
  const nlohmann::json& stages = fields.List("stages", kStagesMax);
  for (size_t i = 0; i < stages.size(); ++i) {
    plan.stages.push_back(ReadStage(fields, stages[i], i));
  }
  plan.shares = NumbersOf<uint64_t>(fields, fields.List("shares", kRanksMax), "shares", kBatchMax);
  plan.unused = NumbersOf<uint32_t>(fields, fields.List("unused", kRanksMax), "unused", kRanksMax);
  ReadPredicted(fields, plan.predicted);
  plan.bound = fields.Number("bound");
  plan.because = fields.Text("because", std::nullopt, kSentenceMax);
  for (const nlohmann::json& need : fields.List("needs", kNeedsMax, true)) {
    if (!need.is_string()) fields.Refuse("needs has an entry that is no text");
    plan.needs.push_back(need.is_string() ? need.get<std::string>() : "");
  }
  plan.profile = fields.Text("profile", "");
  const nlohmann::json& rejected = fields.List("rejected", kRejectedReadMax);
  for (size_t i = 0; i < rejected.size(); ++i) {
    plan.rejected.push_back(ReadRejected(fields, rejected[i], i));
  }
  RETURN_IF_ERROR(fields.Done());
  return plan;
}

std::string PrintPlan(const ParallelPlan& plan) {
  Json json = Agreed(plan);
  json["predicted"] = {{"step", plan.predicted.step},
                       {"compute", plan.predicted.compute},
                       {"communication", plan.predicted.communication},
                       {"bubble", plan.predicted.bubble},
                       {"memory", plan.predicted.memory},
                       {"device_flops", OrNull(plan.predicted.device_flops)},
                       {"utilization", OrNull(plan.predicted.utilization)}};
  json["bound"] = plan.bound;
  json["because"] = plan.because;
  if (!plan.needs.empty()) json["needs"] = plan.needs;
  if (!plan.profile.empty()) json["profile"] = plan.profile;
  json["rejected"] = Json::array();
  for (const RejectedPlan& one : plan.rejected) {
    json["rejected"].push_back(
        {{"plan", one.plan}, {"step", OrNull(one.step)}, {"because", one.because}});
  }
  return PrintJson(json);
}

std::string DigestOf(const ParallelPlan& plan) { return DigestText(PrintJson(Agreed(plan))); }

Result<void> CheckPlan(const ParallelPlan& plan, const ModelSummary& summary,
                       const Cluster& cluster) {
  if (plan.model != DigestOf(summary)) return Unsound("it was made for another model");
  if (plan.stages.empty() || plan.data == 0 || plan.tensor == 0 || plan.micro_batches == 0) {
    return Unsound("it has no stage, no replica or no micro-batch");
  }
  if (plan.tensor > 1 && !summary.no_tensor.empty()) {
    return Unsound(Concat("its ranks share layers, but ", summary.no_tensor));
  }
  if (summary.tensor_divides % plan.tensor != 0) {
    return Unsound(Concat(plan.tensor, " ranks share layers, and that does not divide ",
                          summary.tensor_divides, ", as the sizes of the layers ask for"));
  }
  RETURN_IF_ERROR(CheckSequence(plan, summary));
  const auto is_kept = [](const LayerRow& row) { return row.selective.has_value(); };
  if (plan.recompute == Recompute::kSelective &&
      std::none_of(summary.rows.begin(), summary.rows.end(), is_kept)) {
    return Unsound("it keeps results selectively, but no layer of the model says which");
  }
  const auto schedule = FindSchedule(plan.schedule);
  if (!schedule || (*schedule == 0) != (plan.stages.size() == 1)) {
    return Unsound(Concat("its schedule is not one for ", Counted(plan.stages.size(), "stage")));
  }
  RETURN_IF_ERROR(CheckLayers(plan, summary));
  uint32_t devices = 0;
  for (const DeviceRun& run : cluster.runs) devices += run.count;
  RETURN_IF_ERROR(CheckRanks(plan, devices));
  return CheckShares(plan);
}

}  // namespace paceline::plan

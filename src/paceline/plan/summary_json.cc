#include <limits>
#include <utility>
#include <vector>

#include "paceline/base/fnv.h"
#include "paceline/plan/json.h"
#include "paceline/plan/json_fields.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kModelSchema = "paceline.model/1";
constexpr size_t kRowsMax = 1000;
constexpr uint64_t kBytesMax = 1024;  // of a parameter
constexpr uint64_t kDividesMax = std::numeric_limits<uint32_t>::max();

std::optional<SequenceSplit> ReadSequence(Fields& parent, const LayerRow& row) {
  const nlohmann::json* object = parent.Take("sequence", true);
  if (object == nullptr) return std::nullopt;
  Fields fields(*object, parent.Name("sequence"));
  SequenceSplit split = {.exchanges = static_cast<uint32_t>(fields.Whole("exchanges", 64)),
                         .gathered = fields.Whole("gathered", row.saved - row.tensor->saved)};
  parent.Adopt(fields.Done());
  return split;
}

std::optional<SelectiveKeep> ReadSelective(Fields& parent, const LayerRow& row) {
  const nlohmann::json* object = parent.Take("selective", true);
  if (object == nullptr) return std::nullopt;
  Fields fields(*object, parent.Name("selective"));
  SelectiveKeep keep = {.kept = fields.Whole("kept", kWholeMax), .flops = fields.Number("flops")};
  if (keep.flops > row.flops) fields.Refuse(fields.Name("flops") + " is more than the layer's");
  const uint64_t divided = row.tensor ? row.tensor->kept : 0;
  if (keep.kept < divided) fields.Refuse(fields.Name("kept") + " is less than its divided part");
  parent.Adopt(fields.Done());
  return keep;
}

LayerRow ReadLayer(Fields& parent, const nlohmann::json& object, size_t index) {
  Fields fields(object, Concat("layers[", index, "]"));
  LayerRow row;
  row.name = fields.Text("name");
  row.first = fields.Small("first", 0);
  row.count = fields.Small("count", 1);
  row.flops = fields.Number("flops");
  row.parameters = fields.Whole("parameters", kWholeMax);
  row.saved = fields.Whole("saved", kWholeMax);
  row.output = fields.Whole("output", kWholeMax);
  row.cut = fields.Text("cut", "");
  if (const nlohmann::json* tensor = fields.Take("tensor", true)) {
    Fields split(*tensor, fields.Name("tensor"));
    row.tensor = TensorSplit{.parameters = split.Whole("parameters", row.parameters),
                             .flops = split.Number("flops"),
                             .saved = split.Whole("saved", row.saved),
                             .exchanges = static_cast<uint32_t>(split.Whole("exchanges", 64)),
                             .kept = split.Whole("kept", kWholeMax, 0)};
    row.tensor->sequence = ReadSequence(split, row);
    if (row.tensor->flops > row.flops)
      split.Refuse(split.Name("flops") + " is more than the layer's");
    fields.Adopt(split.Done());
  }
  row.selective = ReadSelective(fields, row);
  row.copied = fields.Whole("copied", kWholeMax, 0);
  const bool is_numbered = row.name.find("{}") != std::string::npos;
  if (row.count == 0) fields.Refuse(fields.Name("count") + " is 0");
  if (row.count > 1 && !is_numbered) {
    fields.Refuse(fields.Name("name") + " needs {} for the numbers of its repetitions");
  }
  parent.Adopt(fields.Done());
  return row;
}

}  // namespace

Result<nlohmann::json> ParseSchema(std::string_view text, std::string_view schema, size_t most) {
  const auto refused = [](std::string why) {
    return Failure{.kind = FailureKind::kInvalid, .message = std::move(why)};
  };
  if (text.size() > most) return refused(Concat("the text has more than ", most, " bytes"));
  if (text.empty()) return refused("the text is empty");
  nlohmann::json json = ParseJson(text);
  if (json.is_discarded()) return refused("the text is no JSON");
  if (!json.is_object()) return refused("the text is no object");
  const auto found = json.find("schema");
  if (found == json.end() || !found->is_string() ||
      found->get_ref<const std::string&>() != schema) {
    return refused(Concat("schema is not ", schema));
  }
  return json;
}

Result<ModelSummary> ReadSummary(std::string_view text) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseSchema(text, kModelSchema, kPlanTextMax));
  Fields fields(json, "");
  ModelSummary summary;
  fields.Text("schema");
  summary.name = fields.Text("name");
  summary.precision = fields.Text("precision");
  if (summary.precision != "fp32" && summary.precision != "bf16" && summary.precision != "fp16") {
    fields.Refuse("precision is none of fp32, bf16 and fp16");
  }
  if (const nlohmann::json* object = fields.Take("bytes", false)) {
    Fields bytes(*object, "bytes");
    summary.bytes = {.weight = static_cast<uint32_t>(bytes.Whole("weight", kBytesMax)),
                     .gradient = static_cast<uint32_t>(bytes.Whole("gradient", kBytesMax)),
                     .optimizer = static_cast<uint32_t>(bytes.Whole("optimizer", kBytesMax)),
                     .compute = static_cast<uint32_t>(bytes.Whole("compute", kBytesMax))};
    fields.Adopt(bytes.Done());
  }
  const nlohmann::json& layers = fields.List("layers", kRowsMax);
  size_t total = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    summary.rows.push_back(ReadLayer(fields, layers[i], i));
    total += summary.rows.back().count;
  }
  if (total == 0) fields.Refuse("layers is empty");
  if (total > kLayersMax) fields.Refuse(Concat("layers has more than ", kLayersMax, " layers"));
  summary.no_pipeline = fields.Text("no_pipeline", "");
  summary.no_tensor = fields.Text("no_tensor", "");
  summary.tensor_divides = static_cast<uint32_t>(fields.Whole("tensor_divides", kDividesMax, 0));
  summary.sequence_divides =
      static_cast<uint32_t>(fields.Whole("sequence_divides", kDividesMax, 0));
  RETURN_IF_ERROR(fields.Done());
  return summary;
}

std::string PrintSummary(const ModelSummary& summary) {
  Json json;
  json["schema"] = kModelSchema;
  json["name"] = summary.name;
  json["precision"] = summary.precision;
  json["bytes"] = {{"weight", summary.bytes.weight},
                   {"gradient", summary.bytes.gradient},
                   {"optimizer", summary.bytes.optimizer},
                   {"compute", summary.bytes.compute}};
  json["layers"] = Json::array();
  for (const LayerRow& row : summary.rows) {
    Json layer;
    layer["name"] = row.name;
    if (row.first != 0) layer["first"] = row.first;
    if (row.count != 1) layer["count"] = row.count;
    layer["flops"] = row.flops;
    layer["parameters"] = row.parameters;
    layer["saved"] = row.saved;
    layer["output"] = row.output;
    if (!row.cut.empty()) layer["cut"] = row.cut;
    if (row.tensor) {
      layer["tensor"] = {{"parameters", row.tensor->parameters},
                         {"flops", row.tensor->flops},
                         {"saved", row.tensor->saved},
                         {"exchanges", row.tensor->exchanges}};
      if (row.tensor->kept != 0) layer["tensor"]["kept"] = row.tensor->kept;
      if (const auto& sequence = row.tensor->sequence) {
        layer["tensor"]["sequence"] = {{"exchanges", sequence->exchanges},
                                       {"gathered", sequence->gathered}};
      }
    }
    if (row.selective) {
      layer["selective"] = {{"kept", row.selective->kept}, {"flops", row.selective->flops}};
    }
    if (row.copied != 0) layer["copied"] = row.copied;
    json["layers"].push_back(std::move(layer));
  }
  if (!summary.no_pipeline.empty()) json["no_pipeline"] = summary.no_pipeline;
  if (!summary.no_tensor.empty()) json["no_tensor"] = summary.no_tensor;
  if (summary.tensor_divides != 0) json["tensor_divides"] = summary.tensor_divides;
  if (summary.sequence_divides != 0) json["sequence_divides"] = summary.sequence_divides;
  return PrintJson(json);
}

std::string DigestText(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  const uint64_t hash = Fnv1a(text);
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits.push_back(kDigits[hash >> shift & 15]);
  return digits;
}

std::string DigestOf(const ModelSummary& summary) { return DigestText(PrintSummary(summary)); }

}  // namespace paceline::plan

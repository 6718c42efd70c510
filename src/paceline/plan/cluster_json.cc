#include <algorithm>
#include <utility>

#include "paceline/plan/axis/axis.h"
#include "paceline/plan/json.h"
#include "paceline/plan/json_fields.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kClusterSchema = "paceline.cluster/1";
constexpr size_t kTypesMax = 16;
constexpr size_t kRunsMax = 4096;
constexpr uint64_t kDevicesMax = 1'000'000;

DeviceType ReadType(Fields& parent, const nlohmann::json& object, size_t index) {
  Fields fields(object, Concat("types[", index, "]"));
  DeviceType type;
  type.name = fields.Text("name");
  type.flops = fields.Number("flops");
  type.bandwidth = fields.Number("bandwidth");
  type.launch = fields.Number("launch");
  type.memory = fields.Whole("memory", kWholeMax);
  type.source = fields.Text("source", "");
  if (type.name.empty()) fields.Refuse(fields.Name("name") + " is empty");
  if (!(type.flops >= 1)) fields.Refuse(fields.Name("flops") + " is below 1");
  if (!(type.bandwidth >= 1)) fields.Refuse(fields.Name("bandwidth") + " is below 1");
  parent.Adopt(fields.Done());
  return type;
}

DeviceRun ReadRun(Fields& parent, const nlohmann::json& object, size_t index,
                  const Cluster& cluster) {
  Fields fields(object, Concat("groups[", index, "]"));
  const std::string name = fields.Text("type");
  const auto found = std::find_if(cluster.types.begin(), cluster.types.end(),
                                  [&](const DeviceType& type) { return type.name == name; });
  if (found == cluster.types.end()) fields.Refuse(fields.Name("type") + " is none of types");
  DeviceRun run = {.type = static_cast<uint32_t>(found - cluster.types.begin()),
                   .count = fields.Small("count")};
  if (run.count == 0) fields.Refuse(fields.Name("count") + " is 0");
  parent.Adopt(fields.Done());
  return run;
}

Link ReadLink(Fields& parent, const char* key) {
  const nlohmann::json* object = parent.Take(key, false);
  if (object == nullptr) return {};
  Fields fields(*object, key);
  Link link = {.seconds = fields.Number("seconds"), .bandwidth = fields.Number("bandwidth")};
  if (!(link.bandwidth >= 1)) fields.Refuse(fields.Name("bandwidth") + " is below 1");
  parent.Adopt(fields.Done());
  return link;
}

// A value of a plan's axis as JSON has it: a number, true or false (1 or 0), or a name ("1f1b").
std::optional<uint32_t> AxisValue(AxisId axis, const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_string()) return NamedValue(axis, value.get<std::string>());
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kDevicesMax) return std::nullopt;
  return static_cast<uint32_t>(value.get<uint64_t>());
}

}  // namespace

Result<Cluster> ReadCluster(std::string_view text) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseSchema(text, kClusterSchema, kPlanTextMax));
  Fields fields(json, "");
  Cluster cluster;
  fields.Text("schema");
  const nlohmann::json& types = fields.List("types", kTypesMax);
  for (size_t i = 0; i < types.size(); ++i) {
    cluster.types.push_back(ReadType(fields, types[i], i));
    const auto same = [&](const DeviceType& type) {
      return type.name == cluster.types.back().name;
    };
    if (std::count_if(cluster.types.begin(), cluster.types.end(), same) > 1) {
      fields.Refuse(Concat("types has ", cluster.types.back().name, " twice"));
    }
  }
  const nlohmann::json& runs = fields.List("groups", kRunsMax);
  uint64_t devices = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    cluster.runs.push_back(ReadRun(fields, runs[i], i, cluster));
    devices += cluster.runs.back().count;
  }
  if (devices == 0) fields.Refuse("groups has no device");
  if (devices > kDevicesMax)
    fields.Refuse(Concat("groups has more than ", kDevicesMax, " devices"));
  cluster.node = fields.Small("node", 1);
  if (cluster.node == 0) fields.Refuse("node is 0");
  cluster.inner = ReadLink(fields, "inner");
  cluster.outer = ReadLink(fields, "outer");
  cluster.overlap = fields.Number("overlap", 1);
  if (cluster.overlap > 1) fields.Refuse("overlap is above 1");
  RETURN_IF_ERROR(fields.Done());
  return cluster;
}

std::string PrintCluster(const Cluster& cluster) {
  Json json;
  json["schema"] = kClusterSchema;
  json["types"] = Json::array();
  for (const DeviceType& type : cluster.types) {
    Json one = {{"name", type.name},     {"flops", type.flops},   {"bandwidth", type.bandwidth},
                {"launch", type.launch}, {"memory", type.memory}, {"source", type.source}};
    json["types"].push_back(std::move(one));
  }
  json["groups"] = Json::array();
  for (const DeviceRun& run : cluster.runs) {
    json["groups"].push_back({{"type", cluster.types[run.type].name}, {"count", run.count}});
  }
  json["node"] = cluster.node;
  const auto link = [](const Link& one) {
    return Json{{"seconds", one.seconds}, {"bandwidth", one.bandwidth}};
  };
  json["inner"] = link(cluster.inner);
  json["outer"] = link(cluster.outer);
  if (cluster.overlap != 1) json["overlap"] = cluster.overlap;
  return PrintJson(json);
}

Result<PlanWishes> ReadWishes(std::string_view text) {
  const auto refused = [](std::string why) {
    return Failure{.kind = FailureKind::kInvalid, .message = std::move(why)};
  };
  if (text.size() > kPlanTextMax) return refused("the wishes are too long");
  const nlohmann::json json = ParseJson(text);
  if (json.is_discarded()) return refused("the wishes are no JSON");
  Fields fields(json, "");
  PlanWishes wishes;
  wishes.global_batch = fields.Whole("global_batch", uint64_t{1} << 32);
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    const std::string name(Axes()[axis]->name);
    for (const nlohmann::json& value : fields.List(name.c_str(), 1024, true)) {
      const auto known = AxisValue(static_cast<AxisId>(axis), value);
      if (!known) fields.Refuse(name + " has an entry that is no value of it");
      wishes.only[axis].push_back(known.value_or(0));
    }
  }
  if (const nlohmann::json* object = fields.Take("because", true)) {
    Fields because(*object, "because");
    for (size_t axis = 0; axis < kAxisCount; ++axis) {
      wishes.because[axis] = because.Text(std::string(Axes()[axis]->name).c_str(), "");
    }
    fields.Adopt(because.Done());
  }
  RETURN_IF_ERROR(fields.Done());
  return wishes;
}

}  // namespace paceline::plan

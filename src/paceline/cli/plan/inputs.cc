#include "paceline/cli/plan/inputs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/console/tool.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/run/interpreter.h"
#include "paceline/cli/settings/value.h"
#include "paceline/plan/axis/axis.h"
#include "paceline/plan/devices.h"
#include "paceline/plan/family/family.h"
#include "paceline/plan/json.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::cli {
namespace {

constexpr char kPlanningVariable[] = "PACELINE_PLANNING";
constexpr char kUnreadable[] = "it is empty, or belongs to another user";
constexpr uint64_t kBatchDefault = 1024;
constexpr uint64_t kBatchMax = uint64_t{1} << 32;

std::string ValueOf(const Invocation& invocation, std::string_view dest,
                    std::string_view otherwise) {
  const Given* given = invocation.line.Find(dest);
  return given == nullptr ? std::string(otherwise) : given->value;
}

Problem BadValue(std::string what, std::string where, std::string why, std::string fix) {
  return {.code = "PL-E120",
          .what = std::move(what),
          .where = std::move(where),
          .why = std::move(why),
          .fix = std::move(fix)};
}

// Why nothing can be read at the path, as one sentence; "" if there is a file. Pipes and devices
// are refused, because reading them may never end.
std::string WhyNoFile(const std::string& path) {
  std::error_code failed;
  const auto kind = std::filesystem::status(path, failed).type();
  switch (kind) {
    case std::filesystem::file_type::regular: return "";
    case std::filesystem::file_type::not_found: return "there is no such file";
    case std::filesystem::file_type::directory: return "it is a directory";
    case std::filesystem::file_type::fifo: return "it is a pipe";
    case std::filesystem::file_type::none: return failed.message();
    default: return "it is no regular file";
  }
}

// The text of a file, or why there is none.
Result<std::string> FileText(const std::string& path, size_t most, std::string what,
                             std::string fix) {
  std::string why = WhyNoFile(path);
  std::string text = why.empty() ? ReadText(path, most) : "";
  if (!text.empty()) return text;
  if (why.empty()) why = kUnreadable;
  return BadValue(std::move(what), path, std::move(why), std::move(fix));
}

std::string DidYouMean(std::string_view word, const std::vector<std::string_view>& names,
                       std::string otherwise) {
  const std::string_view nearest = Nearest(word, names);
  return nearest.empty() ? std::move(otherwise) : Concat("did you mean ", nearest, "?");
}

std::vector<std::string_view> ModelNames() {
  std::vector<std::string_view> names;
  for (const plan::Family* family : plan::Families()) {
    for (const plan::Preset& preset : family->presets) names.push_back(preset.name);
  }
  return names;
}

// The preset of the same family whose number of parameters is nearest: llama-8b for llama-7b.
std::string_view NearestSize(std::string_view word, const std::vector<std::string_view>& names) {
  const auto family = [](std::string_view name) { return name.substr(0, name.rfind('-') + 1); };
  const auto size = [&](std::string_view name) {
    return std::atof(std::string(name.substr(family(name).size())).c_str());
  };
  std::string_view nearest;
  for (const std::string_view name : names) {
    const bool fits = !family(word).empty() && family(name) == family(word) &&
                      word.back() == name.back() && size(word) > 0 && size(name) > 0;
    const auto far = [&](std::string_view one) {
      return std::abs(std::log(size(one) / size(word)));
    };
    if (fits && (nearest.empty() || far(name) < far(nearest))) nearest = name;
  }
  return nearest;
}

std::string FixOfModel(std::string_view word) {
  const std::vector<std::string_view> names = ModelNames();
  const std::string_view nearest = NearestSize(word, names);
  return nearest.empty()
             ? DidYouMean(word, names, "one of these, a Hugging Face config.json, or a script")
             : Concat("did you mean ", nearest, "?");
}

std::string FamilyNames() {
  std::vector<std::string_view> names;
  for (const plan::Family* family : plan::Families()) names.push_back(family->name);
  return JoinWith(names, ", ");
}

// The first type in the line that is not in the catalogue, with a suggestion.
std::string FixOfCluster(std::string_view line) {
  std::vector<std::string_view> names;
  for (const plan::DeviceRow& row : plan::DeviceCatalogue()) names.push_back(row.name);
  for (const std::string& part : Split(line, ',')) {
    std::string name(Trimmed(std::string_view(part).substr(0, part.rfind(':'))));
    if (plan::FindDevice(name) != nullptr) continue;
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    std::vector<std::string_view> begun;  // the types whose name begins with the word
    for (const std::string_view one : names) {
      if (!name.empty() && one.starts_with(name)) begun.push_back(one);
    }
    if (!begun.empty()) return Concat("did you mean ", JoinWith(begun, " or "), "?");
    return DidYouMean(name, names, "--cluster H100-80G:64,A100-80G:128");
  }
  return "--cluster H100-80G:64,A100-80G:128";
}

// A file that the tool below writes into, removed with the object.
class ScratchFile {
 public:
  ScratchFile() {
    std::string path = (std::filesystem::temp_directory_path() / "paceline-plan-XXXXXX").string();
    if (::mkdtemp(path.data()) != nullptr) folder_ = path;
  }
  ~ScratchFile() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  bool is_there() const { return !folder_.empty(); }
  std::string path() const { return folder_ + "/summary.json"; }

 private:
  std::string folder_;
};

Problem NoSummary(const std::string& script, const ToolResult& ran) {
  if (const auto told = FirstProblemIn(ran.err)) return *told;
  std::string_view last;
  for (const std::string_view line : SplitLines(ran.err)) {
    if (!Trimmed(line).empty()) last = Trimmed(line);
  }
  return {.code = "PL-E121",
          .what = "the script ended without a model to plan for",
          .where = script,
          .why = last.empty() ? Concat("it ended with exit code ", ran.exit_code,
                                       " before it called paceline.parallel.parallelize")
                              : std::string(last),
          .fix = "call parallelize in it, or plan by name: paceline plan --model llama-8b"};
}

bool AsksForHelp(const std::vector<std::string>& words) {
  return std::any_of(words.begin() + 1, words.end(),
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

// The model and the wishes that a script gives to `parallelize`. Flags of the command line override
// them.
struct ScriptWishes {
  ModelSummary model;
  plan::PlanWishes wishes;
};

Result<ScriptWishes> AskScript(Invocation& invocation) {
  const std::string& script = invocation.line.positionals.front();
  const char* fix = "paceline plan train.py …, or paceline plan --model llama-8b …";
  if (auto missing = ScriptIsThere(script, fix)) return *std::move(missing);
  auto python = FindInterpreter(invocation.environment, invocation.settings,
                                ReadHostFacts(invocation.environment));
  if (!python.ok()) return python.problem();
  const ScratchFile file;
  if (!file.is_there()) {
    return BadValue("the script cannot be run for a plan", script, "there is no temporary folder",
                    "set TMPDIR to a folder that can be written");
  }
  Environment environment = invocation.environment;
  environment[kPlanningVariable] = file.path();
  std::vector<std::string> argv = {*python, "-m", "paceline.parallel.planning"};
  argv.insert(argv.end(), invocation.line.positionals.begin(), invocation.line.positionals.end());
  const auto ran = RunTool(argv, "", environment);
  if (!ran.ok()) return ran.problem();
  const std::string text = ReadText(file.path(), plan::kPlanTextMax + 1);
  if (text.empty() && AsksForHelp(invocation.line.positionals)) {
    invocation.out.Data(ran->out);
    return Problem{.code = "PL-E121",
                   .what = "the script printed its help and ended",
                   .where = script,
                   .why = "what stands after the script is an argument of the script",
                   .fix = "leave --help out, or paceline plan --help for the flags of paceline"};
  }
  if (text.empty()) return NoSummary(script, *ran);
  auto summary = plan::ReadSummary(text);
  auto wishes = plan::ReadWishes(ReadText(file.path() + ".wishes", plan::kPlanTextMax + 1));
  if (summary.ok() && wishes.ok()) return ScriptWishes{*std::move(summary), *std::move(wishes)};
  return Problem{.code = "PL-E121",
                 .what = "the script's request cannot be planned",
                 .where = script,
                 .why = summary.ok() ? wishes.failure().message : summary.failure().message,
                 .fix = "paceline plan --model llama-8b, or another model by name"};
}

// The model of --model, in `inputs`.
Check ReadModel(Invocation& invocation, const std::string& name, PlanInputs* inputs) {
  plan::SummaryWishes wishes = {.precision = ValueOf(invocation, "precision", "bf16"),
                                .execution = inputs->wishes.execution};
  if (const Given* given = invocation.line.Find("sequence")) {
    const auto tokens = ParseInteger(given->value);
    if (!tokens || *tokens < 1 || *tokens > (1 << 24)) {
      return BadValue("the length of a sample is not usable", "--sequence",
                      "it is a number of tokens from 1 to 16777216", "--sequence 4096");
    }
    wishes.sequence = static_cast<uint64_t>(*tokens);
  }
  const bool is_file = name.ends_with(".json") || name.find('/') != std::string::npos;
  if (!is_file) {
    auto summary = plan::SummaryOfPreset(name, wishes);
    if (summary.ok()) {
      inputs->model = *std::move(summary);
      inputs->model_type = plan::ModelTypeOf(name);
      return std::nullopt;
    }
    return BadValue(Concat("no model is known as ", name), "--model", summary.failure().message,
                    FixOfModel(name));
  }
  const auto text =
      FileText(name, 1 << 20, "the model's file cannot be read", "the path of a config.json");
  if (!text.ok()) return text.problem();
  const bool is_config = text->find("paceline.model/1") == std::string::npos;
  if (!is_config && wishes.execution != &plan::OurExecution()) {
    return BadValue("the profile is not usable", Concat("--profile ", wishes.execution->name),
                    "the file describes the layers as paceline carries them out",
                    "a config.json, or --profile paceline");
  }
  auto summary = is_config ? plan::SummaryOfConfig(*text, wishes) : plan::ReadSummary(*text);
  if (summary.ok()) {
    inputs->model = *std::move(summary);
    if (is_config) inputs->model_type = plan::ModelTypeOf(*text);
    return std::nullopt;
  }
  const std::string& why = summary.failure().message;
  const bool is_foreign = !is_config || why.starts_with("model_type");
  return BadValue("the model's file cannot be used", name, why,
                  is_foreign
                      ? Concat("a config.json of a model of ", FamilyNames(), ", or a script")
                      : Concat("correct or remove that field in ", name));
}

// Refuses a script that is a model's name or config, or that has --cluster behind it without one
// before. Words behind the script are the script's own, so the user meant something else.
Check MisplacedFlag(const Invocation& invocation) {
  const std::vector<std::string>& words = invocation.line.positionals;
  if (words.empty()) return std::nullopt;
  const std::string& script = words.front();
  const std::vector<std::string_view> names = ModelNames();
  const bool is_name = std::find(names.begin(), names.end(), script) != names.end();
  const auto flag = std::find(words.begin() + 1, words.end(), "--cluster");
  const bool has_value = flag != words.end() && flag + 1 != words.end();
  const std::string cluster = ShellWord(has_value ? *(flag + 1) : "H100-80G:64");
  const bool is_config = script.ends_with(".json") && WhyNoFile(script).empty();
  if (is_name || is_config) {
    return BadValue(Concat(script, " is a model and not a script"), script,
                    "a script stands alone; a model is the value of a flag",
                    Concat("paceline plan --cluster ", cluster, " --model ", ShellWord(script)));
  }
  if (invocation.line.Find("cluster") != nullptr || flag == words.end()) return std::nullopt;
  return BadValue("no cluster was given", Concat("--cluster after ", script),
                  "what stands after the script is an argument of the script",
                  Concat("paceline plan --cluster ", cluster, " ", ShellWord(script)));
}

Result<Cluster> ClusterOf(Invocation& invocation, const plan::Execution& execution) {
  const Given* given = invocation.line.Find("cluster");
  if (given == nullptr) {
    return BadValue("no cluster was given", "--cluster", "a plan is made for certain devices",
                    "--cluster H100-80G:64,A100-80G:128");
  }
  if (given->value.ends_with(".json")) {
    const auto text = FileText(given->value, plan::kPlanTextMax + 1,
                               "the cluster's file cannot be read", "a file of paceline.cluster/1");
    if (!text.ok()) return text.problem();
    auto cluster = plan::ReadCluster(*text);
    if (cluster.ok()) return *std::move(cluster);
    return BadValue("the cluster's file cannot be used", given->value, cluster.failure().message,
                    "docs/formats/parallel_plan.md says what it may contain");
  }
  plan::ClusterWishes wishes = {.precision = ValueOf(invocation, "precision", "bf16"),
                                .execution = &execution};
  if (const Given* node = invocation.line.Find("node")) {
    const auto devices = ParseInteger(node->value);
    if (!devices || *devices < 1 || *devices > 1024) {
      return BadValue("the number of devices of a node is not usable", "--devices-per-node",
                      "it is a number from 1 to 1024", "--devices-per-node 8");
    }
    wishes.node = static_cast<uint32_t>(*devices);
  }
  if (const Given* network = invocation.line.Find("network")) {
    const auto gigabytes = ParseNumber(network->value);
    const bool is_usable = gigabytes && *gigabytes >= 0.01 && *gigabytes <= 10'000;  // no NaN is
    if (!is_usable) {
      return BadValue("the rate of the network is not usable", "--network",
                      "it is a number of gigabytes a second from 0.01 to 10000", "--network 25");
    }
    wishes.network = *gigabytes * 1e9;
  }
  auto cluster = plan::ClusterFromLine(given->value, wishes);
  if (cluster.ok()) return *std::move(cluster);
  return BadValue("the cluster cannot be used", Concat("--cluster ", given->value),
                  cluster.failure().message, FixOfCluster(given->value));
}

// The profile of --profile. Only paceline carries out a script or a described model.
Result<const plan::Execution*> ExecutionOf(Invocation& invocation) {
  const std::string name = ValueOf(invocation, "profile", plan::OurExecution().name);
  const plan::Execution* found = plan::FindExecution(name);
  const Given* model = invocation.line.Find("model");
  if (found == &plan::OurExecution() || (found != nullptr && model != nullptr)) return found;
  return BadValue("the profile is not usable", Concat("--profile ", name),
                  found == nullptr ? "there is no such profile"
                                   : "a script is carried out by paceline, and has its layers",
                  "paceline plan --profile megatron --model gpt-175b …");
}

// `wishes`, replaced by the values of flags where there are any.
Result<plan::PlanWishes> WishesOf(Invocation& invocation, plan::PlanWishes wishes) {
  if (const Given* given = invocation.line.Find("global_batch")) {
    const auto samples = ParseInteger(given->value);
    if (!samples || *samples < 1 || static_cast<uint64_t>(*samples) > kBatchMax) {
      return BadValue("the global batch is not usable", "--global-batch",
                      "it is a number from 1 to 2^32", "--global-batch 1024");
    }
    wishes.global_batch = static_cast<uint64_t>(*samples);
  }
  const Given* only = invocation.line.Find("only");
  if (only == nullptr) return wishes;
  std::array<std::vector<uint32_t>, plan::kAxisCount> asked;
  for (const std::string& part : Split(only->value, ',')) {
    const auto wish = ParseAxisValue(part, "--only");
    if (!wish.ok()) return wish.problem();
    asked[static_cast<size_t>(wish->axis)].push_back(wish->value);
  }
  for (size_t axis = 0; axis < plan::kAxisCount; ++axis) {
    if (!asked[axis].empty()) wishes.only[axis] = asked[axis];
  }
  return wishes;
}

}  // namespace

Check ScriptIsThere(const std::string& script, std::string fix) {
  std::string why = WhyNoFile(script);
  if (why.empty()) return std::nullopt;
  return BadValue("the script cannot be run", script, std::move(why), std::move(fix));
}

Result<AxisValue> ParseAxisValue(std::string_view text, const std::string& flag) {
  const size_t equals = text.find('=');
  const std::string_view name = Trimmed(text.substr(0, equals));
  std::vector<std::string> names;
  for (size_t i = 0; i < plan::kAxisCount; ++i) {
    const plan::Axis& axis = *plan::Axes()[i];
    names.push_back(axis.name == axis.alias ? std::string(axis.name)
                                            : Concat(axis.name, " (", axis.alias, ")"));
    if (equals == std::string_view::npos || (axis.name != name && axis.alias != name)) continue;
    const std::string_view value = Trimmed(text.substr(equals + 1));
    if (const auto number = ParseWhole<uint32_t>(value)) {
      return AxisValue{static_cast<plan::AxisId>(i), *number};
    }
    const auto id = static_cast<plan::AxisId>(i);
    if (const auto named = plan::NamedValue(id, value)) return AxisValue{id, *named};
    std::string values = plan::ValueNames(id);
    return BadValue(Concat("\"", text.substr(0, 60), "\" has no value of that axis"), flag,
                    values.empty() ? Concat(axis.name, " is a whole number")
                                   : Concat(axis.name, " is one of ", values),
                    Concat(flag, " ", axis.alias, "=",
                           values.empty() ? "2" : values.substr(0, values.find(','))));
  }
  return BadValue(Concat("\"", text.substr(0, 60), "\" is not AXIS=VALUE"), flag,
                  Concat("the axes are ", JoinWith(names, ", ")), Concat(flag, " tp=8"));
}

Result<PlanInputs> ReadPlanInputs(Invocation& invocation) {
  const bool has_script = !invocation.line.positionals.empty();
  const Given* name = invocation.line.Find("model");
  if (has_script == (name != nullptr)) {
    return BadValue(has_script ? "a script and a model were given" : "nothing was given to plan",
                    "paceline plan", "a plan is for one model",
                    "paceline plan train.py …, or paceline plan --model llama-8b …");
  }
  if (auto misplaced = MisplacedFlag(invocation)) return *std::move(misplaced);
  PlanInputs inputs;
  // The cheap inputs first, because a script may run for a while.
  const auto execution = ExecutionOf(invocation);
  if (!execution.ok()) return execution.problem();
  auto cluster = ClusterOf(invocation, **execution);
  if (!cluster.ok()) return cluster.problem();
  inputs.cluster = *std::move(cluster);
  auto wishes =
      WishesOf(invocation, {.global_batch = kBatchDefault, .only = {}, .execution = *execution});
  if (!wishes.ok()) return wishes.problem();
  inputs.wishes = *std::move(wishes);
  if (has_script) {
    auto script = AskScript(invocation);
    if (!script.ok()) return script.problem();
    inputs.model = std::move(script->model);
    wishes = WishesOf(invocation, std::move(script->wishes));
    if (!wishes.ok()) return wishes.problem();
    inputs.wishes = *std::move(wishes);
    return inputs;
  }
  if (auto problem = ReadModel(invocation, name->value, &inputs)) return *std::move(problem);
  // What `parallelize` carries out may be interleaved. A script says itself what it wants.
  const plan::ModelType* type = plan::FindModelType(inputs.model_type);
  inputs.wishes.looks_at_chunks = type != nullptr && type->has_pipeline_plan &&
                                  type->lacks.empty() && *execution == &plan::OurExecution();
  return inputs;
}

}  // namespace paceline::cli

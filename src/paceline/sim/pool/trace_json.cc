#include "paceline/sim/pool/trace_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "paceline/base/json.h"
#include "paceline/base/text.h"

namespace paceline::sim {
namespace {

constexpr size_t kJobsMost = 100'000;
constexpr std::string_view kFormat = "paceline.pool_trace/1";
constexpr std::array<std::string_view, 4> kKinds = {"flat", "grows", "leaks", "jumps"};

// Reads numbers out of an object, and keeps the first complaint.
class NumberReader {
 public:
  NumberReader(const nlohmann::json& from, std::string place)
      : from_(from), place_(std::move(place)) {}

  double Number(const char* key, double least, double most) {
    const auto found = from_.find(key);
    if (found == from_.end() || !found->is_number()) {
      Complain(key, "is missing, or is no number");
      return least;
    }
    const double value = found->get<double>();
    if (!(value >= least && value <= most)) {
      Complain(key, "is out of range");
      return least;
    }
    return value;
  }
  double Whole(const char* key, double least, double most) {
    const double value = Number(key, least, most);
    if (value != std::floor(value)) Complain(key, "is no whole number");
    return value;
  }
  std::string Text(const char* key) {
    const auto found = from_.find(key);
    if (found != from_.end() && found->is_string()) return found->get<std::string>();
    Complain(key, "is missing, or is no text");
    return "";
  }
  bool Flag(const char* key) {
    const auto found = from_.find(key);
    if (found != from_.end() && found->is_boolean()) return found->get<bool>();
    Complain(key, "is missing, or is neither true nor false");
    return false;
  }
  // An object; an empty one if it is missing.
  const nlohmann::json& Object(const char* key) {
    static const nlohmann::json kNone = nlohmann::json::object();
    const auto found = from_.find(key);
    if (found != from_.end() && found->is_object()) return *found;
    Complain(key, "is missing, or is no object");
    return kNone;
  }
  void Complain(std::string_view key, std::string_view why) {
    if (wrong_.empty()) wrong_ = Concat(place_, key, " ", why);
  }
  const std::string& wrong() const { return wrong_; }

 private:
  const nlohmann::json& from_;
  std::string place_;
  std::string wrong_;
};

constexpr double kMuch = 1e12;

std::string ReadMemory(const nlohmann::json& from, const std::string& place, JobMemory* memory) {
  NumberReader reader(from, place);
  const std::string kind = reader.Text("kind");
  const auto* found = std::find(kKinds.begin(), kKinds.end(), kind);
  if (found == kKinds.end()) {
    reader.Complain("kind", "is none of flat, grows, leaks, jumps");
  } else {
    memory->kind = static_cast<MemoryKind>(found - kKinds.begin());
  }
  memory->first = reader.Number("first_gib", 1e-3, 1e6);
  memory->factor = reader.Number("factor", 1, 1e6);
  memory->at = reader.Number("at", 0, 1);
  return reader.wrong();
}

std::string ReadJob(const nlohmann::json& from, size_t index, PoolJob* job) {
  const std::string place = Concat("jobs[", index, "].");
  if (!from.is_object()) return place + " is no object";
  NumberReader reader(from, place);
  // Fractions of 2^53 would lose bits of a seed, so it is limited to whole doubles.
  job->seed = static_cast<uint64_t>(reader.Whole("seed", 0, 9007199254740991.0));
  job->script = static_cast<uint32_t>(reader.Whole("script", 0, UINT32_MAX));
  job->arrives = reader.Number("arrives_s", 0, 90.0 * 24 * 3600);
  job->steps = reader.Whole("steps", 1, kMuch);
  job->nodes = static_cast<uint32_t>(reader.Whole("nodes", 1, 100'000));
  job->cores = reader.Number("cores", 1e-3, 1e6);
  job->busy = reader.Number("busy", 0, 1);
  job->asked = reader.Number("memory_gib", 1e-3, 1e6);
  job->save_every = reader.Number("save_every_s", 1, 1e9);
  job->restart = reader.Number("restart_s", 0, 1e6);
  job->has_bug = reader.Flag("has_bug");
  NumberReader step(reader.Object("step_s"), place + "step_s.");
  job->curve.constant = step.Number("constant", 0, 1e9);
  job->curve.work = step.Number("work", 0, 1e9);
  job->curve.exchange = step.Number("exchange", 0, 1e9);
  if (step.wrong().empty() && job->curve.At(1) <= 0) step.Complain("", "is 0 for one node");
  const std::string wrong = ReadMemory(reader.Object("memory"), place + "memory.", &job->memory);
  if (!reader.wrong().empty()) return reader.wrong();
  return step.wrong().empty() ? wrong : step.wrong();
}

nlohmann::ordered_json JobJson(const PoolJob& job) {
  return {{"seed", job.seed},
          {"script", job.script},
          {"arrives_s", job.arrives},
          {"steps", job.steps},
          {"nodes", job.nodes},
          {"cores", job.cores},
          {"busy", job.busy},
          {"memory_gib", job.asked},
          {"save_every_s", job.save_every},
          {"restart_s", job.restart},
          {"has_bug", job.has_bug},
          {"step_s",
           {{"constant", job.curve.constant},
            {"work", job.curve.work},
            {"exchange", job.curve.exchange}}},
          {"memory",
           {{"kind", kKinds.at(static_cast<size_t>(job.memory.kind))},
            {"first_gib", job.memory.first},
            {"factor", job.memory.factor},
            {"at", job.memory.at}}}};
}

}  // namespace

std::string TraceText(const PoolTrace& trace) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (const PoolJob& job : trace.jobs) jobs.push_back(JobJson(job));
  return PrintJson(nlohmann::ordered_json{
      {"format", kFormat},
      {"name", trace.name},
      {"pool", {{"cores", trace.pool.cores}, {"memory_gib", trace.pool.memory}}},
      {"faults", {{"node_hours", trace.faults.node_hours}, {"fatal", trace.faults.fatal}}},
      {"jobs", std::move(jobs)}});
}

std::optional<PoolTrace> ReadTrace(std::string_view text, std::string* wrong) {
  const nlohmann::json json = ParseJson(text);
  if (!json.is_object()) {
    *wrong = "it is no JSON object";
    return std::nullopt;
  }
  PoolTrace trace;
  NumberReader reader(json, "");
  if (reader.Text("format") != kFormat) reader.Complain("format", Concat("is not ", kFormat));
  trace.name = reader.Text("name");
  NumberReader pool(reader.Object("pool"), "pool.");
  trace.pool.cores = pool.Number("cores", 1e-3, kMuch);
  trace.pool.memory = pool.Number("memory_gib", 1e-3, kMuch);
  NumberReader faults(reader.Object("faults"), "faults.");
  trace.faults.node_hours = faults.Number("node_hours", 0.1, kMuch);
  trace.faults.fatal = faults.Number("fatal", 0, 1);
  const auto jobs = json.find("jobs");
  if (jobs == json.end() || !jobs->is_array() || jobs->empty() || jobs->size() > kJobsMost) {
    reader.Complain("jobs", Concat("is no list of 1 to ", kJobsMost, " jobs"));
  }
  for (const std::string& complaint : {reader.wrong(), pool.wrong(), faults.wrong()}) {
    if (wrong->empty()) *wrong = complaint;
  }
  if (!wrong->empty()) return std::nullopt;
  for (size_t i = 0; i < jobs->size(); ++i) {
    PoolJob job;
    *wrong = ReadJob((*jobs)[i], i, &job);
    if (!wrong->empty()) return std::nullopt;
    trace.jobs.push_back(job);
  }
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                   [](const PoolJob& a, const PoolJob& b) { return a.arrives < b.arrives; });
  return trace;
}

}  // namespace paceline::sim

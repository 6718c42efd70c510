// `paceline pool`: many jobs on one cluster, simulated under several policies.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/sim/pool/made_trace.h"
#include "paceline/sim/pool/pool_run.h"
#include "paceline/sim/pool/trace_json.h"

namespace paceline::cli {
namespace {

using enum FlagKind;

constexpr size_t kTraceBytesMost = size_t{256} << 20;
constexpr int64_t kSeedsMost = 1000;
constexpr int64_t kSeedsUsual = 10;
constexpr std::string_view kMade = "made";

constexpr Flag kPoolFlags[] = {
    {.dest = "trace",
     .spellings = {"--trace"},
     .default_text = "made",
     .metavar = "made|FILE",
     .help =
         "the jobs: made by chance from a seed, or those of a file (docs/formats/pool_trace.md)"},
    {.dest = "policy",
     .spellings = {"--policy"},
     .metavar = "NAME,…",
     .help = "policies that are compared; all by default"},
    {.dest = "seed",
     .spellings = {"--seed"},
     .kind = kInteger,
     .default_text = "1",
     .metavar = "S",
     .help = "first seed of made traces; 1 by default",
     .minimum = 0},
    {.dest = "seeds",
     .spellings = {"--seeds"},
     .kind = kInteger,
     .default_text = "10",
     .metavar = "N",
     .help = "how many made traces; 10 by default",
     .minimum = 1,
     .maximum = kSeedsMost},
};

// A column of the table, and a figure of the JSON output.
struct Column {
  const char* key;
  const char* head;  // "": only in JSON
  double (*value)(const sim::PoolOutcome&);
  const char* form;
};

constexpr Column kColumns[] = {
    {"cpu_utilization", "CPU USED", [](const sim::PoolOutcome& o) { return o.CpuUtilization(); },
     "%.2f"},
    {"memory_utilization", "MEMORY USED",
     [](const sim::PoolOutcome& o) { return o.MemoryUtilization(); }, "%.2f"},
    {"completion", "COMPLETED", [](const sim::PoolOutcome& o) { return o.Completion(); }, "%.3f"},
    {"job_seconds", "", [](const sim::PoolOutcome& o) { return o.MeanJobSeconds(); }, ""},
    {"wait_seconds", "", [](const sim::PoolOutcome& o) { return o.MeanWaitSeconds(); }, ""},
    {"kernel_kills", "KERNEL KILLS",
     [](const sim::PoolOutcome& o) { return static_cast<double>(o.kernel_kills); }, "%.1f"},
    {"resizes", "RESIZES", [](const sim::PoolOutcome& o) { return static_cast<double>(o.resizes); },
     "%.0f"},
    {"memory_changes", "",
     [](const sim::PoolOutcome& o) { return static_cast<double>(o.memory_changes); }, ""},
    {"failed_script", "",
     [](const sim::PoolOutcome& o) { return static_cast<double>(o.failures.script); }, ""},
    {"failed_memory", "",
     [](const sim::PoolOutcome& o) { return static_cast<double>(o.failures.memory); }, ""},
    {"failed_node", "",
     [](const sim::PoolOutcome& o) { return static_cast<double>(o.failures.node); }, ""},
    {"failed_master", "",
     [](const sim::PoolOutcome& o) { return static_cast<double>(o.failures.master); }, ""},
    {"never_started", "",
     [](const sim::PoolOutcome& o) { return static_cast<double>(o.failures.never); }, ""},
};

std::string Formed(const char* form, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), form, value);
  return text;
}

nlohmann::ordered_json FigureJson(const sim::PoolFigure& figure) {
  return {{"mean", figure.mean}, {"least", figure.least}, {"most", figure.most}};
}

const sim::PoolResult* StaticOf(const std::vector<sim::PoolResult>& results) {
  const auto found = std::find_if(results.begin(), results.end(),
                                  [](const sim::PoolResult& r) { return r.policy == "static"; });
  return found == results.end() ? nullptr : &*found;
}

struct Request {
  std::string trace;
  std::vector<sim::PoolTrace> traces;
  std::vector<const sim::PoolPolicyEntry*> policies;
  bool is_made = false;
};

void PrintResultsJson(Output& out, const Request& request,
                      const std::vector<sim::PoolResult>& results) {
  const sim::PoolResult* base = StaticOf(results);
  auto list = nlohmann::ordered_json::array();
  for (const sim::PoolResult& result : results) {
    nlohmann::ordered_json json = {{"policy", result.policy}};
    for (const Column& column : kColumns) json[column.key] = FigureJson(result.Over(column.value));
    json["job_time_of_static"] =
        base == nullptr ? nlohmann::ordered_json() : FigureJson(sim::JobTimeRatio(result, *base));
    list.push_back(std::move(json));
  }
  auto published = nlohmann::ordered_json::array();
  for (const sim::PoolPublished& row : sim::kPoolPublished) {
    if (!request.is_made) break;
    published.push_back({{"policy", row.policy},
                         {"cpu_utilization", row.cpu_utilization},
                         {"completion", row.completion},
                         {"job_time_of_static", row.job_time}});
  }
  out.DataLine(PrintJson(nlohmann::ordered_json{{"schema", "paceline.pool_simulate/1"},
                                                {"trace", Visible(request.trace)},
                                                {"traces", request.traces.size()},
                                                {"jobs", request.traces.front().jobs.size()},
                                                {"policies", std::move(list)},
                                                {"published", std::move(published)}}));
}

void PrintResultsText(Output& out, const Request& request,
                      const std::vector<sim::PoolResult>& results) {
  const sim::PoolResult* base = StaticOf(results);
  out.DataLine(Concat("simulated: ", Counted(request.traces.size(), "trace"), " of ",
                      Counted(request.traces.front().jobs.size(), "job"), ", ",
                      Visible(request.trace)));
  std::vector<std::string> head = {"POLICY", "MEAN JOB TIME", "OF STATIC"};
  for (const Column& column : kColumns) {
    if (*column.head != '\0') head.emplace_back(column.head);
  }
  std::vector<std::vector<std::string>> rows = {head};
  for (const sim::PoolResult& result : results) {
    const auto seconds =
        result.Over([](const sim::PoolOutcome& outcome) { return outcome.MeanJobSeconds(); });
    // Where no job ended there is no time of one.
    const auto ended =
        result.Over([](const sim::PoolOutcome& outcome) { return outcome.Completion(); });
    const bool is_known = ended.most > 0;
    std::vector<std::string> row = {
        std::string(result.policy), is_known ? Formed("%.0f min", seconds.mean / 60) : "-",
        is_known && base != nullptr ? Formed("%.2f", sim::JobTimeRatio(result, *base).mean) : "-"};
    for (const Column& column : kColumns) {
      if (*column.head != '\0') row.push_back(Formed(column.form, result.Over(column.value).mean));
    }
    rows.push_back(std::move(row));
  }
  out.Rows(rows);
  for (const sim::PoolPublished& row : sim::kPoolPublished) {
    if (!request.is_made) break;
    out.DataLine(Concat("published, ", row.policy, ": CPU used ",
                        Formed("%.2f", row.cpu_utilization), ", completed ",
                        Formed("%.2f", row.completion), ", job time ", Formed("%.2f", row.job_time),
                        " of static"));
  }
}

Result<std::vector<const sim::PoolPolicyEntry*>> PoliciesOf(const std::string& text) {
  std::vector<const sim::PoolPolicyEntry*> found;
  std::string names;
  for (const sim::PoolPolicyEntry& entry : sim::AllPoolPolicies()) {
    if (text.empty()) found.push_back(&entry);
    Append(&names, names.empty() ? "" : ", ", entry.name);
  }
  for (const std::string_view name : SplitParts(text, ",")) {
    const sim::PoolPolicyEntry* entry = sim::FindPoolPolicy(name);
    if (entry == nullptr) {
      return Problem{.code = "PL-E315",
                     .what = Concat("no policy is called \"", Visible(std::string(name)), "\""),
                     .where = "--policy",
                     .why = "the policies are " + names,
                     .fix = "name some of them, separated by commas"};
    }
    found.push_back(entry);
  }
  return found;
}

Problem BadTrace(const std::string& path, std::string why) {
  return {.code = "PL-E316",
          .what = "the trace cannot be used",
          .where = Visible(path),
          .why = Visible(why),
          .fix = "`paceline pool trace` prints one to begin with; docs/formats/pool_trace.md"};
}

Result<Request> ReadRequest(const Invocation& invocation) {
  const ParsedLine& line = invocation.line;
  Request request;
  auto policies = PoliciesOf(line.Text("policy"));
  if (!policies.ok()) return policies.problem();
  request.policies = *std::move(policies);
  request.trace = line.Text("trace", kMade);
  request.is_made = request.trace == kMade;
  if (!request.is_made) {
    const std::string text = ReadText(request.trace, kTraceBytesMost);
    if (text.empty()) return BadTrace(request.trace, "it cannot be read, or is empty");
    std::string wrong;
    auto trace = sim::ReadTrace(text, &wrong);
    if (!trace.has_value()) return BadTrace(request.trace, wrong);
    request.traces.push_back(*std::move(trace));
    return request;
  }
  const auto first = static_cast<uint64_t>(line.Number("seed", 1));
  const auto count = static_cast<uint64_t>(line.Number("seeds", kSeedsUsual));
  for (uint64_t i = 0; i < count; ++i) request.traces.push_back(sim::MadeTrace(first + i));
  return request;
}

}  // namespace

FlagTable PoolFlags() { return kPoolFlags; }

int RunPool(Invocation& invocation) {
  Output& out = invocation.out;
  const std::vector<std::string>& words = invocation.line.positionals;
  const std::string action = words.empty() ? "" : words.front();
  if (action == "trace") {
    const auto seed = static_cast<uint64_t>(invocation.line.Number("seed", 1));
    out.DataLine(sim::TraceText(sim::MadeTrace(seed)));
    return kExitDone;
  }
  if (action != "simulate") {
    return out.Fail({.code = "PL-E001",
                     .what = action.empty() ? "pool does not say what to do"
                                            : "pool has no action \"" + Visible(action) + "\"",
                     .where = "paceline pool",
                     .why = "its actions are simulate and trace",
                     .fix = "paceline pool simulate"});
  }
  auto request = ReadRequest(invocation);
  if (!request.ok()) return out.Fail(request.problem());
  const auto results = sim::RunPools(request->traces, request->policies);
  if (out.is_json()) {
    PrintResultsJson(out, *request, results);
  } else {
    PrintResultsText(out, *request, results);
  }
  return kExitDone;
}

}  // namespace paceline::cli

#include "paceline/cli/run/task_shape.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "paceline/base/text.h"

namespace paceline::cli {
namespace {

constexpr uint32_t kSlotsMax = 64;  // of a progress page
constexpr uint32_t kTableSlotsMin = 16;

Problem Misfit(std::string_view what, std::string why, std::string_view fix) {
  return {.code = "PL-E140",
          .what = std::string(what),
          .where = "the command line",
          .why = std::move(why),
          .fix = std::string(fix)};
}

constexpr std::string_view kTensorFlowLine = "paceline run --tf --workers 3 --ps 2 job.py";
constexpr std::string_view kTablesLine =
    "paceline run --workers 3 --ps 2 --tables runs/tables train.py";

Check RefuseTaskFlags(const ParsedLine& line) {
  for (const std::string_view dest : {"workers", "ps", "evaluator"}) {
    if (!line.Has(dest)) continue;
    if (line.Has("resume")) {
      return Misfit(Concat("--", dest, " cannot change a job that is resumed"),
                    "it goes on with the tasks that it had",
                    "leave it out; then, for a job with --tables, paceline tasks scale ps=N");
    }
    return Misfit(Concat("--", dest, " needs --tf or --tables"),
                  "a job has a world of equal ranks, or tasks of several kinds",
                  dest == "evaluator" ? kTensorFlowLine : kTablesLine);
  }
  return std::nullopt;
}

// Flags about the ranks of a world, which a job of tasks would ignore.
Check RefuseWorldFlags(const ParsedLine& line) {
  constexpr std::pair<std::string_view, std::string_view> kWorldFlags[] = {
      {"grow", "--grow"},
      {"scale", "--scale"},
      {"plan", "--plan"},
      {"ckpt_every", "--ckpt-every"},
      {"ckpt_keep", "--ckpt-keep"}};
  for (const auto& [dest, spelling] : kWorldFlags) {
    if (!line.Has(dest)) continue;
    return Misfit(Concat(spelling, " means nothing to a job of tasks"),
                  "the flag is about the ranks of a world, and tasks start and save each alone",
                  Concat("leave ", spelling, " out"));
  }
  return std::nullopt;
}

// Tables on servers.
Check TakeTables(const ParsedLine& line, RunRequest* request) {
  JobSpec& spec = request->spec;
  if (line.Has("tf") || line.Has("evaluator")) {
    return Misfit(
        Concat("--tables and ", line.Has("tf") ? "--tf" : "--evaluator", " are of different jobs"),
        "TensorFlow's servers keep TensorFlow's variables, and ours keep our tables", kTablesLine);
  }
  if (spec.tasks.workers == 0 || spec.tasks.servers == 0) {
    return Misfit("--tables needs --workers and --ps, each at least 1",
                  "workers run the script, and servers hold the tables", kTablesLine);
  }
  std::string directory = line.Text("tables");
  if (directory.empty() || directory.find("://") != std::string::npos) {
    return Problem{.code = "PL-E205",
                   .what = Concat("tables cannot be kept in \"", directory, "\""),
                   .where = "--tables",
                   .why = "a table server writes its snapshots into a directory of a file system",
                   .fix = std::string(kTablesLine)};
  }
  if (!directory.starts_with("/")) directory = Concat(request->launch.cwd, "/", directory);
  spec.tasks.tables = directory;
  return std::nullopt;
}

}  // namespace

Check TakeTasks(const ParsedLine& line, const SettingValues& settings, RunRequest* request) {
  if (!line.Has("tf") && !line.Has("tables")) return RefuseTaskFlags(line);
  if (Check problem = RefuseWorldFlags(line)) return problem;
  JobSpec& spec = request->spec;
  TaskSpec& tasks = spec.tasks;
  tasks = {.workers = static_cast<uint32_t>(line.Number("workers", 0)),
           .servers = static_cast<uint32_t>(line.Number("ps", 0)),
           .evaluators = line.Has("evaluator") ? 1U : 0U};
  if (line.Has("tables")) {
    if (Check problem = TakeTables(line, request)) return problem;
  }
  if (!tasks.is_on()) {
    return Misfit("--tf needs --workers", "the first of the workers is the chief of the cluster",
                  kTensorFlowLine);
  }
  if (spec.is_placed) {
    return Misfit("a job of tasks cannot run under a platform yet",
                  "the platform's operator makes equal nodes, and knows no tasks",
                  "start it on the hosts themselves, with --nnodes and --rdzv-endpoint");
  }
  if (spec.nodes_min != spec.nodes_max) {
    return Misfit(Concat("a job of tasks has a fixed number of nodes, and this one has ",
                         spec.nodes_min, " to ", spec.nodes_max),
                  "each task knows the addresses of all others from its start", "--nnodes N");
  }
  const uint32_t count = tasks.count();
  const bool is_chosen = !settings.IsDefault("job.nproc_per_node");
  // With room for `paceline tasks scale`.
  const uint32_t room = tasks.has_tables() ? std::max(2 * count, kTableSlotsMin) : count;
  const uint32_t slots = is_chosen ? spec.nproc_per_node
                                   : std::max((count + spec.nodes_max - 1) / spec.nodes_max,
                                              std::min(room / spec.nodes_max, kSlotsMax));
  if (slots > kSlotsMax || uint64_t{slots} * spec.nodes_max < count) {
    return Misfit(Concat(count, " tasks do not fit on ", Counted(spec.nodes_max, "node")),
                  is_chosen ? Concat("--nproc-per-node gives each node ", Counted(slots, "slot"))
                            : Concat("a node holds at most ", kSlotsMax, " tasks"),
                  is_chosen ? "leave --nproc-per-node out" : "more nodes: --nnodes N");
  }
  spec.nproc_per_node = request->launch.nproc_per_node = slots;
  return std::nullopt;
}

}  // namespace paceline::cli

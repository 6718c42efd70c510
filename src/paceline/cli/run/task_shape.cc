#include "paceline/cli/run/task_shape.h"

#include <string_view>

#include "paceline/base/text.h"

namespace paceline::cli {
namespace {

constexpr uint32_t kSlotsMax = 64;  // of a progress page

Problem Misfit(std::string_view what, std::string why, std::string_view fix) {
  return {.code = "PL-E140",
          .what = std::string(what),
          .where = "the command line",
          .why = std::move(why),
          .fix = std::string(fix)};
}

}  // namespace

Check TakeTasks(const ParsedLine& line, const SettingValues& settings, RunRequest* request) {
  if (!line.Has("tf")) {
    for (const std::string_view dest : {"workers", "ps", "evaluator"}) {
      if (!line.Has(dest)) continue;
      return Misfit(Concat("--", dest, " needs --tf"),
                    "a job has a world of equal ranks, or tasks of several kinds",
                    "paceline run --tf --workers 3 --ps 2 job.py");
    }
    return std::nullopt;
  }
  JobSpec& spec = request->spec;
  TaskSpec& tasks = spec.tasks;
  tasks = {.workers = static_cast<uint32_t>(line.Number("workers", 0)),
           .servers = static_cast<uint32_t>(line.Number("ps", 0)),
           .evaluators = line.Has("evaluator") ? 1U : 0U};
  if (!tasks.is_on()) {
    return Misfit("--tf needs --workers", "the first of the workers is the chief of the cluster",
                  "paceline run --tf --workers 3 --ps 2 job.py");
  }
  if (spec.is_placed) {
    return Misfit("a job of tasks cannot run under a platform yet",
                  "the platform's operator makes equal nodes, and knows no tasks",
                  "start it on the hosts themselves, with --nnodes and --rdzv-endpoint");
  }
  if (spec.nodes_min != spec.nodes_max) {
    return Misfit(Concat("a job of tasks has a fixed number of nodes, and this one has ",
                         spec.nodes_min, " to ", spec.nodes_max),
                  "TensorFlow's cluster is static: each task knows all addresses from its start",
                  "--nnodes N");
  }
  const uint32_t count = tasks.count();
  const bool is_chosen = !settings.IsDefault("job.nproc_per_node");
  const uint32_t slots =
      is_chosen ? spec.nproc_per_node : (count + spec.nodes_max - 1) / spec.nodes_max;
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

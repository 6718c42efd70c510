#include "paceline/agent/ranks/task_env.h"

#include <array>

#include "paceline/base/host_text.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

// Variables of a world, as an outer launcher may have left them.
constexpr std::array<const char*, 12> kOfAWorld = {
    "RANK",        "LOCAL_RANK",       "WORLD_SIZE",     "LOCAL_WORLD_SIZE",
    "GROUP_RANK",  "GROUP_WORLD_SIZE", "ROLE_RANK",      "ROLE_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT",      "PACELINE_STORE", "PACELINE_RING"};

}  // namespace

std::string TfConfig(const std::vector<Task>& cluster, Rank rank) {
  nlohmann::ordered_json addresses = nlohmann::ordered_json::object();
  for (const Task& task : cluster) {
    const TaskKind kind = KindOfTask(task.rank);
    if (kind == TaskKind::kEvaluator) continue;
    addresses[std::string(TaskKindName(kind))].push_back(
        Concat(Bracketed(task.host), ":", task.port));
  }
  const nlohmann::ordered_json config = {
      {"cluster", std::move(addresses)},
      {"task", {{"type", TaskKindName(KindOfTask(rank))}, {"index", NumberOfTask(rank)}}}};
  return PrintJson(config);
}

Environment TaskEnvironment(const RankPlace& place, const Environment& base) {
  Environment env = base;
  for (const char* name : kOfAWorld) env.erase(name);
  if (place.launch.omp_threads.has_value()) {
    env["OMP_NUM_THREADS"] = Concat(*place.launch.omp_threads);
  }
  env["TF_CONFIG"] = TfConfig(place.assignment.cluster, place.rank);
  env["PACELINE_TASK"] = RankName(place.rank);
  env["PACELINE_TASK_RESTARTS"] = Concat(place.assignment.restart_count);
  env["PACELINE_JOB_ID"] = place.job.job_id;
  env["PACELINE_NODE"] = place.node;
  env["PACELINE_RUN_DIR"] = place.run_dir;
  env["TORCHELASTIC_ERROR_FILE"] = place.torch_error_file;
  return env;
}

}  // namespace paceline::agent

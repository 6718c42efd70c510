#include "paceline/agent/ranks/task_env.h"

#include <algorithm>
#include <array>

#include "paceline/base/fnv.h"
#include "paceline/base/hex.h"
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
// Of tasks and leases, likewise.
constexpr std::array<const char*, 6> kOfTasks = {
    "TF_CONFIG",        "PACELINE_TABLES",       "PACELINE_WORKER",
    "PACELINE_WORKERS", "PACELINE_LEASE_SOCKET", "PACELINE_CHECKPOINT_SOCKET"};

bool IsOnSeveralHosts(const std::vector<Task>& cluster) {
  return std::any_of(cluster.begin(), cluster.end(),
                     [&](const Task& task) { return task.host != cluster.front().host; });
}

// What a worker of a job with table servers needs, or one of the servers.
void AddTables(const RankPlace& place, Environment* env) {
  if (!place.lease_socket.empty()) (*env)["PACELINE_LEASE_SOCKET"] = place.lease_socket;
  if (KindOfTask(place.rank) != TaskKind::kWorker) return;
  const TaskSpec& tasks = place.job.tasks;
  (*env)["PACELINE_WORKER"] = Concat(NumberOfTask(place.rank));
  // The job may have more or fewer workers than at its start.
  uint32_t workers = 0;
  for (const Task& task : place.assignment.cluster) {
    workers += KindOfTask(task.rank) == TaskKind::kWorker ? 1 : 0;
  }
  (*env)["PACELINE_WORKERS"] = Concat(workers);
  std::string sockets;
  for (uint32_t i = 0; i < tasks.servers; ++i) {
    sockets +=
        Concat(sockets.empty() ? "" : ",", TableSocket(place.lease_socket, place.run_dir, i));
  }
  (*env)["PACELINE_TABLES"] = sockets;
}

}  // namespace

std::string TableSocket(std::string_view beside, const std::string& run_dir, uint32_t server) {
  return Concat(beside.substr(0, beside.rfind('/') + 1), "table-", Hex(Fnv1a(run_dir)), "-", server,
                ".sock");
}

std::vector<std::string> TableServerCommand(const RankPlace& place) {
  const uint32_t number = NumberOfTask(place.rank);
  std::vector<std::string> command = {"server",
                                      "--socket",
                                      TableSocket(place.lease_socket, place.run_dir, number),
                                      "--dir",
                                      place.job.tasks.tables,
                                      "--job-id",
                                      place.job.job_id,
                                      "--number",
                                      Concat(number),
                                      "--servers",
                                      Concat(place.job.tasks.servers),
                                      "--generation",
                                      Concat(place.assignment.generation.value()),
                                      "--restarts",
                                      Concat(place.assignment.restart_count)};
  if (IsOnSeveralHosts(place.assignment.cluster)) command.push_back("--shared");
  return command;
}

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
  const bool has_tables = place.job.tasks.has_tables();
  Environment env = has_tables ? JobEnvironment(place.launch, base) : base;
  for (const char* name : kOfAWorld) env.erase(name);
  for (const char* name : kOfTasks) env.erase(name);
  if (place.launch.omp_threads.has_value()) {
    env["OMP_NUM_THREADS"] = Concat(*place.launch.omp_threads);
  }
  if (has_tables) {
    AddTables(place, &env);
  } else {
    env["TF_CONFIG"] = TfConfig(place.assignment.cluster, place.rank);
  }
  env["PACELINE_TASK"] = RankName(place.rank);
  env["PACELINE_TASK_RESTARTS"] = Concat(place.assignment.restart_count);
  env["PACELINE_JOB_ID"] = place.job.job_id;
  env["PACELINE_NODE"] = place.node;
  env["PACELINE_RUN_DIR"] = place.run_dir;
  env["TORCHELASTIC_ERROR_FILE"] = place.torch_error_file;
  return env;
}

}  // namespace paceline::agent

#include "paceline/agent/ranks/rank_env.h"

#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

// One visible device a rank and LOCAL_RANK=0, with torchrun's precedence: HIP's list, if set, is
// used for both kinds.
void PlaceVirtualRank(uint32_t local_rank, const Environment& base, Environment* env) {
  (*env)["LOCAL_RANK"] = "0";
  const auto hip = base.find("HIP_VISIBLE_DEVICES");
  const auto cuda = base.find("CUDA_VISIBLE_DEVICES");
  const auto parent = hip != base.end() ? hip : cuda;
  std::string device = Concat(local_rank);
  if (parent != base.end()) {
    const std::vector<std::string_view> devices = SplitParts(parent->second, ",");
    if (local_rank < devices.size()) {
      device = std::string(Trimmed(devices[local_rank]));
    }
  }
  (*env)["CUDA_VISIBLE_DEVICES"] = device;
  if (hip != base.end()) (*env)["HIP_VISIBLE_DEVICES"] = device;
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

Environment ToEnvironment(const std::vector<std::string>& entries) {
  Environment env;
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    env.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return env;
}

Environment JobEnvironment(const LaunchSpec& launch, const Environment& base) {
  Environment env = base;
  env.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (launch.omp_threads.has_value()) {
    env["OMP_NUM_THREADS"] = Concat(*launch.omp_threads);
  } else if (launch.nproc_per_node > 1) {
    env.emplace("OMP_NUM_THREADS", "1");
  }
  return env;
}

Environment RankEnvironment(const RankPlace& place, const Environment& base) {
  const Assignment& assignment = place.assignment;
  Environment env = JobEnvironment(place.launch, base);
  env["RANK"] = ToString(place.rank);
  env["LOCAL_RANK"] = Concat(place.local_rank);
  env["GROUP_RANK"] = Concat(assignment.seat);
  env["ROLE_RANK"] = env["RANK"];
  env["ROLE_NAME"] = place.launch.role;
  env["LOCAL_WORLD_SIZE"] = Concat(assignment.rank_count);
  env["WORLD_SIZE"] = Concat(assignment.world_size);
  env["GROUP_WORLD_SIZE"] = Concat(assignment.seat_count);
  env["ROLE_WORLD_SIZE"] = env["WORLD_SIZE"];
  env["MASTER_ADDR"] = assignment.store.host;
  env["MASTER_PORT"] = Concat(assignment.store.port);
  // torchrun's --master-port: ranks see it, but this world's store is on its own port. A program
  // other than Python has no code that translates it.
  env.erase("PACELINE_STORE");
  if (place.launch.master_port != 0 && place.launch.entry != EntryKind::kExec) {
    env["MASTER_PORT"] = Concat(place.launch.master_port);
    env["PACELINE_STORE"] =
        Concat(place.launch.master_port, " ", assignment.store.host, " ", assignment.store.port);
  }
  env["TORCHELASTIC_RESTART_COUNT"] = Concat(assignment.restart_count);
  env["TORCHELASTIC_MAX_RESTARTS"] = Concat(place.job.max_restarts.value_or(0));
  env["TORCHELASTIC_RUN_ID"] = place.launch.run_id;
  // torchrun has one store for all restarts, from which gloo reads addresses of dead processes. Our
  // store is rank 0's own, and new in every world.
  env["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  env["TORCHELASTIC_ERROR_FILE"] = place.torch_error_file;
  if (place.launch.virtual_local_rank) PlaceVirtualRank(place.local_rank, base, &env);
  env["PACELINE_JOB_ID"] = place.job.job_id;
  env["PACELINE_NODE"] = place.node;
  env["PACELINE_RUN_DIR"] = place.run_dir;
  if (!place.checkpoint_socket.empty()) {
    env["PACELINE_CHECKPOINT_SOCKET"] = place.checkpoint_socket;
  }
  if (!place.lease_socket.empty()) env["PACELINE_LEASE_SOCKET"] = place.lease_socket;
  if (!place.gloo_interface.empty()) env.emplace("GLOO_SOCKET_IFNAME", place.gloo_interface);
  env.erase("PACELINE_RING");
  if (!place.ring.empty()) env["PACELINE_RING"] = place.ring;
  return env;
}

std::string SubstituteLocalRank(std::string_view argument, uint32_t local_rank) {
  std::string result;
  while (!argument.empty()) {
    if (TakePrefix(&argument, "$$")) {
      result.push_back('$');
    } else if (TakePrefix(&argument, "${local_rank}")) {
      Append(&result, local_rank);
    } else if (argument.starts_with("$local_rank") &&
               (argument.size() == 11 || !IsNameCharacter(argument[11]))) {
      argument.remove_prefix(11);
      Append(&result, local_rank);
    } else {
      result.push_back(argument.front());
      argument.remove_prefix(1);
    }
  }
  return result;
}

}  // namespace paceline::agent

#pragma once

// The world that ranks of another launcher (torchrun, accelerate, srun, Ray Train) report when they
// open their checkpoints: docs/formats/checkpoint_socket.md.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "paceline/agent/ranks/pids.h"
#include "paceline/model/ids.h"
#include "paceline/model/saved_step.h"
#include "paceline/model/world.h"

namespace paceline::agent {

// One start of all ranks. `attempt` identifies it: a random word from rank 0.
struct RankWorld {
  std::string attempt;      // empty: a single process
  std::vector<Seat> seats;  // host i is node i + 1; no generation yet
  uint32_t host = 0;        // of this rank
  uint32_t hosts = 1;
  // For ranks of a dead keeper: their world's generation. 0: a new rank.
  uint64_t generation = 0;
  // The newest checkpoint in the directory, from its name, as these ranks saw it at their start.
  // Generation 0: there is none. None: no rank read the directory, because the job was restarted,
  // or the directory could not be read.
  std::optional<SavedStep> in_directory = {};
  // With several hosts: the join string of host 0's keeper, and this host's address.
  std::string join = {};
  std::string address = {};
};

// A single process if the message has no world. None if the world is malformed.
std::optional<RankWorld> RankWorldIn(const nlohmann::json& open);

// The process that started the rank; the job's memory lives as long. Pid 0: not given.
ProcessId LauncherIn(const nlohmann::json& open);
}  // namespace paceline::agent

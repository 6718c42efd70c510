#pragma once

// What ranks that another launcher started (torchrun, accelerate, srun, Ray Train) say of their
// world when they open their checkpoints: docs/formats/checkpoint_socket.md.

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

// One start of all ranks. `attempt` names it: a random word that rank 0 gave to all others.
struct RankWorld {
  std::string attempt;      // empty: a process alone
  std::vector<Seat> seats;  // of host i the node i + 1; without a generation yet
  uint32_t host = 0;        // where this rank is
  uint32_t hosts = 1;
  // Of a rank that had a keeper already, which is gone: its world's. 0: a new rank.
  uint64_t generation = 0;
  // The newest checkpoint in the directory, by its name, as these ranks saw it when they began; of
  // generation 0: there is none. Nothing: nobody looked, because the same job goes on, or the
  // directory cannot be read.
  std::optional<SavedStep> in_directory = {};
  // Of several hosts: how to join the keeper of host 0, and where others reach this host.
  std::string join = {};
  std::string address = {};
};

// A process alone when the message speaks of no world. None: what it says cannot be.
std::optional<RankWorld> RankWorldIn(const nlohmann::json& open);

// Whose life the memory of the job follows: the process that started the rank. Pid 0: not said.
ProcessId LauncherIn(const nlohmann::json& open);
}  // namespace paceline::agent

#pragma once

// `paceline ckpt rescue`, and what other commands say about it.

#include <cstdint>
#include <string>

#include "paceline/cli/command.h"

namespace paceline::cli {

// What the agents of this host wrote about the job's checkpoints.
struct KnownCheckpoints {
  std::string directory;  // "": no rank here has opened a Checkpointer
  uint64_t term = 0;      // the highest of the job's masters
  std::string rescued;    // the checkpoint with which a rescue has ended the job; "": none
};
KnownCheckpoints CheckpointsKnownIn(const std::string& run_dir);

// The command that brings the newest step in the hosts' memory to storage. "": the job saves
// nothing.
std::string RescueCommand(const std::string& run_dir);

// `job`: an id or a run directory; "": the default job.
int CkptRescue(Invocation& invocation, const std::string& job);

}  // namespace paceline::cli

#pragma once

// How the newest step in the memory of a job's hosts gets to storage after its master's host is
// lost. `paceline ckpt rescue`, on one of these hosts, writes a call into the directory of the
// checkpoints, and the agents of all hosts answer there. docs/formats/rescue.md.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/saved_step.h"

namespace paceline {

// The node writes the shard of `rank`.
struct RescueShard {
  Rank rank;
  Rank file_of;   // the rank whose file has its tensors: itself, or one with an equal file
  Rank image_of;  // the rank whose image is written: itself, or one with an equal file
  std::string node;
  bool operator==(const RescueShard&) const = default;
};

struct RescueCall {
  enum class Stage {
    kAsk,    // say what is in memory; nothing changes
    kEnd,    // end the ranks, so that the memory stays as it is
    kStore,  // write the shards
    kOver,   // the step is in storage; the agents end
    kLeft,   // the command has given up; an agent that has ended its ranks ends, too
  };
  std::string job_id;
  std::string id;     // of this run of the command
  std::string host;   // of the command
  uint64_t term = 0;  // higher than that of any master so far
  uint64_t beat = 0;  // goes up while the command lives
  Stage stage = Stage::kAsk;
  SavedStep saved;  // from here on: for kStore, and kept in kOver
  uint32_t world_size = 0;
  std::vector<RescueShard> shards;
  bool operator==(const RescueCall&) const = default;
};

struct RescueAnswer {
  std::string job_id;
  std::string id;  // of the call
  std::string node;
  std::string host;
  uint64_t term = 0;  // the highest of the masters that the node has met
  uint64_t beat = 0;  // of the call
  RescueCall::Stage stage = RescueCall::Stage::kAsk;
  bool has_master = false;  // it is connected to the master now
  bool has_ended = false;   // its ranks have ended for this call
  std::vector<MemoryImage> images;
  std::vector<EqualFiles> equal;
  std::vector<ShardState> shards;
  bool operator==(const RescueAnswer&) const = default;
};

}  // namespace paceline

#pragma once

// A node's part in a rescue (model/rescue.h), as a pure machine: what its agent does about a call
// in the directory of the checkpoints.
//
//   watching ──a living call to end, no master──▶ joined ──over, or the command has died──▶ ended
//
// - A node that is connected to its master says so in its answer, and does nothing else.
// - A node that has joined refuses masters of a lower term, and stays until the call is over.
// - A node that has not joined yet also stays while the call is alive, even after it has waited
//   timers.orphan_after for a master. Otherwise the images that it has reported to the command
//   would be gone when the command wants them written.
// A call is alive if its beat goes up: the call of a killed command stays in the directory.
//
// Pure: no clock, no random numbers, no I/O.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/rescue.h"

namespace paceline::core {

struct RescueTimes {
  // Time between two looks at the directory while the agent has no master.
  Duration look_unlinked = Duration::Seconds(2);
  // The same with a master. Longer, because each look of each node is a request to an object store.
  Duration look_linked = Duration::Seconds(20);
  // The same during a rescue.
  Duration look_called = Duration::Milliseconds(300);
  // If the beat of a rescue's command does not rise for so long, the command has died.
  Duration lively = Duration::Seconds(30);
  // How long a node that has joined waits for another command, if the first one has died or failed.
  Duration patience = Duration::Seconds(600);
};

class RescueNode {
 public:
  RescueNode(std::string job_id, std::string node, RescueTimes times = {})
      : job_id_(std::move(job_id)), node_(std::move(node)), times_(times) {}

  // The agent has a master, or has lost it.
  void SetLinked(bool is_linked) { is_linked_ = is_linked; }
  // The ranks that the agent was told to end have ended.
  void NoteEnded() { has_ended_ = true; }
  void NoteShard(ShardState shard);

  struct Todo {
    bool answers = false;     // put Answer() into the directory
    bool ends_ranks = false;  // end the ranks, and refuse masters of a lower term than term()
    std::vector<RescueShard> writes;
    bool ends = false;          // the agent may end
    bool frees_memory = false;  // with `ends`: free the memory too, because the step is in storage
  };
  // Returns what to do after a read of the directory. `call` is empty if there is none.
  Todo Look(Instant now, const std::optional<RescueCall>& call);
  // The answer to the last call. `memory` has the images and the equal files of this node.
  RescueAnswer Answer(RescueAnswer memory) const;

  // How long to wait until the next look.
  Duration pause(Instant now) const;
  uint64_t term() const { return call_.term; }
  const RescueCall& call() const { return call_; }
  // The agent must stay for the call.
  bool holds(Instant now) const {
    if (is_over_) return false;
    return has_joined_ || (!is_linked_ && IsCalled(now));
  }

 private:
  void Join(Todo* todo);
  // A command asks, ends or stores now.
  bool IsCalled(Instant now) const;

  const std::string job_id_;
  const std::string node_;
  const RescueTimes times_;
  bool is_linked_ = false;
  bool has_joined_ = false;
  bool has_ended_ = false;
  bool is_over_ = false;
  bool is_living_ = false;            // the beat of call_ has gone up
  std::optional<Instant> beaten_at_;  // when the beat of any call last went up
  Instant lived_at_;
  RescueCall call_;
  std::map<uint32_t, ShardState> shards_;  // of the call, by rank
};

}  // namespace paceline::core

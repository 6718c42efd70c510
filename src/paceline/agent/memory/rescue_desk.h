#pragma once

// Carries out this node's part in a rescue: looks for a call in the directory of the checkpoints,
// answers it there, and writes shards. core/checkpoint/rescue_node.h decides.
//
// Runs on the loop's thread. The worker of claims reads and writes the files.

#include <functional>
#include <string>

#include "paceline/agent/memory/checkpoint_worker.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/core/checkpoint/rescue_node.h"

namespace paceline::agent {

class RescueDesk {
 public:
  struct Host {
    std::function<std::string()> directory;  // of the checkpoints; "": not known yet
    std::function<RescueAnswer()> memory;    // the images and equal files of this node
    std::function<void(RescueTask)> look;    // OnLooked follows
    std::function<void(const RescueShard&, const RescueCall&)> write;  // OnShard follows
    std::function<void(uint64_t term)> end_ranks;
    std::function<void(bool frees_memory)> ended;  // the agent may end
  };
  RescueDesk(Reactor& reactor, const std::string& job_id, const std::string& node, Host host)
      : reactor_(reactor), host_(std::move(host)), node_(job_id, node) {}
  ~RescueDesk();
  RescueDesk(const RescueDesk&) = delete;
  RescueDesk& operator=(const RescueDesk&) = delete;

  void SetLinked(bool is_linked);
  // All ranks have ended. True: the agent must stay for the rescue.
  bool Holds();
  void OnLooked(const RescueDone& done);
  void OnShard(const ShardDone& done);
  const RescueCall& call() const { return node_.call(); }

 private:
  void Arm();
  void Look();
  void LetGo();

  Reactor& reactor_;
  const Host host_;
  core::RescueNode node_;
  bool is_linked_ = false;
  bool answers_ = false;  // with the next look
  bool is_looking_ = false;
  bool is_holding_ = false;  // the agent would have ended
  Reactor::TimerId timer_ = 0;
};

}  // namespace paceline::agent

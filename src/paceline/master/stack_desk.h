#pragma once

// `paceline stacks`: asks the world's agents what their ranks are doing, with the same question as
// for hangs, and collects the answers. It asks one question at a time. Requests that come meanwhile
// get the same answers.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/master/executor.h"
#include "paceline/model/evidence.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

class StackDesk {
 public:
  using Reply = std::function<void(wire::JobStacks)>;

  explicit StackDesk(Outbox* outbox) : outbox_(outbox) {}

  // Replies when all `agents` (nodes by connection) have answered or gone, or after kPatience.
  // `silent` are nodes of the world without an agent.
  void Ask(Instant now, Generation generation, const std::map<ConnectionId, std::string>& agents,
           std::vector<std::string> silent, Reply reply);
  // Returns false if the evidence does not answer a question of this class.
  bool Take(ConnectionId connection, const NodeEvidence& evidence);
  void Forget(ConnectionId connection);

  Instant deadline() const { return deadline_; }  // Max: no question is open
  void PassTime(Instant now);

  // How long the master waits for the stacks of all agents. An agent with 64 ranks answers sooner.
  static constexpr Duration kPatience = Duration::Seconds(20);

 private:
  void Finish();

  Outbox* const outbox_;
  uint64_t round_ = kAskedByPerson;
  Instant deadline_ = Instant::Max();
  std::map<ConnectionId, std::string> awaited_;
  wire::JobStacks stacks_;
  std::vector<Reply> replies_;
};

}  // namespace paceline::master

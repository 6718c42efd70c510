#pragma once

// `paceline stacks`: asks the agents of the world what their ranks do, by the question that hangs
// are judged by, and gathers the answers. One question at a time: whoever asks meanwhile gets its
// answers too.

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

  // Replies when all `agents`, nodes by connection, have answered or gone, or after kPatience.
  // `silent` are nodes of the world without an agent.
  void Ask(Instant now, Generation generation, const std::map<ConnectionId, std::string>& agents,
           std::vector<std::string> silent, Reply reply);
  // False: it answers no question of this desk.
  bool Take(ConnectionId connection, const NodeEvidence& evidence);
  void Forget(ConnectionId connection);

  Instant deadline() const { return deadline_; }  // Max: nothing is asked
  void PassTime(Instant now);

  // An agent looks at 64 ranks in less.
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

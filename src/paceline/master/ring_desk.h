#pragma once

// `paceline trace`: passes questions about flight rings on to the agents, and their answers back.
// The content of an answer is not read here.

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "paceline/base/instant.h"
#include "paceline/master/executor.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

class RingDesk {
 public:
  using Reply = std::function<void(wire::RingsReply)>;

  explicit RingDesk(Outbox* outbox) : outbox_(outbox) {}

  // Replies with the agent's answer. The reply has the reason instead if the agent goes, or has not
  // answered for kPatience.
  void Ask(Instant now, ConnectionId agent, const wire::RingCursor& at, Reply reply);
  void Take(ConnectionId agent, const wire::RingPiece& piece);
  void Forget(ConnectionId agent);

  Instant deadline() const;  // Max: no question is open
  void PassTime(Instant now);

  // An agent answers within milliseconds, unless its host or the network stands still.
  static constexpr Duration kPatience = Duration::Seconds(5);
  // Open questions. Each may wait for an answer of 250 KiB.
  static constexpr size_t kOpenMax = 256;

 private:
  struct Open {
    ConnectionId agent;
    Instant deadline;
    Reply reply;
  };

  Outbox* const outbox_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Open> open_;  // by id; deadlines are in the same order
};

}  // namespace paceline::master

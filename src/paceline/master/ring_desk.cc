#include "paceline/master/ring_desk.h"

#include <utility>

#include "paceline/base/text.h"

namespace paceline::master {

void RingDesk::Ask(Instant now, ConnectionId agent, const wire::RingCursor& at, Reply reply) {
  if (open_.size() >= kOpenMax) {
    return reply({.silence = "the master passes on too many such questions at present"});
  }
  const uint64_t id = ++last_id_;
  open_[id] = {agent, now + kPatience, std::move(reply)};
  outbox_->Send(agent, wire::RingsWanted{id, at});
}

void RingDesk::Take(ConnectionId agent, const wire::RingPiece& piece) {
  const auto found = open_.find(piece.id);
  if (found == open_.end() || found->second.agent != agent) return;  // too late, or not asked
  const Reply reply = std::move(found->second.reply);
  open_.erase(found);
  reply({.content = piece.content});
}

void RingDesk::Forget(ConnectionId agent) {
  for (auto it = open_.begin(); it != open_.end();) {
    if (it->second.agent != agent) {
      ++it;
      continue;
    }
    const Reply reply = std::move(it->second.reply);
    it = open_.erase(it);
    reply({.silence = "its agent has lost its connection to the master"});
  }
}

Instant RingDesk::deadline() const {
  return open_.empty() ? Instant::Max() : open_.begin()->second.deadline;
}

void RingDesk::PassTime(Instant now) {
  while (!open_.empty() && now >= open_.begin()->second.deadline) {
    const Reply reply = std::move(open_.begin()->second.reply);
    open_.erase(open_.begin());
    reply({.silence = Concat("its agent has not answered for ", ToString(kPatience))});
  }
}

}  // namespace paceline::master

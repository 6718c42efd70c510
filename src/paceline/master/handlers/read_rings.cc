// Control.ReadRings: a part of a node's flight rings, which its agent reads.

#include <chrono>

#include "paceline/base/text.h"
#include "paceline/master/handlers.h"

namespace paceline::master {
namespace {

// The clocks of this host, by which the events of the job have their times.
HostNow NowOf(const Clock& clock) {
  const std::chrono::nanoseconds since = std::chrono::steady_clock::now().time_since_epoch();
  return {clock.Now(), since.count()};
}

}  // namespace

void Handlers::operator()(const wire::RingsAsked& asked) const {
  wire::RingsReply reply{.boot_id = loop.term_.own_host, .now = NowOf(loop.clock_)};
  const core::JobState& state = loop.job_.state();
  const core::NodeState* node = state.Find(asked.request.node);
  if (node == nullptr) {
    reply.silence = Concat("the job has no node ", asked.request.node);
    return asked.reply(reply);
  }
  const std::optional<ConnectionId> agent = loop.executor_.ConnectionOf(node->id);
  if (!agent.has_value()) {
    reply.silence = "its agent has no connection to the master";
    return asked.reply(reply);
  }
  const auto pass_on = [reply, answer = asked.reply](const wire::RingsReply& of_agent) mutable {
    reply.silence = of_agent.silence;
    reply.content = of_agent.content;
    answer(std::move(reply));
  };
  loop.ring_desk_.Ask(loop.clock_.Now(), *agent, asked.request.at, pass_on);
}

}  // namespace paceline::master

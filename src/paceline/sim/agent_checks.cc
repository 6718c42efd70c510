// The checks of the user on a simulated host: they take a while, and end as the host is.

#include "paceline/sim/agent_host.h"
#include "paceline/sim/node.h"
#include "paceline/sim/world.h"

namespace paceline::sim {

void AgentHost::RunChecks() {
  node_.BeginChecks();
  if (!node_.check().is_over()) EndChecksLater();
}

void AgentHost::Do(const core::RunChecks& action) {
  if (action.round <= node_.check().round) return;
  node_.BeginChecksAgain(action.round);
  EndChecksLater();
}

void AgentHost::EndChecksLater() {
  const Duration most = world_.options().checks.take_max;
  const Duration time = Duration::Nanoseconds(world_.prng().Between(0, most.nanoseconds()));
  Later(time, [round = node_.check().round](AgentHost& agent) {
    if (agent.node_.check().round != round) return;
    agent.node_.EndChecks();
    agent.TellCheck();
  });
}

// Told again to each master, because the registration may be older.
void AgentHost::TellCheck() {
  if (!is_linked_ || !node_.check().is_over()) return;
  world_.Tell(connection_, core::NodeCheckEnded{node_id_, connection_, ToldCheck()});
}

NodeCheck AgentHost::ToldCheck() const {
  NodeCheck said = node_.check();
  const bool is_canary = world_.options().canary == Canary::kSkipChecks;
  if (is_canary && said.is_over()) said.state = NodeCheck::State::kPassed;
  return said;
}

}  // namespace paceline::sim

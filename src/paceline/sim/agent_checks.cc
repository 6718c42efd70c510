// The checks of the user on a simulated host: they take a while, and end as the host is. So do the
// tests of links to other hosts.

#include "paceline/base/text.h"
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

std::string AgentHost::Bulk() const {
  if (!world_.options().checks.has_links) return "";
  return Concat("10.0.0.", node_.index(), ":", pid_);
}

// "": the host answers.
std::string AgentHost::WhyNoLink(const std::string& address) {
  for (uint32_t i = 0; i < world_.node_count(); ++i) {
    const Node& peer = world_.node(i);
    const AgentHost* agent = peer.agent();
    const bool is_it =
        peer.is_on() && agent != nullptr && !agent->has_ended() && agent->Bulk() == address;
    if (!is_it) continue;
    const Network& network = world_.network();
    const bool is_cut = network.IsCut(node_.host(), peer.host()) ||
                        network.IsCut(peer.host(), node_.host()) || peer.is_frozen() ||
                        agent->is_frozen();
    if (is_cut) return "no answer";
    return peer.has_dead_port() ? "connection refused" : "";
  }
  return "connection refused";
}

void AgentHost::OnLinkTry(ConnectionId connection, const LinkTry& order) {
  WhenAwake([this, connection, order] {
    if (connection != connection_) return;
    LinkTested tested{.round = order.round, .peer = order.peer, .gb_s = 0, .problem = ""};
    tested.problem = WhyNoLink(order.address);
    if (world_.options().canary == Canary::kPraiseLinks) tested.problem.clear();
    Prng& prng = world_.prng();
    if (tested.problem.empty()) tested.gb_s = static_cast<double>(prng.Between(80, 120)) / 100;
    const bool is_silent = tested.problem == "no answer";
    const Duration time =
        is_silent ? Duration::Seconds(3) : Duration::Milliseconds(prng.Between(5, 300));
    Later(time, [connection, tested](AgentHost& agent) {
      if (connection != agent.connection_) return;
      agent.world_.Tell(connection, core::LinkTestEnded{agent.node_id_, connection, tested});
    });
  });
}

}  // namespace paceline::sim

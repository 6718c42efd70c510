#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {
namespace {

void SignalRanks(Node& node) {
  const std::map<int32_t, RankProcess> processes = node.processes();
  for (const auto& [pid, process] : processes) node.Signal(process.local_rank, pid, SIGTERM);
}

}  // namespace

// `timeout`, a scheduler or a terminal sends its signal to every process of a host, and soon again.
// That is one request. Only a second Ctrl-C by a person asks for force.
void SignalsTwice(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.agent() != nullptr; });
  if (node == nullptr || !IsRunning(*node)) return;
  const bool takes_agent = !world.options().local_platform && prng.Chance(1, 2);
  const bool stops_job = prng.Chance(1, 8);
  core::LeaveAsked asked{.why = "SIGTERM on its host",
                         .grace = Draw(prng, Duration(), Duration::Seconds(5)),
                         .exit_code = 143,
                         .force = false};
  core::StopRequested stop{.why = "SIGTERM", .grace = asked.grace, .exit_code = 143};
  SignalRanks(*node);
  if (takes_agent) node->agent()->AskToLeave(asked);
  if (stops_job) world.RequestStop(stop);
  const Duration again = prng.Chance(1, 2)
                             ? Draw(prng, Duration::Microseconds(10), Duration::Milliseconds(20))
                             : Draw(prng, Duration::Milliseconds(20), Duration::Seconds(3));
  asked.force = stop.force = prng.Chance(1, 3);
  world.queue().After(again, [&world, node, takes_agent, stops_job, asked, stop] {
    SignalRanks(*node);
    if (takes_agent && node->agent() != nullptr) node->agent()->AskToLeave(asked);
    if (stops_job) world.RequestStop(stop);
  });
  if (!takes_agent) return;
  world.queue().After(Draw(prng, Duration::Seconds(1), Duration::Seconds(20)),
                      [node] { node->Restart(); });
}

}  // namespace paceline::sim

// Control.GetStacks: what the current world's ranks are doing, as reported by their agents.

#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const wire::StacksAsked& asked) const {
  const core::JobState& state = loop.job_.state();
  std::map<ConnectionId, std::string> agents;
  std::vector<std::string> silent;
  Generation generation;
  if (state.world.has_value()) {
    generation = state.world->generation;
    for (const Seat& seat : state.world->seats) {
      const std::optional<ConnectionId> connection = loop.executor_.ConnectionOf(seat.node);
      if (connection.has_value()) {
        agents[*connection] = state.NameOf(seat.node);
      } else {
        silent.push_back(state.NameOf(seat.node));
      }
    }
  }
  loop.stack_desk_.Ask(loop.clock_.Now(), generation, agents, std::move(silent), asked.reply);
}

}  // namespace paceline::master

// Control.Stop: answered when the decision is durable, so that the caller may exit.

#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const wire::StopAsked& asked) const {
  loop.Step(core::StopRequested{.why = asked.request.why,
                                .grace = asked.request.grace,
                                .exit_code = asked.request.exit_code,
                                .force = asked.request.force,
                                .signal = asked.request.signal});
  loop.executor_.AddReply(loop.job_.state().last_seq,
                          [reply = asked.reply] { reply(absl::OkStatus()); });
}

}  // namespace paceline::master

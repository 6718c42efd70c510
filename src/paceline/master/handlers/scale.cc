// Control.Scale: answered when the choice is durable, or at once if it is refused.

#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const wire::ScaleAsked& asked) const {
  wire::ScaleReply answer{.refusal = loop.job_.WhyNotSize(asked.request.nodes)};
  if (!answer.refusal.empty() || asked.request.dry_run) {
    asked.reply(answer);
    return;
  }
  loop.Step(core::SizeRequested{
      .nodes = asked.request.nodes, .at_once = asked.request.at_once, .why = asked.request.why});
  loop.executor_.AddReply(loop.job_.state().last_seq,
                          [reply = asked.reply, answer] { reply(answer); });
}

}  // namespace paceline::master

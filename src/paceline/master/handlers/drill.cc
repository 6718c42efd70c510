// Control.Drill: answered when the drill is durable, or at once if it is refused or only asked for.

#include "paceline/core/world/drill.h"

#include <utility>

#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const wire::DrillAsked& asked) const {
  core::DrillRequested drill{.kind = asked.request.kind,
                             .loss = asked.request.loss,
                             .node = asked.request.node,
                             .why = asked.request.why};
  if (asked.request.rank.has_value()) drill.rank = Rank(*asked.request.rank);
  core::DrillOutlook outlook = loop.job_.OutlookOf(drill);
  wire::DrillReply answer{.refusal = std::move(outlook.refusal),
                          .fix = std::move(outlook.fix),
                          .cost = std::move(outlook.cost)};
  if (!answer.refusal.empty() || asked.request.dry_run) {
    asked.reply(answer);
    return;
  }
  loop.Step(drill);
  loop.executor_.AddReply(loop.job_.state().last_seq,
                          [reply = asked.reply, answer] { reply(answer); });
}

}  // namespace paceline::master

// Control.GetStatus, GET /metrics and GET /healthz: the three ways to read the master's state.

#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const wire::StatusAsked& asked) const { asked.reply(loop.Status()); }

void Handlers::operator()(const MetricsAsked& asked) const {
  asked.reply(MetricsText(loop.Metrics()));
}

void Handlers::operator()(const HealthAsked& asked) const {
  asked.reply(loop.journal_state_ == "ok" ? "ok\n" : "journal: " + loop.journal_state_ + "\n");
}

}  // namespace paceline::master

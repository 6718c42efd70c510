// Control.GetStatus, GET /metrics and GET /healthz: the three ways to read the master's state.

#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const wire::StatusAsked& asked) const { asked.reply(loop.Status()); }

void Handlers::operator()(const MetricsAsked& asked) const {
  Counters counters = loop.counters_;
  counters.agents_connected = loop.executor_.connections();
  counters.effects_waiting = loop.executor_.waiting();
  asked.reply(MetricsText(loop.Status(), counters));
}

void Handlers::operator()(const HealthAsked& asked) const {
  asked.reply(loop.journal_state_ == "ok" ? "ok\n" : "journal: " + loop.journal_state_ + "\n");
}

}  // namespace paceline::master

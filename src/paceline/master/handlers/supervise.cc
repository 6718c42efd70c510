// Control.Supervise: the launchers, which see dead processes at once and can start new nodes.

#include "paceline/base/log.h"
#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const wire::SupervisorAttached& attached) const {
  loop.executor_.Attach(attached.supervisor);
}

void Handlers::operator()(const wire::SupervisorSaid& said) const {
  LogInfo("node_gone", {{"node", said.report.name},
                        {"evidence", said.report.evidence},
                        {"agent_pid", said.report.agent_pid}});
  loop.Step(core::NodeGone{.name = said.report.name,
                           .evidence = said.report.evidence,
                           .agent_pid = said.report.agent_pid});
}

void Handlers::operator()(const wire::SupervisorDetached& detached) const {
  loop.executor_.Detach(detached.supervisor);
}

}  // namespace paceline::master

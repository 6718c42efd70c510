// Control.Supervise: processes that start nodes and notice their deaths at once.

#include <algorithm>
#include "paceline/base/log.h"

#include "paceline/core/finish.h"
#include "paceline/master/handlers.h"

namespace paceline::master {
namespace {

// Half of the time is for ranks that save when they get SIGTERM, the other half for storage.
Duration GraceOf(Duration left) { return std::max(Duration(), left / 2 - Duration::Seconds(1)); }

}  // namespace

void Handlers::operator()(const wire::SupervisorAttached& attached) const {
  loop.executor_.Attach(attached.supervisor, loop.clock_.Now(), attached.is_operator);
  loop.summary_.TellAnew();
}

void Handlers::operator()(const wire::SupervisorSaid& said) const {
  if (std::holds_alternative<wire::EndKept>(said.message)) {
    loop.executor_.KeptEnd(said.supervisor);
  }
  std::visit([this](const auto& message) { Said(message); }, said.message);
}

void Handlers::Said(const wire::NodeGoneReport& report) const {
  LogInfo("node_gone",
          {{"node", report.name}, {"evidence", report.evidence}, {"agent_pid", report.agent_pid}});
  loop.pending_nodes_.erase(report.name);
  loop.Step(core::NodeGone{.name = report.name,
                           .evidence = report.evidence,
                           .agent_pid = report.agent_pid,
                           .incarnation = report.incarnation});
}

// `paceline status` shows this text while the job waits for nodes. It does not affect decisions.
void Handlers::Said(const wire::NodePending& pending) const {
  constexpr size_t kPendingMax = 256;
  if (pending.reason.empty()) {
    loop.pending_nodes_.erase(pending.name);
  } else if (loop.pending_nodes_.contains(pending.name) ||
             loop.pending_nodes_.size() < kPendingMax) {
    loop.pending_nodes_[pending.name] = pending.reason;
  }
}

void Handlers::Said(const wire::Notice& notice) const {
  LogInfo("notice", {{"node", notice.name}, {"left", ToString(notice.left)}, {"why", notice.why}});
  if (notice.name.empty()) {
    loop.Step(core::StopRequested{
        .why = notice.why, .grace = GraceOf(notice.left), .exit_code = core::kExitStoppedSaved});
  } else {
    loop.Step(core::NoticeCame{.name = notice.name,
                               .incarnation = notice.incarnation,
                               .left = notice.left,
                               .why = notice.why});
  }
}

void Handlers::Said(const wire::SizeWanted& wanted) const {
  const core::ChosenSize& size = loop.job_.state().size;
  const bool is_chosen = size.nodes == wanted.nodes && !size.is_measured;
  const std::string refusal = is_chosen ? "" : loop.job_.WhyNotSize(wanted.nodes);
  LogInfo("size_wanted", {{"nodes", wanted.nodes}, {"why", wanted.why}, {"refusal", refusal}});
  loop.summary_.NoteWanted(wanted.nodes, refusal);
  if (is_chosen || !refusal.empty()) return;
  loop.Step(core::SizeRequested{.nodes = wanted.nodes, .why = wanted.why});
}

void Handlers::operator()(const wire::SupervisorDetached& detached) const {
  loop.executor_.Detach(detached.supervisor, loop.clock_.Now());
}

}  // namespace paceline::master

// Master.Attach: messages of agents. A connection belongs to a node only after its admission. Its
// earlier messages are dropped, and so are those after another connection took over.

#include <variant>

#include "paceline/base/log.h"
#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const wire::AgentSaid& said) const {
  std::visit([&](const auto& message) { Said(said.connection, message); }, said.message);
}

void Handlers::operator()(const wire::AgentDisconnected& gone) const {
  const auto it = loop.registered_.find(gone.connection);
  if (it == loop.registered_.end()) return;
  LogInfo("agent_disconnected",
          {{"node", it->second}, {"connection", gone.connection}, {"why", gone.why}});
  loop.registered_.erase(it);
  loop.stack_desk_.Forget(gone.connection);
  loop.ring_desk_.Forget(gone.connection);
  const std::optional<NodeId> node = loop.executor_.NodeOf(gone.connection);
  loop.executor_.Forget(gone.connection);
  loop.copies_.Forget(gone.connection);
  if (node.has_value()) loop.Step(core::NodeDisconnected{*node, gone.connection});
}

void Handlers::Said(ConnectionId connection, const wire::Register& message) const {
  loop.registered_[connection] = message.report.name;
  LogInfo("agent_registered", {{"node", message.report.name},
                               {"connection", connection},
                               {"pid", message.report.agent_pid}});
  loop.Step(core::NodeRegistered{connection, message.report});
}

void Handlers::Said(ConnectionId connection, const wire::Heartbeat& message) const {
  ++loop.counters_.heartbeats;
  const std::optional<NodeId> node = loop.executor_.NodeOf(connection);
  if (!node.has_value()) return;
  TakeTimes(*node, message.times);  // before the news that may begin another stretch
  loop.Step(core::NodeReported{.node = *node,
                               .connection = connection,
                               .generation = message.generation,
                               .store_port = message.store_port,
                               .loop_delay = message.loop_delay,
                               .ranks = message.ranks,
                               .awaits_starter = message.awaits_starter});
  if (message.memory.has_value()) TakeMemory(*node, *message.memory);
  if (message.samples.empty()) return;
  loop.heat_.Take(loop.clock_.Now(), loop.job_.state(), *node, message.samples);
  const auto judged = loop.pace_desk_.Take(loop.job_.state(), *node, message.samples);
  if (judged.has_value()) loop.Step(*judged);
  const Instant now = loop.clock_.Now();
  if (loop.scale_desk_.Take(now, loop.job_.state(), message.samples)) loop.NoteSizes(now);
}

void Handlers::TakeMemory(NodeId node, const NodeMemory& memory) const {
  const core::MemoryDesk::Facts facts{.now = loop.clock_.Now(),
                                      .outlook = [this] { return loop.Outlook(); }};
  const auto foreseen = loop.memory_desk_.Take(loop.job_.state(), facts, node, memory);
  if (foreseen.has_value()) loop.Step(*foreseen);
}

void Handlers::TakeTimes(NodeId node, const std::vector<RankTimes>& times) const {
  const auto told = loop.time_desk_.Take(loop.clock_.Now(), loop.job_.state(), node, times);
  if (told.has_value()) loop.Step(*told);
}

void Handlers::Said(ConnectionId connection, const wire::RankEnd& message) const {
  const std::optional<NodeId> node = loop.executor_.NodeOf(connection);
  if (!node.has_value()) return;
  if (message.times.has_value()) TakeTimes(*node, {*message.times});
  loop.Step(core::RankExited{*node, connection, message.rank});
}

void Handlers::Said(ConnectionId connection, const wire::Leaving& message) const {
  const std::optional<NodeId> node = loop.executor_.NodeOf(connection);
  if (node.has_value()) loop.Step(core::NodeLeaving{*node, connection, message.why});
}

void Handlers::Said(ConnectionId connection, const PlanNote& message) const {
  const std::optional<NodeId> node = loop.executor_.NodeOf(connection);
  if (node.has_value()) loop.Step(core::PlanReported{*node, connection, message});
}

void Handlers::Said(ConnectionId connection, const NodeCheck& message) const {
  const std::optional<NodeId> node = loop.executor_.NodeOf(connection);
  if (node.has_value()) loop.Step(core::NodeCheckEnded{*node, connection, message});
}

void Handlers::Said(ConnectionId connection, const LinkTested& message) const {
  const std::optional<NodeId> node = loop.executor_.NodeOf(connection);
  if (node.has_value()) loop.Step(core::LinkTestEnded{*node, connection, message});
}

void Handlers::Said(ConnectionId connection, const wire::JournalHeld& message) const {
  loop.copies_.Held(connection, message.taken);
}

void Handlers::Said(ConnectionId connection, const NodeEvidence& message) const {
  if (loop.stack_desk_.Take(connection, message)) return;
  const std::optional<NodeId> node = loop.executor_.NodeOf(connection);
  if (node.has_value()) loop.Step(core::EvidenceCollected{*node, connection, message});
}

void Handlers::Said(ConnectionId connection, const wire::RingPiece& message) const {
  loop.ring_desk_.Take(connection, message);
}

void Handlers::Said(ConnectionId connection, const CheckpointReport& message) const {
  const std::optional<NodeId> node = loop.executor_.NodeOf(connection);
  if (node.has_value()) loop.Step(core::CheckpointReported{*node, connection, message});
}

}  // namespace paceline::master

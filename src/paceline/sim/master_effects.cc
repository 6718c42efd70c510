// What the simulated master does with the decisions of the job.

#include <utility>
#include <variant>

#include "paceline/sim/master.h"
#include "paceline/sim/world.h"

namespace paceline::sim {

void Master::Run(const Batch& batch) {
  for (const core::Effect& effect : batch.effects) {
    if (is_on_) Run(effect, batch.decided);
  }
}

void Master::Run(const core::Effect& effect, RecordSeq decided) {
  if (!is_former_) world_.Ran(effect, decided);
  std::visit([this](const auto& one) { Do(one); }, effect);
}

void Master::CloseConnection(ConnectionId connection) {
  world_.network().Close(connection, End::kMaster);
}

void Master::Do(const core::AdmitNode& effect) {
  ConnectionId& current = connection_of_[effect.node];
  if (current != ConnectionId() && current != effect.connection) CloseConnection(current);
  current = effect.connection;
  world_.SendToAgent(effect.connection,
                     [node = effect.node, term = term_](AgentHost& agent, ConnectionId id) {
                       agent.OnAdmitted(id, node, term);
                     });
  const auto link = job_->links().find(effect.node);
  copies_.Came(effect.node, job_->state().NameOf(effect.node), link->second.boot_id);
  SendCopies();
}

void Master::Do(const core::RefuseNode& effect) {
  world_.trace().Add(world_.queue().now(), "master", "refuse", effect.connection.value(),
                     effect.what);
  world_.SendToAgent(effect.connection, [retry = effect.retry](AgentHost& agent, ConnectionId id) {
    agent.OnRefused(id, retry);
  });
  CloseConnection(effect.connection);
}

void Master::Do(const core::AssignNode& effect) {
  const auto it = connection_of_.find(effect.node);
  if (it == connection_of_.end()) return;
  world_.trace().Add(world_.queue().now(), "master", "assign", effect.node.value(),
                     world_.trace().is_full() ? Describe(effect.assignment) : std::string());
  world_.SendToAgent(it->second, [assignment = effect.assignment, term = term_](AgentHost& agent,
                                                                                ConnectionId id) {
    agent.OnAssignment(id, assignment, term);
  });
}

void Master::Do(const core::OrderCheckpoint& effect) {
  const auto it = connection_of_.find(effect.node);
  if (it == connection_of_.end()) return;
  world_.SendToAgent(it->second, [order = effect.order](AgentHost& agent, ConnectionId id) {
    agent.OnOrder(id, order);
  });
}

void Master::Do(const core::CollectEvidence& effect) {
  const auto it = connection_of_.find(effect.node);
  if (it == connection_of_.end()) return;
  world_.SendToAgent(it->second, [effect](AgentHost& agent, ConnectionId id) {
    agent.OnEvidenceOrder(id, effect.generation, effect.round);
  });
}

void Master::Do(const core::TestLink& effect) {
  const auto it = connection_of_.find(effect.node);
  if (it == connection_of_.end()) return;
  world_.SendToAgent(it->second, [order = effect.order](AgentHost& agent, ConnectionId id) {
    agent.OnLinkTry(id, order);
  });
}

void Master::Do(const core::TellWish& effect) {
  if (!is_former_) world_.Obey(effect.wish);
}

void Master::Do(const core::FinishJob& effect) {
  if (has_finished_) return;
  has_finished_ = true;
  exit_code_ = effect.exit_code;
  const bool is_lie = world_.options().canary == Canary::kCallItDone;
  if (is_lie && exit_code_ == core::kExitNotStored) exit_code_ = 0;
  world_.trace().Add(world_.queue().now(), "master", "finish",
                     static_cast<uint64_t>(effect.exit_code), effect.reason);
  // The master answers late agents for a while; then its connections close.
  world_.queue().After(world_.options().spec.timers.finish_linger, [this] {
    is_on_ = false;
    if (is_former_) return world_.network().CloseAll(incarnation_);
    world_.MasterDied(incarnation_);
  });
}

}  // namespace paceline::sim

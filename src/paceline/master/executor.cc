#include "paceline/master/executor.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace paceline::master {
namespace {

// A launcher tries its relays in turn, then the master, with pauses of at most a second.
constexpr Duration kComesBackWithin = Duration::Seconds(5);
constexpr Duration kRepeatPause = Duration::Seconds(1);

}  // namespace

void Executor::SetWelcome(const JobSpec& spec, Duration heartbeat_interval) {
  welcome_.spec = spec;
  welcome_.heartbeat_interval = heartbeat_interval;
}

void Executor::Add(RecordSeq after, core::Effect effect) {
  // Noted at the decision, because events of the connection may come before the effect.
  if (const auto* admit = std::get_if<core::AdmitNode>(&effect)) {
    node_of_[admit->connection] = admit->node;
  }
  waiting_.push_back({after, std::move(effect)});
  RunReady();
}

void Executor::AddReply(RecordSeq after, std::function<void()> reply) {
  waiting_.push_back({after, std::move(reply)});
  RunReady();
}

void Executor::SetDurable(RecordSeq last) {
  durable_ = std::max(durable_, last);
  RunReady();
}

void Executor::RunReady() {
  while (!waiting_.empty() && waiting_.front().after <= durable_) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    if (const auto* effect = std::get_if<core::Effect>(&next.work)) {
      std::visit([this](const auto& body) { Run(body); }, *effect);
    } else {
      std::get<std::function<void()>>(next.work)();
    }
  }
}

std::optional<NodeId> Executor::NodeOf(ConnectionId connection) const {
  const auto it = node_of_.find(connection);
  if (it == node_of_.end()) return std::nullopt;
  return it->second;
}

std::optional<ConnectionId> Executor::ConnectionOf(NodeId node) const {
  const auto it = connection_of_.find(node);
  if (it == connection_of_.end()) return std::nullopt;
  return it->second;
}

void Executor::Forget(ConnectionId connection) {
  const auto it = node_of_.find(connection);
  if (it == node_of_.end()) return;
  const auto current = connection_of_.find(it->second);
  if (current != connection_of_.end() && current->second == connection) {
    connection_of_.erase(current);
  }
  node_of_.erase(it);
}

void Executor::Attach(wire::SupervisorId supervisor, Instant now, bool is_operator) {
  supervisors_.insert(supervisor);
  if (is_operator) operators_.insert(supervisor);
  if (wish_.has_value()) outbox_->Order(supervisor, *wish_);
  if (ended_.has_value()) TellEnd(supervisor);
  if (is_operator) repeated_at_ = now;
  if (broken_ > 0) --broken_;
}

bool Executor::MissesEnd(wire::SupervisorId supervisor) const {
  return ended_.has_value() && operators_.contains(supervisor) &&
         !have_kept_end_.contains(supervisor);
}

void Executor::KeptEnd(wire::SupervisorId supervisor) { have_kept_end_.insert(supervisor); }

bool Executor::IsEndMissed() const {
  return std::any_of(operators_.begin(), operators_.end(),
                     [this](wire::SupervisorId id) { return MissesEnd(id); });
}

void Executor::RepeatEnd(Instant now) {
  if (!IsEndMissed()) return;
  const bool is_first = !std::exchange(is_repeating_, true);
  if (is_first) repeated_at_ = now;  // they were told a moment ago
  if (now < NextRepeat()) return;
  repeated_at_ = now;
  for (const wire::SupervisorId supervisor : operators_) {
    if (MissesEnd(supervisor)) TellEnd(supervisor);
  }
}

Instant Executor::NextRepeat() const {
  return IsEndMissed() ? repeated_at_ + kRepeatPause : Instant::Max();
}

void Executor::Detach(wire::SupervisorId supervisor, Instant now) {
  const bool misses_end = MissesEnd(supervisor);
  supervisors_.erase(supervisor);
  operators_.erase(supervisor);
  if (ended_.has_value() && !misses_end) return;
  ++broken_;
  broken_at_ = now;
}

Instant Executor::may_come_back_until() const {
  return broken_ > 0 ? broken_at_ + kComesBackWithin : Instant();
}

void Executor::Tell(const wire::Summary& summary) const {
  for (const wire::SupervisorId supervisor : operators_) outbox_->Order(supervisor, summary);
}

void Executor::TellEnd(wire::SupervisorId supervisor) {
  wire::JobEnded end = *ended_;
  if (operators_.contains(supervisor)) {
    if (!kept_history_.has_value()) kept_history_ = history_();
    end.history = *kept_history_;
  }
  outbox_->Order(supervisor, std::move(end));
  has_told_end_ = true;
}

void Executor::Run(const core::AdmitNode& admit) {
  if (!node_of_.contains(admit.connection)) return;  // the connection was closed meanwhile
  ConnectionId& current = connection_of_[admit.node];
  if (current != ConnectionId() && current != admit.connection) {
    node_of_.erase(current);
    outbox_->Close(current, "this node has a newer connection");
  }
  current = admit.connection;
  wire::Welcome welcome = welcome_;
  welcome.node = admit.node;
  outbox_->Send(admit.connection, std::move(welcome));
  on_admitted_(admit.node, admit.connection);
}

void Executor::Run(const core::RefuseNode& refuse) {
  node_of_.erase(refuse.connection);
  outbox_->Send(refuse.connection, wire::Refusal{.code = refuse.code,
                                                 .what = refuse.what,
                                                 .why = refuse.why,
                                                 .fix = refuse.fix,
                                                 .retry = refuse.retry});
}

void Executor::Run(const core::AssignNode& assign) {
  const auto it = connection_of_.find(assign.node);
  if (it != connection_of_.end()) outbox_->Send(it->second, assign.assignment);
}

void Executor::Run(const core::OrderCheckpoint& order) {
  const auto it = connection_of_.find(order.node);
  if (it != connection_of_.end()) outbox_->Send(it->second, order.order);
}

void Executor::Run(const core::CollectEvidence& collect) {
  const auto it = connection_of_.find(collect.node);
  if (it == connection_of_.end()) return;
  outbox_->Send(it->second, wire::EvidenceOrder{collect.generation, collect.round});
}

void Executor::Run(const core::TestLink& test) {
  const auto it = connection_of_.find(test.node);
  if (it != connection_of_.end()) outbox_->Send(it->second, test.order);
}

void Executor::Run(const core::TellWish& told) {
  wish_ = told.wish;
  for (const wire::SupervisorId supervisor : supervisors_) outbox_->Order(supervisor, *wish_);
}

void Executor::Run(const core::FinishJob& finish) {
  ended_ = wire::JobEnded{finish.exit_code, finish.reason};
  for (const wire::SupervisorId supervisor : supervisors_) TellEnd(supervisor);
}

}  // namespace paceline::master

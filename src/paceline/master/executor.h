#pragma once

// Runs effects in order, each after the records of its step and all earlier steps are durable.
// Knows which connection belongs to which node; decides nothing.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "paceline/core/action.h"
#include "paceline/model/ids.h"
#include "paceline/wire/server/master_server.h"

namespace paceline::master {

// The parts of wire::MasterServer that effects need. Tests use a list instead.
class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual void Send(ConnectionId connection, wire::MasterMessage message) = 0;
  virtual void Close(ConnectionId connection, std::string why) = 0;
  virtual void Order(wire::SupervisorId supervisor, wire::SupervisorOrder order) = 0;
};

class Executor {
 public:
  explicit Executor(Outbox* outbox) : outbox_(outbox) {}

  // Called before the first operator is told of the job's end. Returns what operators keep of it.
  void OnEnded(std::function<std::string()> history) { history_ = std::move(history); }

  // Called when a connection is admitted for a node.
  void OnAdmitted(std::function<void(NodeId, ConnectionId)> told) {
    on_admitted_ = std::move(told);
  }

  // The content of the Welcome message to a new member.
  void SetWelcome(const JobSpec& spec, Duration heartbeat_interval);
  void SetLeasePort(uint32_t port) { welcome_.lease_port = port; }
  void SetMaster(uint64_t term, uint64_t incarnation) {
    welcome_.term = term;
    welcome_.incarnation = incarnation;
  }

  // Adds an effect, or a reply that promises durability, of a step whose last record is `after`.
  void Add(RecordSeq after, core::Effect effect);
  void AddReply(RecordSeq after, std::function<void()> reply);

  // Runs the effects that waited for records up to `last`.
  void SetDurable(RecordSeq last);
  RecordSeq durable() const { return durable_; }
  size_t waiting() const { return waiting_.size(); }

  // The node of a connection, from the decision to admit it; nullopt: none, or no longer.
  std::optional<NodeId> NodeOf(ConnectionId connection) const;
  // The connection of a node; nullopt: none.
  std::optional<ConnectionId> ConnectionOf(NodeId node) const;
  void Forget(ConnectionId connection);
  size_t connections() const { return node_of_.size(); }

  void Attach(wire::SupervisorId supervisor, Instant now, bool is_operator = false);
  void Detach(wire::SupervisorId supervisor, Instant now);
  // The operator has stored the job's end.
  void KeptEnd(wire::SupervisorId supervisor);
  // Tells the end again to each operator that has not stored it.
  void RepeatEnd(Instant now);
  Instant NextRepeat() const;  // max: there is none
  bool IsEndMissed() const;    // by an operator that is connected
  bool HasOperator() const { return !operators_.empty(); }
  void Tell(const wire::Summary& summary) const;  // to operators
  size_t supervisors() const { return supervisors_.size(); }

  // Set by FinishJob.
  const std::optional<wire::JobEnded>& ended() const { return ended_; }
  // True if a launcher was told of the end. One that is still connecting could not learn it
  // otherwise.
  bool has_told_end() const { return has_told_end_; }
  // Until then a launcher may come whose stream broke shortly before the end. It connects again
  // within a second or two, by another route if its relay has gone. In the past: none is missed.
  Instant may_come_back_until() const;

 private:
  struct Waiting {
    RecordSeq after;
    std::variant<core::Effect, std::function<void()>> work;
  };
  void RunReady();
  void TellEnd(wire::SupervisorId supervisor);
  bool MissesEnd(wire::SupervisorId supervisor) const;
  void Run(const core::AdmitNode& admit);
  void Run(const core::RefuseNode& refuse);
  void Run(const core::AssignNode& assign);
  void Run(const core::OrderCheckpoint& order);
  void Run(const core::CollectEvidence& collect);
  void Run(const core::TestLink& test);
  void Run(const core::TellWish& told);
  void Run(const core::FinishJob& finish);

  Outbox* const outbox_;
  std::function<void(NodeId, ConnectionId)> on_admitted_ = [](NodeId, ConnectionId) {};
  wire::Welcome welcome_;
  RecordSeq durable_;
  std::deque<Waiting> waiting_;
  std::map<ConnectionId, NodeId> node_of_;
  std::map<NodeId, ConnectionId> connection_of_;
  std::set<wire::SupervisorId> supervisors_;
  std::set<wire::SupervisorId> operators_;  // a few of the supervisors
  std::optional<Wish> wish_;
  std::optional<wire::JobEnded> ended_;
  std::function<std::string()> history_ = [] { return std::string(); };
  std::optional<std::string> kept_history_;     // of ended_, for operators
  std::set<wire::SupervisorId> have_kept_end_;  // of the operators
  Instant repeated_at_;                         // when operators were told of the end last
  bool is_repeating_ = false;
  bool has_told_end_ = false;
  uint32_t broken_ = 0;  // streams of launchers that broke before the end, less those opened since
  Instant broken_at_;    // the last of them
};

}  // namespace paceline::master

#pragma once

// One handler for each kind of event: translates it for the core, or answers from the loop's state.
// The bodies are in handlers/: one file for each RPC, and journal.cc for the journal's events.

#include "paceline/master/event_loop.h"

namespace paceline::master {

struct Handlers {
  EventLoop& loop;

  void operator()(const wire::AgentSaid& said) const;
  void operator()(const wire::AgentDisconnected& gone) const;
  void operator()(const wire::StatusAsked& asked) const;
  void operator()(const MetricsAsked& asked) const;
  void operator()(const HealthAsked& asked) const;
  void operator()(const PulseAsked& asked) const;
  void operator()(const BriefAsked& asked) const;
  void operator()(const HeatAsked& asked) const;
  void operator()(const wire::PageAsked& asked) const;
  void operator()(const wire::StacksAsked& asked) const;
  void operator()(const wire::RingsAsked& asked) const;
  void operator()(const wire::StopAsked& asked) const;
  void operator()(const wire::ScaleAsked& asked) const;
  void operator()(const wire::DrillAsked& asked) const;
  void operator()(const wire::EventsWanted& wanted) const;
  void operator()(const wire::WatchEnded& ended) const;
  void operator()(const RecordsRead& read) const;
  void operator()(const wire::SupervisorAttached& attached) const;
  void operator()(const wire::SupervisorSaid& said) const;
  void operator()(const wire::SupervisorDetached& detached) const;
  void operator()(const RecordsDurable& durable) const;
  void operator()(const JournalFailed& failed) const;

 private:
  void Said(ConnectionId connection, const wire::Register& message) const;
  void Said(ConnectionId connection, const wire::Heartbeat& message) const;
  void Said(ConnectionId connection, const wire::RankEnd& message) const;
  // Takes what the ranks of a node use of its memory.
  void TakeMemory(NodeId node, const NodeMemory& memory) const;
  // Takes how long ranks of a node spent in each phase.
  void TakeTimes(NodeId node, const std::vector<RankTimes>& times) const;
  void Said(ConnectionId connection, const wire::Leaving& message) const;
  void Said(ConnectionId connection, const CheckpointReport& message) const;
  void Said(ConnectionId connection, const NodeEvidence& message) const;
  void Said(ConnectionId connection, const wire::RingPiece& message) const;
  void Said(ConnectionId connection, const PlanNote& message) const;
  void Said(ConnectionId connection, const NodeCheck& message) const;
  void Said(ConnectionId connection, const LinkTested& message) const;
  void Said(ConnectionId connection, const wire::JournalHeld& message) const;
  void Said(ConnectionId, const wire::JournalBytes&) const {
  }  // answers to a question that this master asked before it began
  void Said(const wire::NodeGoneReport& report) const;
  void Said(const wire::NodePending& pending) const;
  void Said(const wire::Notice& notice) const;
  void Said(const wire::SizeWanted& wanted) const;
  void Said(const wire::EndKept&) const {}  // noted with the supervisor that said it
};

}  // namespace paceline::master

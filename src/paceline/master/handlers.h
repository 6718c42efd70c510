#pragma once

// One handler for each kind of event: translates it for the core, or answers from the loop's state.
// The bodies are in handlers/<rpc>.cc.

#include "paceline/master/event_loop.h"

namespace paceline::master {

struct Handlers {
  EventLoop& loop;

  // handlers/attach.cc
  void operator()(const wire::AgentSaid& said) const;
  void operator()(const wire::AgentDisconnected& gone) const;
  // handlers/get_status.cc
  void operator()(const wire::StatusAsked& asked) const;
  void operator()(const MetricsAsked& asked) const;
  void operator()(const HealthAsked& asked) const;
  // handlers/get_stacks.cc
  void operator()(const wire::StacksAsked& asked) const;
  // handlers/stop.cc
  void operator()(const wire::StopAsked& asked) const;
  // handlers/watch_events.cc
  void operator()(const wire::EventsWanted& wanted) const;
  void operator()(const wire::WatchEnded& ended) const;
  void operator()(const RecordsRead& read) const;
  // handlers/supervise.cc
  void operator()(const wire::SupervisorAttached& attached) const;
  void operator()(const wire::SupervisorSaid& said) const;
  void operator()(const wire::SupervisorDetached& detached) const;
  // handlers/journal.cc
  void operator()(const RecordsDurable& durable) const;
  void operator()(const JournalFailed& failed) const;

 private:
  void Said(ConnectionId connection, const wire::Register& message) const;
  void Said(ConnectionId connection, const wire::Heartbeat& message) const;
  void Said(ConnectionId connection, const wire::RankEnd& message) const;
  void Said(ConnectionId connection, const wire::Leaving& message) const;
  void Said(ConnectionId connection, const CheckpointReport& message) const;
  void Said(ConnectionId connection, const NodeEvidence& message) const;
  void Said(ConnectionId connection, const PlanNote& message) const;
  void Said(ConnectionId connection, const wire::JournalHeld& message) const;
  void Said(ConnectionId, const wire::JournalBytes&) const {
  }  // answers to a question that this master asked before it began
  void Said(const wire::NodeGoneReport& report) const;
  void Said(const wire::NodePending& pending) const;
  void Said(const wire::Notice& notice) const;
};

}  // namespace paceline::master

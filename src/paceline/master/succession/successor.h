#pragma once

// A master of a new term before it begins: it asks the nodes that connect for copies of the
// journal. core/succession/succession.h decides which copy it takes and how long it waits. This
// class receives the bytes, and holds back other events that reach the master meanwhile.

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/succession/succession.h"
#include "paceline/master/event_queue.h"
#include "paceline/master/executor.h"

namespace paceline::master {

class Successor {
 public:
  struct Begun {
    core::History history = core::History::kNone;
    std::vector<core::Record> records;  // of a copy
    std::vector<MasterEvent> held;      // events that reached the master meanwhile, in order
  };
  // `own`: the records on this master's disk, whose length `setup` has.
  Successor(Instant now, Outbox* outbox, core::Succession::Setup setup, std::string job_id,
            std::vector<core::Record> own);

  // Returns true if the event belongs to the succession, or is held back until the job begins.
  bool Take(Instant now, const MasterEvent& event);
  // The records with which the job begins, once they are known.
  std::optional<Begun> Next(Instant now);
  Instant NextDeadline() const { return succession_.NextDeadline(); }
  std::string Pending() const { return succession_.Pending(); }

 private:
  bool TakeSaid(Instant now, const wire::AgentSaid& said);
  void Leave(Instant now, ConnectionId connection);
  std::optional<std::vector<core::Record>> Records() const;

  Outbox* const outbox_;
  const std::string job_id_;
  const std::vector<core::Record> own_;
  core::Succession succession_;
  ConnectionId fetching_;
  std::string fetched_;
  std::vector<MasterEvent> held_;
};

// The highest term in a journal.
uint64_t TermIn(const std::vector<core::Record>& records);

}  // namespace paceline::master

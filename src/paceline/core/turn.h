#pragma once

// One Step of the job in progress: its state, the volatile knowledge, and the resulting actions. A
// record is applied when it is emitted, so later code sees its result. Every topic (membership,
// ranks, recovery, growth, finish) is a set of free functions over a Turn.
//
// Crash safety: of one step's records, only some may reach the disk. So no code may depend on
// having just emitted a record; it depends on the state alone. Settle() acts on the state, again
// and again until nothing is due.

#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/action.h"
#include "paceline/core/detect/detector.h"
#include "paceline/core/job_state.h"
#include "paceline/core/record.h"

namespace paceline::core {

class Turn {
 public:
  struct Parts {
    JobState& state;
    NodeMap<NodeLink>& links;
    Watch& watch;
  };
  Turn(Parts parts, Instant now) : parts_(parts), now_(now) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Instant now() const { return now_; }
  const JobState& state() const { return parts_.state; }
  Watch& watch() { return parts_.watch; }
  NodeMap<NodeLink>& links() { return parts_.links; }
  NodeLink& Link(NodeId node) { return parts_.links[node]; }

  // Causes of 0 are left out. Returns the record's number.
  RecordSeq Emit(Fact fact, std::vector<RecordSeq> causes = {});
  void Do(Effect effect) { actions_.effects.push_back(std::move(effect)); }
  void Say(Note::Level level, std::string text);

  // The detectors' present verdict on this node.
  Verdict Judge(const NodeState& node);

  // Judges one node again, and moves the next detector pass forward if needed.
  void Rewatch(NodeId node);

  // Sends the node its state at the end of this step, even if it has not changed.
  void TellSoon(NodeId node);

  // Sends each connected node its desired state if that has changed.
  void TellChanges();

  Actions Take() { return std::move(actions_); }

 private:
  void TellNode(NodeId node, NodeLink& link);

  Parts parts_;
  Instant now_;
  Actions actions_;
  bool tell_all_ = false;
};

// The node's desired state, from the durable state alone.
Assignment DesiredAssignment(const JobState& state, NodeId node);

}  // namespace paceline::core

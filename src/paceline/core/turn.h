#pragma once

// One Step of the job while it is taken: state, what was heard, and what comes of it. A record is
// applied the moment it is emitted, so code that follows sees its result. Every topic (membership,
// ranks, recovery, growth, finish) is a set of free functions over a Turn.
//
// Crash safety: records of one step may reach the disk only in part. So nothing may follow from
// "a record was just emitted"; it must follow from the state that the record left. Settle()
// looks at the state alone and does what is due, again and again until nothing is.

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

  // What the detectors say of this node now.
  Verdict Judge(const NodeState& node);

  // Judges one node's link anew and brings the next detector pass forward when needed.
  void Rewatch(NodeId node);

  // At the end of this step, whether its desired state changed or not.
  void TellSoon(NodeId node);

  // Tells every connected node whose desired state differs from what it was told.
  void TellChanges();

  Actions Take() { return std::move(actions_); }

 private:
  void TellNode(NodeId node, NodeLink& link);

  Parts parts_;
  Instant now_;
  Actions actions_;
  bool tell_all_ = false;
};

// What the node shall do now, by the durable state alone.
Assignment DesiredAssignment(const JobState& state, NodeId node);

}  // namespace paceline::core

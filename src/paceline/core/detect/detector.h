#pragma once

// A detector judges one node from the present state. It is a value. To add one, write
// detect/<name>.cc, and a declaration and a row in detectors.cc.
//
// Contract, checked for every detector by detectors_test: silent on a healthy node; the same answer
// twice; a sentence for every verdict but kHealthy. `until` is after `now`, and the verdict holds
// until then unless the node reports something new.

#include <string>
#include <string_view>

#include "paceline/base/instant.h"
#include "paceline/core/job_state.h"

namespace paceline::core {

struct Verdict {
  enum class Kind {
    kHealthy,
    kSuspect,  // no new world is formed with it until this is settled
    kLost,     // fence it
    kStuck,    // the node is well, but one of its ranks did not start: a failure of that rank
  };
  Kind kind = Kind::kHealthy;
  Instant until = Instant::Max();
  std::string reason;
};

struct NodeView {
  const JobState& state;
  const NodeState& node;
  const NodeLink& link;
  const Watch& watch;
};

struct Detector {
  std::string_view name;
  Verdict (*judge)(const NodeView& view, Instant now);
};

}  // namespace paceline::core

#pragma once

// The ledger's classes over time, for a picture: what the seated slots of the job did, and when
// each node had a seat.
//
// The idea: a seated slot does at each moment what all of them do, so one row of stretches is
// enough for all nodes. A lane of a node only says when it was there and whether it had a seat.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/goodput/ledger.h"
#include "paceline/core/record.h"

namespace paceline::core {

struct TimelineStretch {
  Instant from;
  Instant until;
  TimeClass time_class = TimeClass::kUnknown;
};

struct TimelineLane {
  struct Part {
    Instant from;
    Instant until;
    bool is_seated = false;
  };
  std::string node;
  std::vector<Part> parts;
};

class Timeline {
 public:
  // Records in order of seq.
  void Fold(const Record& record);
  const GoodputLedger& ledger() const { return ledger_; }

  struct Picture {
    Instant from;
    Instant until;
    std::vector<TimelineStretch> stretches;
    std::vector<TimelineLane> lanes;  // in the order in which the nodes joined first
  };
  // The last `length` before `now`, or before the end of a job that is over.
  Picture Last(Duration length, Instant now) const;

 private:
  struct Visitor;

  void Add(Instant from, Instant until, TimeClass time_class);
  void Repaint(const GoodputLedger::Moved& moved);
  void Begin(NodeId node, Instant at, bool is_seated);
  void End(NodeId node, Instant at);
  void Leave(NodeId node, Instant at);

  GoodputLedger ledger_;
  std::vector<TimelineStretch> stretches_;
  std::vector<TimelineLane> lanes_;
  std::map<std::string, size_t> lane_of_name_;
  struct Present {
    size_t lane = 0;
    bool is_open = false;  // its newest part has no end yet
  };
  std::map<NodeId, Present> nodes_;
};

}  // namespace paceline::core

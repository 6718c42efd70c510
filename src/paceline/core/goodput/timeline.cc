#include "paceline/core/goodput/timeline.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace paceline::core {

namespace {

// The part of [from, until) that lies between the two others.
template <class Part>
bool Clip(Instant from, Instant until, Part* part) {
  part->from = std::max(part->from, from);
  part->until = std::min(part->until, until);
  return part->from < part->until;
}

}  // namespace

struct Timeline::Visitor {
  Timeline& timeline;
  Instant at;

  void operator()(const NodeJoined& fact) const {
    const auto [it, is_new] = timeline.lane_of_name_.try_emplace(fact.name, timeline.lanes_.size());
    if (is_new) timeline.lanes_.push_back({.node = fact.name, .parts = {}});
    timeline.End(fact.node, at);
    timeline.nodes_[fact.node] = {.lane = it->second};
    timeline.Begin(fact.node, at, false);
  }
  void operator()(const NodeLost& fact) const { timeline.Leave(fact.node, at); }
  void operator()(const NodeLeft& fact) const { timeline.Leave(fact.node, at); }
  void operator()(const NodeEvicted& fact) const { timeline.Leave(fact.node, at); }
  void operator()(const WorldFormed& fact) const {
    for (const auto& [id, node] : timeline.nodes_) {
      if (node.is_open) timeline.Begin(id, at, fact.world.SeatOf(id) >= 0);
    }
  }
  void operator()(const JobFinished&) const {
    for (const auto& [id, node] : timeline.nodes_) timeline.End(id, at);
  }
  // The nodes of the job's end take part again, and no NodeJoined is recorded for them.
  void operator()(const JobResumed&) const {
    for (const auto& [id, node] : timeline.nodes_) timeline.Begin(id, at, false);
  }
  template <typename Fact>
  void operator()(const Fact&) const {}
};

void Timeline::Fold(const Record& record) {
  const Instant before = ledger_.last();
  ledger_.Fold(record);
  if (ledger_.passed().has_value()) Add(before, record.at, *ledger_.passed());
  for (const GoodputLedger::Moved& moved : ledger_.moved()) Repaint(moved);
  std::visit(Visitor{*this, record.at}, record.fact);
}

void Timeline::Add(Instant from, Instant until, TimeClass time_class) {
  if (from >= until) return;
  const bool goes_on = !stretches_.empty() && stretches_.back().until == from &&
                       stretches_.back().time_class == time_class;
  if (goes_on) {
    stretches_.back().until = until;
  } else {
    stretches_.push_back({from, until, time_class});
  }
}

// Nearly always the newest time moves to another class.
void Timeline::Repaint(const GoodputLedger::Moved& moved) {
  std::vector<TimelineStretch> after;
  while (!stretches_.empty() && stretches_.back().until > moved.from) {
    after.push_back(stretches_.back());
    stretches_.pop_back();
  }
  for (auto it = after.rbegin(); it != after.rend(); ++it) {
    const Instant begin = std::clamp(moved.from, it->from, it->until);
    const Instant end = std::clamp(moved.until, begin, it->until);
    Add(it->from, begin, it->time_class);
    Add(begin, end, moved.time_class);
    Add(end, it->until, it->time_class);
  }
}

void Timeline::Begin(NodeId node, Instant at, bool is_seated) {
  Present& present = nodes_[node];
  std::vector<TimelineLane::Part>& parts = lanes_[present.lane].parts;
  if (present.is_open) {
    if (parts.back().is_seated == is_seated) return;
    parts.back().until = at;
  }
  parts.push_back({.from = at, .until = Instant::Max(), .is_seated = is_seated});
  present.is_open = true;
}

void Timeline::End(NodeId node, Instant at) {
  const auto it = nodes_.find(node);
  if (it == nodes_.end() || !std::exchange(it->second.is_open, false)) return;
  lanes_[it->second.lane].parts.back().until = at;
}

void Timeline::Leave(NodeId node, Instant at) {
  End(node, at);
  nodes_.erase(node);
}

Timeline::Picture Timeline::Last(Duration length, Instant now) const {
  Picture picture;
  picture.until = ledger_.is_over() ? ledger_.last() : std::max(now, ledger_.last());
  picture.from = picture.until - length;
  Timeline whole = *this;
  if (!ledger_.is_over()) whole.Add(ledger_.last(), picture.until, ledger_.stage());
  for (TimelineStretch& stretch : whole.stretches_) {
    if (Clip(picture.from, picture.until, &stretch)) picture.stretches.push_back(stretch);
  }
  for (const TimelineLane& lane : lanes_) {
    TimelineLane clipped{.node = lane.node, .parts = {}};
    for (TimelineLane::Part part : lane.parts) {
      if (Clip(picture.from, picture.until, &part)) clipped.parts.push_back(part);
    }
    if (!clipped.parts.empty()) picture.lanes.push_back(std::move(clipped));
  }
  return picture;
}

}  // namespace paceline::core

#include "paceline/master/report/job_counts.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <variant>

namespace paceline::master {
namespace {

// The node whose reports the event changes. None: the event is of no node's ranks.
struct ChangedNode {
  std::optional<NodeId> operator()(const core::NodeReported& event) const { return event.node; }
  std::optional<NodeId> operator()(const core::RankExited& event) const { return event.node; }
  template <class Event>
  std::optional<NodeId> operator()(const Event&) const {
    return std::nullopt;
  }
};

// Connections and whole reports of nodes come and go with these, also without a record.
bool MayChangeAll(const core::Event& event) {
  return std::holds_alternative<core::NodeRegistered>(event) ||
         std::holds_alternative<core::NodeDisconnected>(event) ||
         std::holds_alternative<core::NodeGone>(event) ||
         std::holds_alternative<core::MasterStarted>(event);
}

}  // namespace

void JobCounts::Note(const core::Job& job, const core::Event& event, bool has_records) {
  if (has_records || MayChangeAll(event)) is_known_ = false;
  if (!is_known_) return;
  if (const auto node = std::visit(ChangedNode{}, event)) CountNode(job, *node);
}

const StateCounts& JobCounts::Of(const core::Job& job) {
  if (!is_known_) CountAll(job);
  return counts_;
}

JobCounts::Tally JobCounts::TallyOf(const core::Job& job, const core::NodeLink& link) {
  Tally tally;
  const auto& world = job.state().world;
  for (const auto& [local, rank] : link.ranks) {
    ++tally.ranks[static_cast<size_t>(rank.state)];
    const bool is_of_world = world.has_value() && rank.generation == world->generation;
    if (is_of_world) tally.steps_total = std::max(tally.steps_total, rank.steps_total);
  }
  return tally;
}

void JobCounts::CountNode(const core::Job& job, NodeId node) {
  const auto link = job.links().find(node);
  if (link == job.links().end()) return;
  Tally& tally = tallies_[node];
  const Tally now = TallyOf(job, link->second);
  for (size_t i = 0; i < now.ranks.size(); ++i) {
    counts_.ranks[i] += now.ranks[i];
    counts_.ranks[i] -= tally.ranks[i];
  }
  // A script tells the same number in all its ranks, and none tells less later.
  counts_.steps_total = std::max(counts_.steps_total, now.steps_total);
  tally = now;
}

void JobCounts::CountAll(const core::Job& job) {
  counts_ = {};
  tallies_.clear();
  for (const auto& [id, node] : job.state().nodes) {
    ++counts_.nodes[static_cast<size_t>(node.status)];
    const auto link = job.links().find(id);
    if (link == job.links().end()) continue;
    if (node.status == core::NodeState::Status::kSpare && link->second.connection.has_value()) {
      ++counts_.spares_connected;
    }
    const Tally& tally = tallies_[id] = TallyOf(job, link->second);
    for (size_t i = 0; i < tally.ranks.size(); ++i) counts_.ranks[i] += tally.ranks[i];
    counts_.steps_total = std::max(counts_.steps_total, tally.steps_total);
  }
  is_known_ = true;
}

}  // namespace paceline::master

// What another world could restore from the job's memory: without a lost node, or with joining
// ones.

#include <algorithm>
#include <iterator>
#include <vector>

#include "paceline/core/checkpoint/ledger.h"

namespace paceline::core {
namespace {

// Steps that are remembered. A rank's arena has only its newest saves; of older steps only copies
// on other hosts may be left.
constexpr size_t kWholeStepsMax = 8;
// A step counts as just saved for this long, the time in which all nodes report.
constexpr Duration kJustSaved = Duration::Milliseconds(200);

World WithoutNode(const World& world, NodeId node) {
  World rest = world;
  std::erase_if(rest.seats, [node](const Seat& seat) { return seat.node == node; });
  uint32_t first_rank = 0;
  for (Seat& seat : rest.seats) {
    seat.first_rank = first_rank;
    first_rank += seat.rank_count;
  }
  return rest;
}

}  // namespace

void CheckpointLedger::NoteWhole(Instant now) {
  if (!complete_.has_value()) return;
  if (!whole_since_.empty() && whole_since_.back().first >= *complete_) return;
  whole_since_.emplace_back(*complete_, now);
  if (whole_since_.size() <= kWholeStepsMax) return;
  // Keep the newest replicated step, however old it is.
  const bool is_copied = whole_since_.front().first == replicated();
  whole_since_.erase(is_copied ? std::next(whole_since_.begin()) : whole_since_.begin());
}

std::optional<SavedStep> CheckpointLedger::NewestLost(const CheckpointBook& book) const {
  for (auto step = whole_since_.rbegin(); step != whole_since_.rend(); ++step) {
    if (step->first <= complete_) return std::nullopt;
    if (!IsGivenUp(book, step->first)) return step->first;
  }
  return std::nullopt;
}

Memories CheckpointLedger::MemoriesAfter(const Move& move) const {
  Memories memories = memories_;
  for (const NodeId node : move.leavers) memories.reports.erase(node);
  for (const NodeId node : move.joiners) {
    // A spare may have reported nothing. In the world it would have an address and could fetch.
    CheckpointReport& report = memories.reports[node];
    if (report.place.empty()) report.place = "joiner " + ToString(node);
    if (report.address.empty()) report.address = report.place;
  }
  return memories;
}

bool CheckpointLedger::CanMoveTo(const World& world, const Move& move, Instant now) const {
  if (whole_since_.empty() || now - whole_since_.back().second > kJustSaved) return false;
  return PlanFromMemory(world, MemoriesAfter(move), whole_since_.back().first).has_value();
}

std::optional<Instant> CheckpointLedger::SavedFor(const World& world, const Move& move) const {
  const Memories memories = MemoriesAfter(move);
  for (auto step = whole_since_.rbegin(); step != whole_since_.rend(); ++step) {
    if (PlanFromMemory(world, memories, step->first).has_value()) return step->second;
  }
  return std::nullopt;
}

std::optional<Instant> CheckpointLedger::SavedAtWithout(NodeId node, const World& world) const {
  if (whole_since_.empty() || world.seats.size() < 2) return std::nullopt;
  return SavedFor(WithoutNode(world, node), {.joiners = {}, .leavers = {node}});
}

}  // namespace paceline::core

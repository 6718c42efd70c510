#include "paceline/core/recover/ladder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::core {

RungAnswer ConsiderResize(const LadderView& view);
RungAnswer ConsiderReplaceSlow(const LadderView& view);
RungAnswer ConsiderRestartProcess(const LadderView& view);
RungAnswer ConsiderRestartNode(const LadderView& view);
RungAnswer ConsiderReplaceNode(const LadderView& view);
RungAnswer ConsiderShrink(const LadderView& view);
RungAnswer ConsiderWait(const LadderView& view);
RungAnswer ConsiderStop(const LadderView& view);

namespace {

// Narrowest first, but a size that was chosen goes before all: the world is formed anew anyway.
// Stop is last but takes effect first: no other rung applies once the budget is exhausted.
constexpr std::array<RungEntry, 8> kLadder = {{
    {Rung::kResize, ConsiderResize},
    {Rung::kReplaceSlow, ConsiderReplaceSlow},
    {Rung::kRestartProcess, ConsiderRestartProcess},
    {Rung::kRestartNode, ConsiderRestartNode},
    {Rung::kReplaceNode, ConsiderReplaceNode},
    {Rung::kShrink, ConsiderShrink},
    {Rung::kWait, ConsiderWait},
    {Rung::kStop, ConsiderStop},
}};

}  // namespace

std::vector<Candidate> LadderView::PlanWithoutBlamed() const {
  std::vector<Candidate> others;
  for (const Candidate& candidate : candidates) {
    if (candidate.node != state.incident.blamed) others.push_back(candidate);
  }
  return Plan(std::move(others));
}

std::vector<Candidate> LadderView::Plan(std::vector<Candidate> nodes) const {
  std::vector<Candidate> seats = PlanAnyRoom(nodes);
  if (room == nullptr || room->WhyNot(state, seats).empty()) return seats;
  // Where there are more nodes than seats, those with the most memory may hold the model.
  if (nodes.size() == seats.size()) return {};
  seats = PlanAnyRoom(Roomiest(state, std::move(nodes), seats.size()));
  return room->WhyNot(state, seats).empty() ? seats : std::vector<Candidate>();
}

std::vector<Candidate> LadderView::PlanAnyRoom(std::vector<Candidate> nodes) const {
  std::vector<Candidate> seats = PlanSeats(state.last_world.seats, std::move(nodes), bounds());
  const uint32_t fixed = state.RanksFixed();
  uint32_t ranks = 0;
  for (const Candidate& seat : seats) ranks += seat.slots;
  // A node of another size sits where one is missing.
  if (fixed != 0 && ranks != fixed) return {};
  return seats;
}

std::string LadderView::WhyTooSmall() const {
  if (room == nullptr || !Plan(candidates).empty()) return "";
  return room->WhyNot(state, PlanSeats(state.last_world.seats, candidates, bounds()));
}

bool LadderView::CanReplaceBlamed() const {
  return blamed_failures > 0 && PlanWithoutBlamed().size() >= state.last_world.seats.size();
}

bool LadderView::ShouldReplaceBlamed() const {
  const bool alike = blamed_failures > 1 && state.budget.same_failure_count > 1;
  const bool often = blamed_failures > state.spec.budgets.node_restarts;
  return (alike || often) && CanReplaceBlamed();
}

bool LadderView::SuspectsImage() const {
  if (blamed_failures < 2 || state.budget.last_fingerprint.empty()) return false;
  return !state.Find(state.incident.blamed)->fresh_image_tried;
}

std::string LadderView::BlamedText() const {
  return BlamedName() + " failed " + std::to_string(blamed_failures) + " times without progress";
}

std::string LadderView::BlamedName() const { return state.NameOf(state.incident.blamed); }

std::span<const RungEntry> Ladder() { return kLadder; }

LadderAnswer ClimbLadder(const LadderView& view) {
  for (const RungEntry& entry : kLadder) {
    RungAnswer answer = entry.consider(view);
    if (answer.applies) return {entry.rung, std::move(answer)};
  }
  CHECK(false, "the ladder ends: wait or stop always applies");
  return {};
}

}  // namespace paceline::core

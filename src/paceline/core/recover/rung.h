#pragma once

// One step of the recovery ladder. To add one: recover/<name>.cc and a line in ladder.cc, where the
// order is the policy. A rung is pure: from the view it decides whether it applies, how the next
// world is seated, and why.
//
// Contract, checked for every rung by ladder_test: an answer that applies has a sentence; seats
// hold only candidates; a rung never applies once the budget is exhausted, except stop, which then
// always does.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/budget.h"
#include "paceline/core/job_state.h"
#include "paceline/core/world/rendezvous.h"

namespace paceline::core {

struct LadderView {
  const JobState& state;
  Instant now;
  std::vector<Candidate> candidates;  // nodes that can be seated now
  std::vector<NodeId> missing;        // nodes of the last world that cannot
  BudgetVerdict budget;
  // Charged failures of the blamed node since progress; 0 if no node is blamed.
  uint32_t blamed_failures = 0;
  Room* room = nullptr;  // null: every world holds the model

  WorldBounds bounds() const { return state.NextBounds(); }
  // Seats of the next world with these nodes; empty if there is no such world, or if its devices
  // do not hold the model.
  std::vector<Candidate> Plan(std::vector<Candidate> nodes) const;
  // The same, whether the devices hold the model or not.
  std::vector<Candidate> PlanAnyRoom(std::vector<Candidate> nodes) const;
  // Seats with every candidate except the blamed node.
  std::vector<Candidate> PlanWithoutBlamed() const;
  // Why the largest world of all candidates does not hold the model; "" if it does.
  std::string WhyTooSmall() const;
  // True if the world keeps its size without the blamed node.
  bool CanReplaceBlamed() const;
  // True if the blamed node had the same failure twice, or too many of any kind, and another node
  // could have its seat.
  bool ShouldReplaceBlamed() const;
  // True if the blamed node failed again by itself and had no fresh starter since progress. A kill
  // from outside says nothing about the starter.
  bool SuspectsImage() const;
  // "n1 failed 2 times without progress".
  std::string BlamedText() const;
  std::string BlamedName() const;
};

struct RungAnswer {
  bool applies = false;
  std::vector<Candidate> seats;      // empty: no world now
  std::optional<NodeId> fresh_node;  // gets a fresh starter
  std::optional<NodeId> blamed;
  // If later than now: the rung waits until then for something better, such as a returning node.
  Instant not_before;
  std::string waiting_for;  // if it waits
  std::string reason;
};

struct RungEntry {
  Rung rung;
  RungAnswer (*consider)(const LadderView& view);
};

}  // namespace paceline::core

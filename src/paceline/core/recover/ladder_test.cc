#include "paceline/core/recover/ladder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

namespace paceline::core {
namespace {

Candidate Node(uint32_t id) {
  return {.node = NodeId(id), .name = "n" + std::to_string(id), .slots = 2, .troubles = 0};
}

// A world of `nodes` nodes that has just ended. All nodes are there, and none is to blame.
struct Case {
  explicit Case(uint32_t nodes, uint32_t spares = 0, uint32_t nodes_min = 1) {
    state.spec.nodes_min = nodes_min;
    state.spec.nodes_max = nodes;
    for (uint32_t id = 1; id <= nodes + spares; ++id) {
      NodeState& node = state.nodes[NodeId(id)];
      node.id = NodeId(id);
      node.name = "n" + std::to_string(id);
      node.slots = 2;
      node.reason = "died with all its ranks";
      candidates.push_back(Node(id));
    }
    state.last_world.generation = Generation(1);
    state.last_world.seats =
        NumberSeats({candidates.begin(), candidates.begin() + static_cast<int64_t>(nodes)});
  }
  void Lose(uint32_t id) {
    state.nodes[NodeId(id)].status = NodeState::Status::kLost;
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& c) { return c.node == NodeId(id); }),
                     candidates.end());
    missing.push_back(NodeId(id));
  }
  void Blame(uint32_t id, uint32_t failures, const std::string& fingerprint) {
    state.incident.has_blamed = true;
    state.incident.blamed = NodeId(id);
    state.nodes[NodeId(id)].failures_without_progress = failures;
    state.budget.last_fingerprint = fingerprint;
    blamed_failures = failures;
  }
  LadderView view() const {
    return {.state = state,
            .now = Instant(),
            .candidates = candidates,
            .missing = missing,
            .budget = {.exhausted = exhausted, .reason = exhausted ? "it fails" : ""},
            .blamed_failures = blamed_failures};
  }
  Rung Climb() const { return ClimbLadder(view()).rung; }

  JobState state;
  std::vector<Candidate> candidates;
  std::vector<NodeId> missing;
  uint32_t blamed_failures = 0;
  bool exhausted = false;
};

void CheckAnswer(const Case& at, const RungEntry& entry) {
  const RungAnswer answer = entry.consider(at.view());
  if (at.exhausted) {
    ASSERT_EQ(answer.applies, entry.rung == Rung::kStop) << RungName(entry.rung);
  }
  if (!answer.applies) return;
  ASSERT_FALSE(answer.reason.empty()) << RungName(entry.rung);
  std::set<NodeId> seated;
  for (const Candidate& seat : answer.seats) {
    ASSERT_TRUE(seated.insert(seat.node).second) << RungName(entry.rung) << " seats a node twice";
    ASSERT_TRUE(std::any_of(at.candidates.begin(), at.candidates.end(),
                            [&](const Candidate& c) { return c.node == seat.node; }))
        << RungName(entry.rung) << " seats a node that is not there";
  }
  if (answer.fresh_node) {
    ASSERT_TRUE(seated.count(*answer.fresh_node) > 0) << "a fresh image for nobody";
  }
}

void CheckLadder(const Case& at) {
  for (const RungEntry& entry : Ladder()) CheckAnswer(at, entry);
  const LadderAnswer climbed = ClimbLadder(at.view());
  const bool rests = climbed.rung == Rung::kWait || climbed.rung == Rung::kStop;
  ASSERT_EQ(climbed.answer.seats.empty(), rests) << RungName(climbed.rung);
  if (climbed.answer.seats.empty()) return;
  ASSERT_GE(climbed.answer.seats.size(), at.state.spec.nodes_min);
  ASSERT_LE(climbed.answer.seats.size(), at.state.spec.nodes_max);
}

// Every state in which a world of two nodes, with up to two spares, can end.
TEST(LadderTest, EveryRungKeepsItsContract) {
  for (const uint32_t spares : {0U, 1U, 2U}) {
    for (const uint32_t nodes_min : {1U, 2U}) {
      for (const uint32_t lost : {0U, 1U, 2U, 3U}) {
        for (const uint32_t blamed : {0U, 1U, 2U}) {
          for (uint32_t failures = 1; failures <= (blamed == 0 ? 1U : 4U); ++failures) {
            for (uint32_t bits = 0; bits < 16; ++bits) {
              Case at(2, spares, nodes_min);
              if ((lost & 1U) != 0) at.Lose(1);
              if ((lost & 2U) != 0) at.Lose(2);
              if (blamed != 0) at.Blame(blamed, failures, (bits & 1U) != 0 ? "boom" : "");
              at.exhausted = (bits & 2U) != 0;
              at.state.budget.same_failure_count = (bits & 4U) != 0 ? 2 : 0;
              if (blamed != 0) at.state.nodes[NodeId(blamed)].fresh_image_tried = (bits & 8U) != 0;
              CheckLadder(at);
              if (HasFatalFailure()) FAIL() << spares << nodes_min << lost << blamed << failures;
            }
          }
        }
      }
    }
  }
}

TEST(LadderTest, ANodeThatWentAndIsHereAgainIsNamed) {
  Case at(2);
  NodeState& node = at.state.nodes[NodeId(2)];
  node.address = "pod-1";
  node.departure = Departure{.how = "left (SIGTERM): its time is over", .old_address = "pod-0"};
  EXPECT_EQ(ClimbLadder(at.view()).answer.reason.find("left"), std::string::npos) << "still away";
  node.departure->is_back = true;
  EXPECT_EQ(ClimbLadder(at.view()).answer.reason,
            "n2 left (SIGTERM): its time is over, and a host at pod-1 took its place: the same "
            "nodes go on with new processes");
  node.departure->new_incarnation = 1;
  EXPECT_EQ(ClimbLadder(at.view()).answer.reason,
            "n2 left (SIGTERM): its time is over, and incarnation 1 of n2 took its place: the same "
            "nodes go on with new processes");
}

TEST(LadderTest, TheFirstFailureRestartsProcesses) {
  Case at(2, 1);
  at.Blame(1, 1, "boom");
  EXPECT_EQ(at.Climb(), Rung::kRestartProcess);
}

TEST(LadderTest, ASecondFailureByItselfCostsAFreshImageOnce) {
  Case at(2);
  at.Blame(1, 2, "boom");
  EXPECT_EQ(at.Climb(), Rung::kRestartNode);
  EXPECT_EQ(ClimbLadder(at.view()).answer.fresh_node, NodeId(1));
  at.state.nodes[NodeId(1)].fresh_image_tried = true;
  EXPECT_EQ(at.Climb(), Rung::kRestartProcess);
}

TEST(LadderTest, AKillFromOutsideNeverCostsAFreshImage) {
  Case at(2);
  for (uint32_t failures = 1; failures < 9; ++failures) {
    at.Blame(1, failures, "");
    EXPECT_EQ(at.Climb(), Rung::kRestartProcess) << failures;
  }
}

TEST(LadderTest, ASpareTakesOverAfterTheSameFailureTwiceOrAnyThreeTimes) {
  Case alike(2, 1);
  alike.Blame(1, 2, "boom");
  alike.state.budget.same_failure_count = 2;
  EXPECT_EQ(alike.Climb(), Rung::kReplaceNode);
  Case often(2, 1);
  often.Blame(1, 3, "");
  EXPECT_EQ(often.Climb(), Rung::kReplaceNode);
}

TEST(LadderTest, ALostNodeIsReplacedOrTheWorldShrinksOrWaits) {
  Case spare(2, 1);
  spare.Lose(2);
  EXPECT_EQ(spare.Climb(), Rung::kReplaceNode);
  Case above(2, 0, 1);
  above.Lose(2);
  EXPECT_EQ(above.Climb(), Rung::kShrink);
  Case below(2, 0, 2);
  below.Lose(2);
  EXPECT_EQ(below.Climb(), Rung::kWait);
}

// Pipeline stages under one name: a world of another size could not restore a checkpoint.
TEST(LadderTest, RanksWithParametersOfTheirOwnWaitForTheSameNumberOfRanks) {
  const auto fix = [](Case& at, uint32_t ranks) {
    Apply(CheckpointCommitted{.name = "c", .ranks_fixed = ranks}, Instant(), &at.state.checkpoints);
  };
  Case lost(2, 0, 1);
  lost.Lose(2);
  fix(lost, 4);
  EXPECT_EQ(lost.Climb(), Rung::kWait);
  const RungAnswer answer = ClimbLadder(lost.view()).answer;
  const std::string why = "because each rank has parameters of its own, so that only 4 ranks";
  EXPECT_NE(answer.waiting_for.find("waits for 1 more node: 1 of at least 2 is here, " + why),
            std::string::npos)
      << answer.waiting_for;
  EXPECT_NE(answer.reason.find(why), std::string::npos) << answer.reason;
  Case spare(2, 1, 1);
  spare.Lose(2);
  fix(spare, 4);
  EXPECT_EQ(spare.Climb(), Rung::kReplaceNode);
  spare.candidates.back().slots = 3;
  EXPECT_EQ(spare.Climb(), Rung::kWait) << "5 ranks are not 4";
  fix(spare, 0);
  EXPECT_EQ(spare.Climb(), Rung::kReplaceNode);
  // Saves of another world say nothing about this one.
  Case other(2, 0, 1);
  other.Lose(2);
  fix(other, 8);
  EXPECT_EQ(other.Climb(), Rung::kShrink);
  Case failed(2, 0, 1);
  failed.Blame(1, 1, "boom");
  fix(failed, 4);
  EXPECT_EQ(failed.Climb(), Rung::kRestartProcess);
}

// The remaining checkpoints were saved by as many ranks as the damaged one.
TEST(LadderTest, ADamagedCheckpointLeavesTheNumberOfRanksAsItWas) {
  Case at(2, 0, 1);
  at.Lose(2);
  CheckpointBook& book = at.state.checkpoints;
  Apply(CheckpointCommitted{.name = "c", .ranks_fixed = 4}, Instant(), &book);
  Apply(CheckpointDamaged{.name = "c"}, Instant(), &book);
  EXPECT_EQ(at.state.RanksFixed(), 4u);
  EXPECT_EQ(at.Climb(), Rung::kWait);
  EXPECT_EQ(at.state.NextBounds().nodes_max, 2u) << "it does not grow either";
  // The next commit decides.
  Apply(CheckpointCommitted{.name = "d"}, Instant(), &book);
  EXPECT_EQ(at.Climb(), Rung::kShrink);
}

}  // namespace
}  // namespace paceline::core

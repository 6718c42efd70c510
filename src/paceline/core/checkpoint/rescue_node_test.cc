#include "paceline/core/checkpoint/rescue_node.h"

#include "gtest/gtest.h"
#include "paceline/core/test_times.h"

namespace paceline::core {
namespace {

using Stage = RescueCall::Stage;

class RescueNodeTest : public ::testing::Test {
 protected:
  // The node sees the call with its next beat, a second later.
  RescueNode::Todo See(Stage stage) {
    now_ = now_ + Duration::Seconds(1);
    call_.stage = stage;
    ++call_.beat;
    return node_.Look(now_, call_);
  }
  void Order(const std::string& node) {
    call_.saved = {1, 7};
    call_.shards = {{Rank(0), Rank(0), Rank(1), node}, {Rank(1), Rank(0), Rank(1), node}};
  }

  RescueCall call_{.job_id = "j", .id = "a", .term = 4, .shards = {}};
  RescueNode node_{"j", "n1"};
  Instant now_;
};

TEST_F(RescueNodeTest, AQuestionIsAnsweredAndChangesNothing) {
  EXPECT_FALSE(node_.Look(now_, std::nullopt).answers);
  const RescueNode::Todo todo = See(Stage::kAsk);
  EXPECT_TRUE(todo.answers);
  EXPECT_FALSE(todo.ends_ranks);
  RescueAnswer memory;
  memory.host = "h";
  memory.images = {{.rank = Rank(1)}};
  const RescueAnswer answer = node_.Answer(memory);
  EXPECT_EQ(answer.job_id, "j");
  EXPECT_EQ(answer.id, "a");
  EXPECT_EQ(answer.node, "n1");
  EXPECT_EQ(answer.host, "h");
  EXPECT_EQ(answer.images, memory.images);
  EXPECT_FALSE(answer.has_master);
}

TEST_F(RescueNodeTest, ANodeWithAMasterSaysSoAndStays) {
  node_.SetLinked(true);
  See(Stage::kAsk);
  EXPECT_TRUE(node_.Answer({}).has_master);
  See(Stage::kAsk);
  const RescueNode::Todo todo = See(Stage::kEnd);
  EXPECT_TRUE(todo.answers);
  EXPECT_FALSE(todo.ends_ranks);
  EXPECT_FALSE(node_.holds(now_));
}

TEST_F(RescueNodeTest, ALivingCallEndsTheRanksAndHoldsTheAgent) {
  See(Stage::kAsk);
  EXPECT_TRUE(See(Stage::kEnd).ends_ranks);
  EXPECT_EQ(node_.term(), 4U);
  EXPECT_TRUE(node_.holds(now_));
  EXPECT_FALSE(node_.Answer({}).has_ended);
  EXPECT_FALSE(See(Stage::kEnd).ends_ranks) << "once";
  node_.NoteEnded();
  EXPECT_TRUE(node_.Answer({}).has_ended);
}

TEST_F(RescueNodeTest, ACommandThatAsksFindsTheNodeAgainWhenItEndsTheRanks) {
  const Duration lively = RescueTimes().lively;
  See(Stage::kAsk);
  EXPECT_FALSE(node_.holds(now_)) << "a killed command may have left that call";
  See(Stage::kAsk);
  EXPECT_TRUE(node_.holds(now_));
  EXPECT_TRUE(node_.holds(now_ + lively - Duration::Seconds(1)));
  EXPECT_FALSE(node_.holds(now_ + lively)) << "the command was killed";
  call_.id = "b";
  See(Stage::kAsk);
  EXPECT_TRUE(node_.holds(now_)) << "another command follows a killed one at once";
  See(Stage::kAsk);
  See(Stage::kLeft);
  EXPECT_FALSE(node_.holds(now_)) << "it has given up";
}

TEST_F(RescueNodeTest, TheCallOfADeadCommandEndsNothing) {
  EXPECT_FALSE(See(Stage::kEnd).ends_ranks) << "its beat may stand still";
  EXPECT_FALSE(node_.Look(now_ + Duration::Seconds(5), call_).ends_ranks);
  EXPECT_TRUE(See(Stage::kEnd).ends_ranks) << "now it has gone up";
}

TEST_F(RescueNodeTest, EachShardIsWrittenOnceAndItsEndIsTold) {
  See(Stage::kAsk);
  See(Stage::kEnd);
  Order("n1");
  EXPECT_EQ(See(Stage::kStore).writes, call_.shards);
  EXPECT_TRUE(See(Stage::kStore).writes.empty());
  node_.NoteShard({.rank = Rank(0), .saved = {1, 7}, .is_durable = true, .took = {}});
  node_.NoteShard({.rank = Rank(1), .saved = {1, 6}, .is_durable = true, .took = {}});
  const RescueAnswer answer = node_.Answer({});
  ASSERT_EQ(answer.shards.size(), 2U);
  EXPECT_TRUE(answer.shards[0].is_durable);
  EXPECT_FALSE(answer.shards[1].is_durable) << "that was another step";
}

TEST_F(RescueNodeTest, OtherNodesShardsAreNotWritten) {
  See(Stage::kAsk);
  See(Stage::kEnd);
  Order("n2");
  EXPECT_TRUE(See(Stage::kStore).writes.empty());
}

TEST_F(RescueNodeTest, AnAgentThatCameLateWritesToo) {
  See(Stage::kStore);
  Order("n1");
  const RescueNode::Todo todo = See(Stage::kStore);
  EXPECT_TRUE(todo.ends_ranks);
  EXPECT_EQ(todo.writes, call_.shards);
}

TEST_F(RescueNodeTest, ItEndsWithTheCall) {
  See(Stage::kAsk);
  See(Stage::kEnd);
  const RescueNode::Todo todo = See(Stage::kOver);
  EXPECT_TRUE(todo.ends && todo.frees_memory);
  EXPECT_FALSE(node_.holds(now_));
}

TEST_F(RescueNodeTest, WhoHasNotJoinedStaysWhenTheCommandGivesUp) {
  See(Stage::kAsk);
  EXPECT_FALSE(See(Stage::kLeft).ends);
}

TEST_F(RescueNodeTest, ItEndsWhenTheCommandHasDied) {
  See(Stage::kAsk);
  See(Stage::kEnd);
  const Duration patience = RescueTimes().patience;
  EXPECT_FALSE(node_.Look(now_ + patience - Duration::Seconds(1), call_).ends);
  now_ = now_ + patience;
  EXPECT_TRUE(node_.holds(now_));
  const RescueNode::Todo todo = node_.Look(now_, std::nullopt);
  EXPECT_TRUE(todo.ends);
  EXPECT_FALSE(todo.frees_memory) << "the images may be all that is left of the step";
  EXPECT_FALSE(node_.holds(now_));
}

TEST_F(RescueNodeTest, AnotherCommandGoesOnWhereTheFirstOneDied) {
  See(Stage::kAsk);
  See(Stage::kEnd);
  Order("n1");
  EXPECT_EQ(See(Stage::kStore).writes.size(), 2U);
  call_.id = "b";
  See(Stage::kAsk);
  EXPECT_TRUE(node_.holds(now_));
  EXPECT_EQ(See(Stage::kStore).writes.size(), 2U) << "its shards are written again";
}

TEST_F(RescueNodeTest, CallsOfOtherJobsAreIgnored) {
  call_.job_id = "k";
  EXPECT_FALSE(See(Stage::kAsk).answers);
  EXPECT_FALSE(See(Stage::kEnd).ends_ranks);
}

TEST_F(RescueNodeTest, ItLooksMoreOftenWhileACommandLives) {
  const RescueTimes times;
  EXPECT_EQ(node_.pause(now_), times.look_unlinked);
  See(Stage::kAsk);
  See(Stage::kAsk);
  EXPECT_EQ(node_.pause(now_), times.look_called);
  EXPECT_EQ(node_.pause(now_ + times.lively), times.look_unlinked);
  node_.SetLinked(true);
  EXPECT_EQ(node_.pause(now_ + times.lively), times.look_linked);
}

}  // namespace
}  // namespace paceline::core

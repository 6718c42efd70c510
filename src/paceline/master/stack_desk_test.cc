#include "paceline/master/stack_desk.h"

#include <optional>

#include "gtest/gtest.h"

namespace paceline::master {
namespace {

class Sent final : public Outbox {
 public:
  void Send(ConnectionId connection, wire::MasterMessage message) override {
    orders[connection] = std::get<wire::EvidenceOrder>(message);
  }
  void Close(ConnectionId, std::string) override {}
  void Order(wire::SupervisorId, wire::SupervisorOrder) override {}
  std::map<ConnectionId, wire::EvidenceOrder> orders;
};

class StackDeskTest : public ::testing::Test {
 protected:
  void Ask(std::optional<wire::JobStacks>* answer) {
    desk_.Ask(Instant(), Generation(3), {{ConnectionId(1), "node0"}, {ConnectionId(2), "node1"}},
              {"node2"}, [answer](wire::JobStacks stacks) { *answer = std::move(stacks); });
  }
  NodeEvidence AnswerOf(ConnectionId connection, uint32_t rank) {
    const wire::EvidenceOrder& order = sent_.orders.at(connection);
    NodeEvidence evidence{.generation = order.generation, .round = order.round, .ranks = {}};
    evidence.ranks.push_back({.rank = Rank(rank), .pid = 7});
    evidence.ranks.back().collectives.push_back({.group = "0 0-1", .operation = "barrier"});
    return evidence;
  }

  Sent sent_;
  StackDesk desk_{&sent_};
  std::optional<wire::JobStacks> first_, second_;
};

TEST_F(StackDeskTest, AllWhoAskMeanwhileGetTheSameAnswersWhenTheLastOneIsThere) {
  Ask(&first_);
  Ask(&second_);
  EXPECT_TRUE(desk_.Take(ConnectionId(1), AnswerOf(ConnectionId(1), 0)));
  EXPECT_FALSE(first_.has_value());
  EXPECT_TRUE(desk_.Take(ConnectionId(2), AnswerOf(ConnectionId(2), 1)));
  ASSERT_TRUE(first_.has_value());
  EXPECT_EQ(first_, second_);
  ASSERT_EQ(2u, first_->nodes.size());
  EXPECT_EQ("node1", first_->nodes[1].node);
  EXPECT_EQ(7, first_->nodes[1].ranks[0].pid);
  EXPECT_TRUE(first_->nodes[1].ranks[0].collectives.empty());
  EXPECT_EQ(std::vector<std::string>{"node2"}, first_->silent);
  EXPECT_TRUE(desk_.deadline().is_max());
}

TEST_F(StackDeskTest, WhoGoesOrSaysNothingIsNamed) {
  Ask(&first_);
  desk_.Forget(ConnectionId(2));
  desk_.PassTime(Instant() + StackDesk::kPatience - Duration::Milliseconds(1));
  EXPECT_FALSE(first_.has_value());
  desk_.PassTime(Instant() + StackDesk::kPatience);
  ASSERT_TRUE(first_.has_value());
  EXPECT_EQ((std::vector<std::string>{"node0", "node1", "node2"}), first_->silent);
  // A late answer does not count for a later question.
  const NodeEvidence late = AnswerOf(ConnectionId(1), 0);
  Ask(&second_);
  EXPECT_TRUE(desk_.Take(ConnectionId(1), late));
  EXPECT_FALSE(second_.has_value());
}

TEST_F(StackDeskTest, AnswersThatHangsAreJudgedByAreNotItsOwn) {
  Ask(&first_);
  NodeEvidence evidence = AnswerOf(ConnectionId(1), 0);
  evidence.round = 1;
  EXPECT_FALSE(desk_.Take(ConnectionId(1), evidence));
}

TEST_F(StackDeskTest, WithoutAgentsTheAnswerComesAtOnce) {
  desk_.Ask(Instant(), Generation(3), {}, {"node2"},
            [this](wire::JobStacks stacks) { first_ = std::move(stacks); });
  EXPECT_TRUE(first_.has_value());
}

}  // namespace
}  // namespace paceline::master

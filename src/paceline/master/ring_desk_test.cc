#include "paceline/master/ring_desk.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::master {
namespace {

class SentQuestions final : public Outbox {
 public:
  void Send(ConnectionId connection, wire::MasterMessage message) override {
    agents.push_back(connection);
    questions.push_back(std::get<wire::RingsWanted>(message));
  }
  void Close(ConnectionId, std::string) override {}
  void Order(wire::SupervisorId, wire::SupervisorOrder) override {}
  std::vector<ConnectionId> agents;
  std::vector<wire::RingsWanted> questions;
};

class RingDeskTest : public ::testing::Test {
 protected:
  void Ask(Instant now, uint64_t agent) {
    desk_.Ask(now, ConnectionId(agent), {.rank = 3, .last = Duration::Seconds(30)},
              [this](const wire::RingsReply& reply) {
                replies_.push_back(reply.silence.empty() ? reply.content : reply.silence);
              });
  }
  std::vector<std::string> Replies() { return std::exchange(replies_, {}); }

  const Instant start_;
  SentQuestions sent_;
  RingDesk desk_{&sent_};
  std::vector<std::string> replies_;
};

TEST_F(RingDeskTest, EachAnswerGoesToItsQuestion) {
  Ask(start_, 1);
  Ask(start_, 2);
  ASSERT_EQ(sent_.questions.size(), 2u);
  EXPECT_EQ(sent_.questions[0].at.rank, 3u);
  EXPECT_EQ(sent_.agents, (std::vector{ConnectionId(1), ConnectionId(2)}));
  // An agent answers for itself only.
  desk_.Take(ConnectionId(1), {sent_.questions[1].id, "of another"});
  EXPECT_TRUE(replies_.empty());
  desk_.Take(ConnectionId(2), {sent_.questions[1].id, "b"});
  desk_.Take(ConnectionId(2), {sent_.questions[1].id, "twice"});
  desk_.Take(ConnectionId(1), {sent_.questions[0].id, "a"});
  EXPECT_EQ(Replies(), (std::vector<std::string>{"b", "a"}));
  EXPECT_TRUE(desk_.deadline().is_max());
}

TEST_F(RingDeskTest, WhoGoesOrSaysNothingIsSaidToBeSilent) {
  Ask(start_, 1);
  Ask(start_ + Duration::Seconds(1), 2);
  EXPECT_EQ(desk_.deadline(), start_ + RingDesk::kPatience);
  desk_.PassTime(start_ + RingDesk::kPatience);
  EXPECT_EQ(Replies(), std::vector<std::string>{"its agent has not answered for 5 s"});
  desk_.Take(ConnectionId(1), {sent_.questions[0].id, "late"});
  EXPECT_TRUE(replies_.empty());
  desk_.Forget(ConnectionId(2));
  EXPECT_EQ(Replies(), std::vector<std::string>{"its agent has lost its connection to the master"});
}

TEST_F(RingDeskTest, QuestionsAreBounded) {
  for (size_t i = 0; i < RingDesk::kOpenMax; ++i) Ask(start_, 1);
  EXPECT_TRUE(replies_.empty());
  Ask(start_, 1);
  EXPECT_EQ(replies_.size(), 1u);
  EXPECT_EQ(sent_.questions.size(), RingDesk::kOpenMax);
}

}  // namespace
}  // namespace paceline::master

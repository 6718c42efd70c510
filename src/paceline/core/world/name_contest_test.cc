// Which agent keeps a node's name, seen from the master: registrations, beats and silence.

#include "paceline/core/world/name_contest.h"

#include <optional>
#include <string>
#include <variant>

#include "gtest/gtest.h"
#include "paceline/core/job.h"
#include "paceline/model/version.h"

namespace paceline::core {
namespace {

struct Agent {
  std::string boot_id;
  std::string address;
  uint64_t incarnation = 0;
  uint64_t connection = 0;
  std::string job_id = "names";
};

class NameContest : public ::testing::Test {
 protected:
  NameContest() {
    spec_.job_id = "names";
    spec_.nodes_min = spec_.nodes_max = 2;
    job_.Step(now_, JobSubmitted{spec_});
    job_.Step(now_, MasterStarted{1});
    EXPECT_TRUE(IsAdmitted(first_));
  }

  std::optional<RefuseNode> Register(const Agent& agent) {
    NodeReport report;
    report.name = "n1";
    report.boot_id = agent.boot_id;
    report.agent_incarnation = agent.incarnation;
    report.agent_pid = 7;
    report.address = agent.address;
    report.slots = 1;
    report.job_id = agent.job_id;
    report.version_major = kVersionMajor;
    report.version_minor = kVersionMinor;
    const Actions actions =
        job_.Step(now_, NodeRegistered{ConnectionId(agent.connection), std::move(report)});
    for (const Effect& effect : actions.effects) {
      if (const auto* refusal = std::get_if<RefuseNode>(&effect)) return *refusal;
    }
    return std::nullopt;
  }

  bool IsAdmitted(const Agent& agent) { return !Register(agent).has_value(); }

  void Beat(const Agent& agent) {
    job_.Step(now_, NodeReported{.node = NodeId(1), .connection = ConnectionId(agent.connection)});
  }

  // Time passes; `speaker` sends beats all the time.
  void Pass(Duration time, const Agent* speaker) {
    const Instant end = now_ + time;
    while (now_ < end) {
      now_ = std::min(end, now_ + spec_.timers.heartbeat_interval);
      if (speaker != nullptr) Beat(*speaker);
      job_.Step(now_, TimePassed{});
    }
  }

  void Break(const Agent& agent) {
    job_.Step(now_, NodeDisconnected{NodeId(1), ConnectionId(agent.connection)});
  }

  JobSpec spec_;
  Job job_;
  Instant now_ = Instant() + Duration::Seconds(1);
  const Agent first_{"boot-a", "10.0.0.1", 100, 1};
  const Agent other_{"boot-b", "10.0.0.2", 50, 2};  // by its clock it was started earlier
};

TEST_F(NameContest, AnotherHostIsRefusedForAWhileAndThenForGood) {
  const auto asked = Register(other_);
  ASSERT_TRUE(asked.has_value());
  EXPECT_TRUE(asked->retry) << "it may be the first one's host after a reboot";
  Pass(spec_.timers.lost_after * 2, &first_);
  const auto again = Register(other_);
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->retry);
  EXPECT_EQ(again->code, "PL-E037");
  EXPECT_EQ(again->what, "another host already has the node name n1");
  EXPECT_NE(again->why.find("10.0.0.1"), std::string::npos) << again->why;
  EXPECT_NE(again->fix.find("--node-name"), std::string::npos) << again->fix;
  EXPECT_EQ(job_.links().find(NodeId(1))->second.connection, ConnectionId(first_.connection));
}

TEST_F(NameContest, ARebootedHostTakesItsPlaceWhenTheOldAgentIsSilent) {
  ASSERT_TRUE(Register(other_)->retry);
  Pass(spec_.timers.lost_after, nullptr);
  EXPECT_TRUE(IsAdmitted(other_));
  const auto late = Register(first_);
  ASSERT_TRUE(late.has_value()) << "now the other one is heard";
}

TEST_F(NameContest, AStreamThatBreaksForAMomentGivesTheNameToNoOtherHost) {
  Break(first_);
  EXPECT_TRUE(Register(other_)->retry);
  EXPECT_TRUE(IsAdmitted({first_.boot_id, first_.address, first_.incarnation, 3}));
}

TEST_F(NameContest, NobodyIsRefusedForGoodForOneThatIsJustGone) {
  ASSERT_TRUE(Register(other_)->retry);
  Pass(spec_.timers.lost_after * 2, &first_);
  Break(first_);
  EXPECT_TRUE(Register(other_)->retry);
  Pass(spec_.timers.lost_after, nullptr);
  EXPECT_TRUE(IsAdmitted(other_));
}

TEST_F(NameContest, AnAgentThatIsStartedAgainOnItsHostTakesItsPlaceAtOnce) {
  Break(first_);
  EXPECT_TRUE(IsAdmitted({first_.boot_id, first_.address, first_.incarnation + 1, 3}));
}

TEST_F(NameContest, ASecondAgentOfTheSameHostEndsToo) {
  const Agent second{first_.boot_id, first_.address, first_.incarnation + 1, 3};
  EXPECT_TRUE(Register(second)->retry) << "the first one's stream may only look whole";
  Pass(spec_.timers.lost_after * 2, &first_);
  const auto again = Register(second);
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->retry);
  EXPECT_NE(again->why.find("of the same host"), std::string::npos) << again->why;
}

TEST_F(NameContest, AnOlderAgentOfTheSameHostIsRefusedAtOnce) {
  const Agent older{first_.boot_id, first_.address, first_.incarnation - 1, 3};
  EXPECT_FALSE(Register(older)->retry);
}

// A master that lost its run directory began a new job at its old address. The node's name is free,
// but the agent's worlds and ranks are of another job.
TEST_F(NameContest, AnAgentOfAnotherJobIsRefusedForGood) {
  job_.Step(now_, NodeGone{"n1", "died with all its ranks", 7});
  Break(first_);
  Agent stranger = other_;
  stranger.job_id = "names-of-yesterday";
  const auto refusal = Register(stranger);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, "PL-E049");
  EXPECT_FALSE(refusal->retry);
  EXPECT_NE(refusal->why.find("names-of-yesterday"), std::string::npos) << refusal->why;
  stranger.job_id.clear();
  EXPECT_TRUE(IsAdmitted(stranger)) << "an older release does not say";
}

TEST_F(NameContest, ALostNodesNameIsFree) {
  job_.Step(now_, NodeGone{"n1", "died with all its ranks", 7});
  Break(first_);
  EXPECT_TRUE(IsAdmitted(other_));
}

TEST_F(NameContest, TheMastersOwnStallIsNoSignOfLife) {
  ASSERT_TRUE(Register(other_)->retry);
  now_ += Duration::Seconds(30);  // the master was stopped; no node was heard
  EXPECT_TRUE(Register(other_)->retry);
}

TEST_F(NameContest, ANewMasterWaitsForTheHostThatItKnows) {
  job_.Step(now_, MasterStarted{2});
  const auto asked = Register(other_);
  ASSERT_TRUE(asked.has_value());
  EXPECT_TRUE(asked->retry);
  EXPECT_NE(asked->why.find("may still come back"), std::string::npos) << asked->why;
  Pass(spec_.timers.lost_after, nullptr);
  EXPECT_TRUE(IsAdmitted(other_));
}

TEST_F(NameContest, ManyHostsUnderOneNameAreRememberedWithinABound) {
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(Register({"boot-" + std::to_string(i), "10.0.1.1", i + 1, 10 + i})->retry);
  }
  EXPECT_LE(job_.links().find(NodeId(1))->second.rivals.size(), 4u);
}

}  // namespace
}  // namespace paceline::core

#include "paceline/core/node/keeper.h"

#include <gtest/gtest.h>

#include <string>

#include "paceline/core/finish.h"
#include "paceline/core/test_times.h"

namespace paceline::core {
namespace {

std::string Names(const std::vector<KeeperAction>& actions) {
  std::string names;
  for (const KeeperAction& action : actions) {
    if (std::holds_alternative<StartMaster>(action)) names += "master ";
    if (const auto* start = std::get_if<StartAgent>(&action)) names += "agent:" + start->node + " ";
    if (const auto* count = std::get_if<CountRanks>(&action)) names += "count:" + count->node + " ";
    if (const auto* gone = std::get_if<ReportNodeGone>(&action))
      names += "gone:" + gone->node + " ";
    if (std::holds_alternative<ReadJobEnd>(action)) names += "read-end ";
    if (std::holds_alternative<GiveUp>(action)) names += "give-up ";
  }
  return names;
}

class KeeperTest : public ::testing::Test {
 protected:
  Keeper Started(KeeperPlan plan) {
    Keeper keeper(std::move(plan));
    keeper.Step(At(0), KeepStarted{});
    keeper.Step(At(1), MasterUp{});
    for (const char* node : {"a", "b"}) keeper.Step(At(1), AgentUp{node});
    return keeper;
  }
  KeeperPlan plan_{.nodes = {"a", "b"}, .is_whole_job = true};
};

TEST_F(KeeperTest, StartsTheAgentsWhenTheMasterServes) {
  Keeper keeper(plan_);
  EXPECT_EQ(Names(keeper.Step(At(0), KeepStarted{})), "master ");
  EXPECT_TRUE(keeper.NextDeadline().is_max());
  EXPECT_EQ(Names(keeper.Step(At(12), MasterUp{})), "agent:a agent:b ");
  keeper.Step(At(13), MasterExited{false, 9});
  EXPECT_EQ(Names(keeper.Step(At(25), MasterUp{})), "") << "they run on without it";
}

TEST_F(KeeperTest, StartsTheAgentsAtOnceWhereTheMasterIsElsewhere) {
  plan_.has_master = false;
  Keeper keeper(plan_);
  EXPECT_EQ(Names(keeper.Step(At(0), KeepStarted{})), "agent:a agent:b ");
}

TEST_F(KeeperTest, RestartsAKilledMasterAtOnce) {
  Keeper keeper = Started(plan_);
  EXPECT_EQ(Names(keeper.Step(At(9000), MasterExited{false, 9})), "master ");
}

// Seen with jobs that fail within a tenth of a second: the launcher had not connected by then, took
// the master's end for a crash, restarted it four times and finally printed "Done".
TEST_F(KeeperTest, AMasterThatEndsWellHasEndedTheJob) {
  Keeper keeper = Started(plan_);
  EXPECT_EQ(Names(keeper.Step(At(2), MasterExited{.by_itself = true, .code = 0})), "read-end ");
  EXPECT_TRUE(keeper.NextDeadline().is_max());
}

TEST_F(KeeperTest, ADeadAgentWithLivingRanksIsRestarted) {
  Keeper keeper = Started(plan_);
  EXPECT_EQ(Names(keeper.Step(At(9000), AgentExited{"a"})), "");
  EXPECT_EQ(keeper.NextDeadline(), At(9050));
  EXPECT_EQ(Names(keeper.Step(At(9050), KeeperTimePassed{})), "count:a ");
  EXPECT_EQ(Names(keeper.Step(At(9050), RanksCounted{"a", 2, 1})), "agent:a ");
}

TEST_F(KeeperTest, ADeadNodeStaysDeadUnlessItIsWanted) {
  Keeper keeper = Started(plan_);
  keeper.Step(At(9000), AgentExited{"a"});
  keeper.Step(At(9050), KeeperTimePassed{});
  EXPECT_EQ(Names(keeper.Step(At(9051), RanksCounted{"a", 2, 0})), "gone:a ");
  EXPECT_TRUE(keeper.IsGone("a"));
  EXPECT_EQ(Names(keeper.Step(At(99999), KeeperTimePassed{})), "");
  EXPECT_EQ(Names(keeper.Step(At(99999), NodeWanted{"a", 1})), "agent:a ");
}

TEST_F(KeeperTest, ADeadNodeIsReplacedWhenItIsWishedFor) {
  Keeper keeper = Started(plan_);
  // The node was silent, then died; the wish came before its death.
  EXPECT_EQ(Names(keeper.Step(At(8000), NodeWanted{"a", 1})), "");
  keeper.Step(At(9000), AgentExited{"a"});
  keeper.Step(At(9050), KeeperTimePassed{});
  EXPECT_EQ(Names(keeper.Step(At(9050), RanksCounted{"a", 2, 0})), "gone:a agent:a ");
  keeper.Step(At(20000), AgentUp{"a"});
  // A repeated wish starts no new node.
  keeper.Step(At(29000), AgentExited{"a"});
  keeper.Step(At(29050), KeeperTimePassed{});
  EXPECT_EQ(Names(keeper.Step(At(29051), RanksCounted{"a", 2, 0})), "gone:a ");
  EXPECT_EQ(Names(keeper.Step(At(29060), NodeWanted{"a", 1})), "");
  EXPECT_EQ(Names(keeper.Step(At(29070), NodeWanted{"a", 2})), "agent:a ");
}

TEST_F(KeeperTest, TheOnlyNodeOfAJobComesBack) {
  plan_.nodes = {"a"};
  Keeper keeper = Started(plan_);
  keeper.Step(At(9000), AgentExited{"a"});
  keeper.Step(At(9050), KeeperTimePassed{});
  EXPECT_EQ(Names(keeper.Step(At(9050), RanksCounted{"a", 2, 0})), "gone:a agent:a ");
}

// The kernel killed a whole cgroup for lack of memory; only the launcher lives. Other hosts cannot
// bring the node back, and the job would wait for ever.
TEST_F(KeeperTest, AHostOfSeveralBringsItsOwnNodeBack) {
  plan_.has_master = false;
  plan_.is_whole_job = false;
  plan_.nodes = {"a"};
  Keeper keeper(plan_);
  keeper.Step(At(0), KeepStarted{});
  keeper.Step(At(10), AgentUp{"a"});
  EXPECT_EQ(Names(keeper.Step(At(9000), AgentExited{.node = "a", .was_killed = true})), "");
  keeper.Step(At(9050), KeeperTimePassed{});
  EXPECT_EQ(Names(keeper.Step(At(9050), RanksCounted{"a", 2, 0})), "gone:a agent:a ");
  keeper.Step(At(9060), AgentUp{"a"});
  keeper.Step(At(9100), AgentExited{.node = "a", .was_killed = true});
  EXPECT_GE(keeper.NextDeadline(), At(9050) + plan_.timers.respawn_delay) << "starts are spaced";
}

TEST_F(KeeperTest, AnIdleAgentIsRestarted) {
  Keeper keeper = Started(plan_);
  keeper.Step(At(9000), AgentExited{"b"});
  keeper.Step(At(9050), KeeperTimePassed{});
  EXPECT_EQ(Names(keeper.Step(At(9050), RanksCounted{"b", 0, 0})), "agent:b ");
}

// A silent node may delay the job's end. Exit code 2 is the script's own.
TEST_F(KeeperTest, AnAgentThatLeftAsItWasToldIsNotMissedAndAsksAgainIfNoEndComes) {
  Keeper keeper = Started(plan_);
  const AgentExited left{.node = "a", .by_itself = true, .code = 2, .has_left = true};
  EXPECT_EQ(Names(keeper.Step(At(9000), left)), "");
  EXPECT_EQ(Names(keeper.Step(At(20'000), KeeperTimePassed{})), "");
  EXPECT_FALSE(keeper.IsGone("a"));
  const Instant due = keeper.NextDeadline();
  EXPECT_EQ(Names(keeper.Step(due, KeeperTimePassed{})), "agent:a ");
  keeper.Step(due, left);
  keeper.Step(due, JobEnded{});
  EXPECT_TRUE(keeper.NextDeadline().is_max());
}

TEST_F(KeeperTest, AHostThatMissesTheEndOfItsJobEndsWithTheOrderedExitCode) {
  const auto left = [](const char* node) {
    return AgentExited{
        .node = node, .by_itself = true, .code = 143, .has_left = true, .is_job_over = true};
  };
  for (const bool is_linked : {false, true}) {
    for (const bool has_master : {false, true}) {
      plan_.has_master = has_master;
      Keeper keeper = Started(plan_);
      keeper.Step(At(1000), LauncherLinked{is_linked});
      keeper.Step(At(9000), left("a"));
      keeper.Step(At(9010), left("b"));
      EXPECT_EQ(Names(keeper.Step(At(39'000), KeeperTimePassed{})),
                is_linked || has_master ? "agent:a " : "");
      const auto actions = keeper.Step(At(39'010), KeeperTimePassed{});
      EXPECT_EQ(Names(actions), is_linked || has_master ? "agent:b " : "give-up ");
      if (is_linked || has_master) continue;
      EXPECT_EQ(std::get<GiveUp>(actions.at(0)).exit_code, 143);
    }
  }
}

// A user has resumed the job meanwhile, and the agent's later death has nothing to do with its end.
TEST_F(KeeperTest, AnAgentThatAskedAndGoesOnIsRestartedLikeAnyOther) {
  plan_.has_master = false;
  plan_.nodes = {"a"};
  Keeper keeper = Started(plan_);
  keeper.Step(At(1000), LauncherLinked{true});
  keeper.Step(
      At(9000),
      AgentExited{
          .node = "a", .by_itself = true, .code = 143, .has_left = true, .is_job_over = true});
  EXPECT_EQ(Names(keeper.Step(At(39'000), KeeperTimePassed{})), "agent:a ");
  keeper.Step(At(39'000), AgentUp{"a"});
  keeper.Step(At(60'000), LauncherLinked{false});
  keeper.Step(At(60'000), AgentExited{"a"});
  keeper.Step(At(60'050), KeeperTimePassed{});
  EXPECT_EQ(Names(keeper.Step(At(60'050), RanksCounted{"a", 0, 0})), "agent:a ");
}

TEST_F(KeeperTest, ANodeThatIsTakenOutIsNotStartedAgain) {
  const auto out = [](const char* node) {
    return AgentExited{.node = node, .by_itself = true, .code = kExitFenced, .has_left = true};
  };
  plan_.has_master = false;
  Keeper joined = Started(plan_);
  EXPECT_EQ(Names(joined.Step(At(9000), out("a"))), "");
  EXPECT_EQ(Names(joined.Step(At(9010), out("b"))), "give-up ");
  plan_.has_master = true;
  plan_.is_whole_job = false;
  Keeper first = Started(plan_);
  EXPECT_EQ(Names(first.Step(At(9000), out("a"))), "");
  EXPECT_EQ(Names(first.Step(At(9010), out("b"))), "") << "the other hosts need the master";
  EXPECT_TRUE(first.NextDeadline().is_max());
  plan_.is_whole_job = true;
  Keeper alone = Started(plan_);
  EXPECT_EQ(Names(alone.Step(At(9000), out("a"))), "");
  EXPECT_EQ(Names(alone.Step(At(9010), out("b"))), "give-up ") << "no other host can join";
}

TEST_F(KeeperTest, AnAgentWithoutAMasterForTooLongEndsAHostThatOnlyJoined) {
  plan_.has_master = false;
  Keeper keeper = Started(plan_);
  EXPECT_EQ(Names(keeper.Step(At(700'000), AgentExited{"a", true, 3})), "");
  const auto actions = keeper.Step(At(700'010), AgentExited{"b", true, 3});
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(std::get<GiveUp>(actions[0]).exit_code, 3);
}

TEST_F(KeeperTest, AnAgentWithoutAMasterForTooLongIsStartedAgainBesideTheMaster) {
  Keeper keeper = Started(plan_);
  EXPECT_EQ(Names(keeper.Step(At(700'000), AgentExited{"a", true, 3})), "");
  const Instant due = keeper.NextDeadline();
  EXPECT_EQ(Names(keeper.Step(due, KeeperTimePassed{})), "agent:a ");
}

TEST_F(KeeperTest, AChildThatDiesAtOnceIsDelayedMoreAndMore) {
  Keeper keeper = Started(plan_);
  int64_t now = 10;
  Duration last;
  for (int i = 0; i < 12; ++i) {
    keeper.Step(At(now), MasterExited{false, 9});
    if (i > 0) {
      const Duration delay = keeper.NextDeadline() - At(now);
      EXPECT_GE(delay, last);
      EXPECT_LE(delay, plan_.timers.respawn_delay_max);
      last = delay;
      now += delay.milliseconds();
      EXPECT_EQ(Names(keeper.Step(At(now), KeeperTimePassed{})), "master ");
    }
    keeper.Step(At(now), MasterUp{});
  }
  EXPECT_EQ(last, plan_.timers.respawn_delay_max);
}

TEST_F(KeeperTest, AMasterThatIsKilledAgainAndAgainIsStartedAtOnce) {
  Keeper keeper = Started(plan_);
  int64_t now = 1000;
  for (int i = 0; i < 20; ++i, now += 500) {
    EXPECT_EQ(Names(keeper.Step(At(now), MasterExited{false, 0, true})), "master ") << i;
    keeper.Step(At(now + 12), MasterUp{});
  }
  EXPECT_EQ(Names(keeper.Step(At(now), MasterExited{false, 0, true})), "master ");
  EXPECT_EQ(Names(keeper.Step(At(now + 1), MasterUp{})), "");
  EXPECT_EQ(Names(keeper.Step(At(now + 2), MasterExited{false, 0, true})), "") << "spaced";
  EXPECT_EQ(keeper.NextDeadline(), At(now) + plan_.timers.respawn_delay);
}

TEST_F(KeeperTest, AMasterThatCannotRunIsGivenUp) {
  Keeper keeper = Started(plan_);
  EXPECT_EQ(Names(keeper.Step(At(5), MasterExited{true, 2})), "give-up ");
}

TEST_F(KeeperTest, AMasterThatNeverServesIsGivenUp) {
  Keeper keeper(plan_);
  keeper.Step(At(100'000), KeepStarted{});
  int64_t now = 100'000;
  std::string said;
  for (int i = 0; i < 5; ++i) {
    said = Names(keeper.Step(At(now), MasterExited{true, 1}));
    if (keeper.NextDeadline().is_max()) continue;  // the first one is restarted at once
    now = keeper.NextDeadline().nanoseconds() / 1'000'000;
    EXPECT_EQ(Names(keeper.Step(At(now), KeeperTimePassed{})), "master ");
  }
  EXPECT_EQ(said, "give-up ");
}

// Seen on a full disk: five starts within 1.4 s ended healthy ranks.
TEST_F(KeeperTest, AMasterThatHasRunIsStartedAgainForMinutes) {
  Keeper keeper = Started(plan_);
  int64_t now = 60'000;
  int starts = 0;
  for (std::string said; said != "give-up "; ++starts) {
    ASSERT_LT(now, 3'600'000);
    said = Names(keeper.Step(At(now), MasterExited{true, 1}));
    if (keeper.NextDeadline().is_max()) continue;
    now = keeper.NextDeadline().nanoseconds() / 1'000'000;
    keeper.Step(At(now), KeeperTimePassed{});
  }
  EXPECT_GE(now, 660'000);
  EXPECT_LE(now, 665'000);
  EXPECT_GT(starts, 300);
}

TEST_F(KeeperTest, AfterTheJobNothingIsStarted) {
  Keeper keeper = Started(plan_);
  keeper.Step(At(9000), AgentExited{"a"});
  keeper.Step(At(9001), JobEnded{});
  EXPECT_EQ(Names(keeper.Step(At(9100), MasterExited{true, 0})), "");
  EXPECT_EQ(Names(keeper.Step(At(9100), RanksCounted{"a", 2, 0})), "");
  EXPECT_TRUE(keeper.NextDeadline().is_max());
}

}  // namespace
}  // namespace paceline::core

#include "paceline/core/world/growth.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

// A world of one node with two ranks that each save a part; a second node waits for a checkpoint.
class GrowthTest : public ::testing::Test {
 protected:
  GrowthTest() : GrowthTest({99, 99}) {}
  // `told`: checkpoints that its ranks reported before the second node came.
  explicit GrowthTest(const std::vector<int64_t>& told,
                      GrowPolicy policy = GrowPolicy::kCheckpoint) {
    JobSpec spec;
    spec.job_id = "grows";
    spec.nproc_per_node = 2;
    spec.nodes_min = 1;
    spec.nodes_max = 2;
    spec.grow = policy;
    job_.Step(now_, JobSubmitted{spec});
    job_.Step(now_, MasterStarted{1});
    Register("n1", 1);
    for (int i = 0; i < 1'000 && !job_.state().world.has_value(); ++i) Pass();
    EXPECT_EQ(job_.state().phase, Phase::kStarting);
    Tell(told, {99, 99});
    EXPECT_EQ(job_.state().phase, Phase::kRunning);
    if (policy == GrowPolicy::kNow) return;
    Register("n2", 2);
    Pass();
    EXPECT_TRUE(job_.state().growth.pending);
  }

  void Register(const std::string& name, uint64_t connection) {
    NodeReport report = TestReport(name);
    report.slots = 2;
    job_.Step(now_, NodeRegistered{ConnectionId(connection), report});
  }

  void Pass() {
    now_ += Duration::Milliseconds(100);
    for (uint32_t i = 1; i <= 2; ++i) {
      job_.Step(now_, NodeReported{.node = NodeId(i),
                                   .connection = ConnectionId(i),
                                   .generation = GenerationNow(),
                                   .store_port = 30'000 + i});
    }
    job_.Step(now_, TimePassed{});
  }

  Generation GenerationNow() const {
    const auto& world = job_.state().world;
    return world.has_value() ? world->generation : Generation();
  }

  // Each rank reports its newest checkpoint, right after that step.
  void Tell(const std::vector<int64_t>& saved) { Tell(saved, saved); }
  void Tell(const std::vector<int64_t>& saved, const std::vector<int64_t>& steps) {
    NodeReported report{.node = NodeId(1), .connection = ConnectionId(1)};
    const Generation generation = report.generation = GenerationNow();
    for (uint32_t i = 0; i < 2; ++i) {
      RankReport rank{.generation = generation, .rank = Rank(i), .local_rank = i, .pid = 9};
      rank.state = RankReport::State::kStepping;
      rank.step = steps[i];
      rank.saved_step = saved[i];
      report.ranks.push_back(rank);
    }
    job_.Step(now_, report);
    Pass();
  }

  bool HasNewWorld() const {
    return job_.state().decision.pending || job_.state().world->seats.size() == 2;
  }

  Job job_;
  Instant now_ = Instant::FromNanoseconds(1'000'000'000);
};

TEST_F(GrowthTest, ItWaitsUntilEveryRankThatSavesHasSaved) {
  Tell({199, 99});
  EXPECT_FALSE(HasNewWorld()) << "rank 1 is in the middle of it";
  Tell({199, 199});
  EXPECT_TRUE(HasNewWorld());
}

class FirstSaveTest : public GrowthTest {
 protected:
  FirstSaveTest() : GrowthTest({-1, -1}) {}
};

TEST_F(FirstSaveTest, WhoMayBeAboutToTellIsWaitedFor) {
  Tell({199, -1}, {199, 199});
  EXPECT_FALSE(HasNewWorld()) << "rank 1 may be in the middle of its part";
  Tell({199, 199});
  EXPECT_TRUE(HasNewWorld());
}

TEST_F(FirstSaveTest, WhoHasGoneOnTellsOfNone) {
  Tell({199, -1}, {199, 199});
  EXPECT_FALSE(HasNewWorld());
  Tell({199, -1}, {200, 200});
  EXPECT_TRUE(HasNewWorld()) << "rank 0 saves for all";
}

TEST_F(GrowthTest, ARankThatSavesNoMoreHoldsItUpForAMomentOnly) {
  Tell({199, 99});
  for (int i = 0; i < 90; ++i) Pass();
  EXPECT_FALSE(HasNewWorld());
  for (int i = 0; i < 20; ++i) Pass();
  EXPECT_TRUE(HasNewWorld());
}

class GrowNowTest : public GrowthTest {
 protected:
  GrowNowTest() : GrowthTest({-1, -1}, GrowPolicy::kNow) {}
};

TEST_F(GrowNowTest, AJoinerIsNotForgottenWhileASeatedNodeIsSilent) {
  for (int i = 0; i < 10; ++i) {
    now_ += Duration::Milliseconds(100);
    job_.Step(now_, TimePassed{});
  }
  Register("n2", 2);
  ASSERT_FALSE(HasNewWorld()) << "a world without n1 may be wrong";
  for (int i = 0; i < 10; ++i) Pass();
  EXPECT_TRUE(HasNewWorld());
}

}  // namespace
}  // namespace paceline::core

// Kills for want of memory, and limits that are raised before and after them.

#include "paceline/core/world/memory.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "paceline/core/job.h"
#include "paceline/core/memory_told.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A job of one node with a rank, that trains.
class NodeMemoryTest : public ::testing::Test {
 protected:
  explicit NodeMemoryTest(uint64_t most = 16 * kGiB) {
    JobSpec spec;
    spec.job_id = "memory";
    spec.memory_node = 4 * kGiB;
    spec.memory_most = most;
    Take(job_.Step(now_, JobSubmitted{spec}));
    Take(job_.Step(now_, MasterStarted{1}));
    Take(job_.Step(now_, NodeRegistered{ConnectionId(1), TestReport("n1")}));
    now_ += spec.timers.join_window;
    Take(job_.Step(now_, TimePassed{}));
    Beat();
  }
  void Take(const Actions& actions) {
    for (const core::Record& record : actions.records) {
      told_.push_back(std::string(FactName(record.fact)));
      last_ = Sentence(record);
      if (FactName(record.fact) == "memory_short") memory_ = last_;
      folded_.Apply(record);
    }
    for (const Effect& effect : actions.effects) {
      if (const auto* assign = std::get_if<AssignNode>(&effect)) order_ = assign->assignment;
    }
  }
  RankReport Stepping() {
    RankReport rank;
    if (job_.state().world.has_value()) rank.generation = job_.state().world->generation;
    rank.rank = Rank(0);
    rank.pid = 100;
    rank.state = RankReport::State::kStepping;
    rank.step = ++step_;
    rank.step_count = 5;
    return rank;
  }
  void Beat() {
    now_ += Duration::Milliseconds(100);
    Take(job_.Step(now_, NodeReported{.node = NodeId(1),
                                      .connection = ConnectionId(1),
                                      .generation = Generation(),
                                      .store_port = ++port_,
                                      .ranks = {Stepping()}}));
  }
  // The kernel kills the rank at that limit; the next world trains.
  void Kill(uint64_t limit) {
    RankReport rank = Stepping();
    rank.state = RankReport::State::kExited;
    rank.exit.kind = ExitCause::Kind::kSignaled;
    rank.exit.code = 9;
    rank.exit.cgroup_oom = true;
    rank.exit.memory_limit = limit;
    told_.clear();
    Take(job_.Step(now_, RankExited{NodeId(1), ConnectionId(1), rank}));
    for (int i = 0; i < 4 && job_.state().phase != Phase::kFinished; ++i) Beat();
  }
  void Foresee(uint64_t limit, uint64_t next_limit) {
    told_.clear();
    Take(job_.Step(now_, MemoryForeseen{.node = NodeId(1),
                                        .generation = job_.state().world->generation,
                                        .memory = {limit / 2, limit, MemoryBound::kNode},
                                        .grows = 0.01 * static_cast<double>(limit),
                                        .left = Duration::Seconds(50),
                                        .next_limit = next_limit}));
  }
  struct Folded {
    JobState state;
    void Apply(const core::Record& record) { core::Apply(record, &state); }
  };

  Instant now_ = Instant() + Duration::Seconds(100);
  uint32_t port_ = 4000;
  int64_t step_ = 0;
  Job job_;
  Folded folded_;
  Assignment order_;
  std::vector<std::string> told_;
  std::string last_;
  std::string memory_;
};

TEST_F(NodeMemoryTest, ALimitThatIsDueIsRaisedInPlace) {
  ASSERT_EQ(job_.state().phase, Phase::kRunning);
  const Generation before = job_.state().world->generation;
  EXPECT_EQ(order_.memory_limit, 0U);
  Foresee(4 * kGiB, 6 * kGiB);
  EXPECT_EQ(told_, std::vector<std::string>{"memory_short"});
  EXPECT_EQ(order_.memory_limit, 6 * kGiB);
  EXPECT_EQ(job_.state().world->generation, before) << "nobody is restarted";
  EXPECT_EQ(memory_,
            "n1 uses 2 GiB of its limit of 4 GiB and grows by 1.0 % of that a second: the limit is "
            "reached in 50 s; it is raised to 6 GiB");
  Foresee(4 * kGiB, 6 * kGiB);
  EXPECT_TRUE(told_.empty()) << "told once";
  Foresee(6 * kGiB, 8 * kGiB);
  EXPECT_EQ(order_.memory_limit, 8 * kGiB);
  EXPECT_EQ(folded_.state, job_.state());
}

TEST_F(NodeMemoryTest, EachKillRaisesTheLimitUntilMostEndsTheJob) {
  Kill(4 * kGiB);
  EXPECT_EQ(order_.memory_limit, 8 * kGiB);
  EXPECT_EQ(job_.state().budget.charged_failures, 0U);
  EXPECT_EQ(job_.state().phase, Phase::kRunning);
  Kill(8 * kGiB);
  EXPECT_EQ(order_.memory_limit, 16 * kGiB);
  EXPECT_EQ(job_.state().budget.charged_failures, 0U);
  Kill(16 * kGiB);
  EXPECT_NE(job_.state().exit_code, 0);
  EXPECT_EQ(job_.state().final_reason,
            "no restart can mend this: a rank on n1 was killed at its node's memory limit of 16 "
            "GiB, which is [memory] most");
  EXPECT_EQ(folded_.state, job_.state());
}

TEST_F(NodeMemoryTest, ALimitThatCannotBeRaisedIsNoExcuse) {
  Kill(4 * kGiB);
  Kill(4 * kGiB);
  EXPECT_EQ(job_.state().budget.charged_failures, 1U);
}

TEST_F(NodeMemoryTest, TheNextWorldSaysWhy) {
  Kill(4 * kGiB);
  EXPECT_NE(std::find(told_.begin(), told_.end(), "memory_short"), told_.end());
  EXPECT_EQ(
      memory_,
      "n1 needs more than its limit of 4 GiB: it may use 8 GiB from now on, and the failure is "
      "not charged");
}

struct NoMostTest : NodeMemoryTest {
  NoMostTest() : NodeMemoryTest(0) {}
};

TEST_F(NoMostTest, WithoutMostAKillIsAnyFailure) {
  Kill(4 * kGiB);
  EXPECT_EQ(job_.state().budget.charged_failures, 1U);
  EXPECT_EQ(job_.state().phase, Phase::kRunning);
  EXPECT_EQ(order_.memory_limit, 0U);
}

}  // namespace
}  // namespace paceline::core

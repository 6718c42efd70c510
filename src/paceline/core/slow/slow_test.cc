// Slow ranks and bad losses: each is recorded once, and nothing follows from it.

#include "paceline/core/slow/slow.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

// A job of one node with two ranks, that trains.
class SlowTest : public ::testing::Test {
 protected:
  SlowTest() {
    JobSpec spec;
    spec.job_id = "slow";
    spec.nodes_min = spec.nodes_max = 1;
    spec.nproc_per_node = 2;
    Take(job_.Step(now_, JobSubmitted{spec}));
    Start(job_, 1);
    Beat({});
  }

  void Start(Job& job, uint64_t incarnation) {
    Take(job.Step(now_, MasterStarted{incarnation}));
    NodeReport report = TestReport("n1");
    report.slots = 2;
    report.generation = job.state().generation;
    report.ranks = Ranks({});
    Take(job.Step(now_, NodeRegistered{ConnectionId(incarnation), report}));
    connection_ = ConnectionId(incarnation);
  }
  void Take(const Actions& actions) {
    for (const Record& record : actions.records) {
      records_.push_back(record);
      told_.push_back(std::string(FactName(record.fact)));
    }
  }
  std::vector<RankReport> Ranks(const std::vector<BadLoss>& bad) const {
    std::vector<RankReport> ranks;
    for (uint32_t local = 0; local < 2; ++local) {
      RankReport rank;
      rank.generation = job_.state().generation;
      rank.rank = Rank(local);
      rank.local_rank = local;
      rank.pid = 100;
      rank.state = RankReport::State::kStepping;
      rank.step_count = 50;
      if (local < bad.size()) rank.bad_loss = bad[local];
      ranks.push_back(rank);
    }
    return ranks;
  }
  void Beat(const std::vector<BadLoss>& bad) {
    now_ += Duration::Milliseconds(100);
    Take(job_.Step(now_, NodeReported{.node = NodeId(1),
                                      .connection = connection_,
                                      .generation = job_.state().generation,
                                      .store_port = 4000,
                                      .ranks = Ranks(bad)}));
  }
  void Judge(const std::vector<SlowFinding>& findings, Generation generation) {
    told_.clear();
    Take(job_.Step(now_, PaceJudged{generation, findings}));
  }
  void Judge(const std::vector<SlowFinding>& findings) { Judge(findings, job_.state().generation); }
  static BadLoss Bad(uint32_t count, int64_t step) {
    return {.count = count,
            .step = step,
            .kind = BadLossKind::kLossNoNumber,
            .value = std::numeric_limits<double>::quiet_NaN()};
  }

  const SlowFinding slow_ = {
      .ranks = {Rank(1)}, .node = "n1", .excess = 0.21, .cost = 0.17, .steps_a_day = 1000};
  Instant now_ = Instant() + Duration::Seconds(100);
  Job job_;
  ConnectionId connection_;
  std::vector<Record> records_;
  std::vector<std::string> told_;
};

using Kinds = std::vector<std::string>;

TEST_F(SlowTest, IsToldOnceAndWhenItIsOver) {
  Judge({slow_});
  EXPECT_EQ(Kinds{"rank_slow"}, told_);
  EXPECT_EQ(
      "rank 1 on n1: own work 21 % longer than its peers'; costs 17 % of the speed (1000 "
      "steps a day)",
      Sentence(records_.back()));
  Judge({slow_});
  EXPECT_EQ(Kinds{}, told_);
  Judge({});
  EXPECT_EQ(Kinds{"rank_no_longer_slow"}, told_);
  Judge({});
  EXPECT_EQ(Kinds{}, told_);
  EXPECT_EQ(Phase::kRunning, job_.state().phase);
}

TEST_F(SlowTest, AnotherWorldOrNobodyIsLeftOut) {
  Judge({slow_}, Generation(77));
  Judge({SlowFinding{}});
  EXPECT_EQ(Kinds{}, told_);
}

// What it told is in the journal: a new master neither repeats it nor forgets that it must end.
TEST_F(SlowTest, ANewMasterGoesOnFromTheJournal) {
  Judge({slow_});
  Job next;
  for (const Record& record : records_) next.Restore(record);
  EXPECT_EQ(std::vector<SlowFinding>{slow_}, next.state().slow);
  job_ = next;
  Start(job_, 2);
  Judge({slow_});
  EXPECT_EQ(Kinds{}, told_);
  Judge({});
  EXPECT_EQ(Kinds{"rank_no_longer_slow"}, told_);
}

TEST_F(SlowTest, ARunOfBadLossesIsToldOnceForAllRanks) {
  told_.clear();
  Beat({Bad(1, 118), Bad(1, 119)});
  EXPECT_EQ(Kinds{"loss_went_bad"}, told_);
  EXPECT_EQ("rank 0: the loss was NaN at step 118", Sentence(records_.back()));
  for (int i = 0; i < 10; ++i) Beat({Bad(1, 118), Bad(1, 119)});
  EXPECT_EQ(1u, told_.size());
  Beat({Bad(2, 118 + 2 * kSameRunSteps), Bad(1, 119)});
  EXPECT_EQ(2u, told_.size());
  EXPECT_EQ(Phase::kRunning, job_.state().phase);
}

TEST_F(SlowTest, ANewMasterDoesNotRepeatABadLoss) {
  Beat({Bad(1, 118)});
  Job next;
  for (const Record& record : records_) next.Restore(record);
  job_ = next;
  Start(job_, 2);
  told_.clear();
  Beat({Bad(1, 118)});
  EXPECT_EQ(Kinds{}, told_);
}

}  // namespace
}  // namespace paceline::core

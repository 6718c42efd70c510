// Drills on a job that trains: what is refused, what is recorded, and what is known to follow.

#include "paceline/core/world/drill.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

// Two seated nodes of one rank each, and perhaps spares. A rank makes a step each 100 ms.
class DrillTest : public ::testing::Test {
 protected:
  void Begin(uint32_t spares, JobSpec spec = {}) {
    spec.job_id = "drilled";
    spec.nodes_min = spec.nodes_max = 2;
    spec.spares = spares;
    Step(JobSubmitted{spec});
    Step(MasterStarted{1});
    for (uint32_t node = 1; node <= 2 + spares; ++node) {
      NodeReport report = TestReport("n" + std::to_string(node));
      report.store_port = 30'000 + node;
      Step(NodeRegistered{ConnectionId(node), report});
    }
    Pass(Duration::Seconds(2));
    ASSERT_EQ(Phase::kRunning, job_.state().phase);
  }
  void Step(const Event& event) {
    for (const Record& record : job_.Step(now_, event).records) records_.push_back(record);
  }
  void Pass(Duration time) {
    for (const Instant end = now_ + time; now_ < end;) {
      now_ += Duration::Milliseconds(100);
      ++step_;
      for (const auto& [id, node] : job_.state().nodes) {
        if (id != dead_) Report(id);
      }
    }
  }
  RankReport RankOf(NodeId id) const {
    RankReport rank;
    rank.generation = job_.state().world->generation;
    rank.rank = Rank(job_.state().SeatOf(*job_.state().Find(id)).first_rank);
    rank.pid = 100;
    rank.state = RankReport::State::kStepping;
    rank.step = rank.step_count = step_;
    rank.saved_step = saved_;
    return rank;
  }
  void Report(NodeId id) {
    NodeReported beat{.node = id,
                      .connection = ConnectionId(id.value()),
                      .generation = job_.state().generation,
                      .store_port = 30'000 + id.value()};
    if (job_.state().IsSeated(id)) beat.ranks = {RankOf(id)};
    Step(beat);
  }
  void Fail(uint32_t node) {
    RankReport rank = RankOf(NodeId(node));
    rank.state = RankReport::State::kExited;
    rank.exit.kind = ExitCause::Kind::kSignaled;
    rank.exit.code = 9;
    Step(RankExited{NodeId(node), ConnectionId(node), rank});
  }
  static DrillRequested Sigkill(const std::string& node, uint32_t rank) {
    return {.kind = "sigkill", .loss = DrillLoss::kRank, .node = node, .rank = Rank(rank)};
  }
  static DrillRequested NodeKill(const std::string& node) {
    return {.kind = "node_kill", .loss = DrillLoss::kNode, .node = node};
  }
  static DrillRequested AgentKill(const std::string& node) {
    return {.kind = "agent_kill", .loss = DrillLoss::kAgent, .node = node};
  }
  std::string WhyNot(const DrillRequested& drill) { return job_.OutlookOf(drill).refusal; }
  const Record* Last(std::string_view kind) const {
    const auto found = std::find_if(records_.rbegin(), records_.rend(), [&](const Record& record) {
      return FactName(record.fact) == kind;
    });
    return found == records_.rend() ? nullptr : &*found;
  }
  bool FollowsFrom(std::string_view kind, std::string_view cause) const {
    const Record* record = Last(kind);
    const Record* drill = Last(cause);
    if (record == nullptr || drill == nullptr) return false;
    return std::ranges::find(record->causes, drill->seq) != record->causes.end();
  }
  void IsFolded() const {
    Job again;
    for (const Record& record : records_) again.Restore(record);
    EXPECT_EQ(again.state(), job_.state());
  }

  Instant now_ = Instant() + Duration::Seconds(100);
  int64_t step_ = 0;
  int64_t saved_ = -1;
  NodeId dead_;
  Job job_;
  std::vector<Record> records_;
};

TEST_F(DrillTest, WithoutACheckpointNoRankIsStruck) {
  Begin(0);
  EXPECT_EQ("no checkpoint is known, so all steps would be done again", WhyNot(Sigkill("n2", 1)));
  Step(Sigkill("n2", 1));
  EXPECT_EQ(nullptr, Last("drill_struck"));
  saved_ = 20;
  Pass(Duration::Seconds(12));
  const DrillOutlook outlook = job_.OutlookOf(Sigkill("n2", 1));
  EXPECT_EQ("", outlook.refusal);
  EXPECT_EQ(
      "all 2 ranks start again and repeat about 12 s of work; how long a restart takes is not "
      "known, as there was none. It counts as one failure until the next new step",
      outlook.cost);
  Pass(kFreshFor);
  EXPECT_EQ(
      "the newest checkpoint that would be left is about 5 min 12 s old, and the limit is "
      "5 min",
      WhyNot(Sigkill("n2", 1)));
}

TEST_F(DrillTest, TheFailureOfAStruckRankFollowsFromTheDrill) {
  Begin(0);
  saved_ = 20;
  Pass(Duration::Seconds(1));
  Step(Sigkill("n2", 1));
  ASSERT_NE(nullptr, Last("drill_struck"));
  EXPECT_EQ("a drill (sigkill) strikes rank 1 on n2", Sentence(*Last("drill_struck")));
  EXPECT_EQ("the drill before it, event " + std::to_string(Last("drill_struck")->seq.value()) +
                ", is not over",
            WhyNot(Sigkill("n2", 1)));
  IsFolded();
  Fail(2);
  EXPECT_TRUE(FollowsFrom("rank_failed", "drill_struck"));
  EXPECT_FALSE(job_.state().drill.has_value());  // another world was formed
  IsFolded();
}

TEST_F(DrillTest, TheFailureOfAnotherRankDoesNot) {
  Begin(0);
  saved_ = 20;
  Pass(Duration::Seconds(1));
  Step(Sigkill("n2", 1));
  Fail(1);
  ASSERT_NE(nullptr, Last("rank_failed"));
  EXPECT_FALSE(FollowsFrom("rank_failed", "drill_struck"));
}

TEST_F(DrillTest, ANodeIsOnlyStruckWithASpare) {
  Begin(0);
  saved_ = 20;
  Pass(Duration::Seconds(1));
  EXPECT_EQ("no spare is there that could take the ranks of n2", WhyNot(NodeKill("n2")));
}

TEST_F(DrillTest, TheLossOfAStruckNodeFollowsFromTheDrill) {
  Begin(1);
  saved_ = 20;
  Pass(Duration::Seconds(1));
  EXPECT_EQ("n3 has no ranks of the present world", WhyNot(NodeKill("n3")));
  EXPECT_EQ("", WhyNot(NodeKill("n2")));
  Step(NodeKill("n2"));
  dead_ = NodeId(2);
  Step(NodeGone{.name = "n2", .evidence = "its agent was killed", .agent_pid = 1234});
  EXPECT_TRUE(FollowsFrom("node_lost", "drill_struck"));
  EXPECT_TRUE(job_.state().IsSeated(NodeId(3)));
  IsFolded();
}

TEST_F(DrillTest, AnAgentNeedsNeitherASpareNorACheckpoint) {
  Begin(0);
  EXPECT_EQ("", WhyNot(AgentKill("n2")));
  EXPECT_EQ("n9 has no ranks of the present world", WhyNot(AgentKill("n9")));
  Step(AgentKill("n2"));
  EXPECT_EQ("a drill (agent_kill) strikes the agent of n2", Sentence(*Last("drill_struck")));
  NodeReport report = TestReport("n2");
  report.agent_incarnation = 2;
  report.store_port = 30'002;
  report.generation = job_.state().generation;
  report.ranks = {RankOf(NodeId(2))};
  Step(NodeRegistered{ConnectionId(2), report});
  EXPECT_TRUE(FollowsFrom("agent_returned", "drill_struck"));
  EXPECT_FALSE(job_.state().drill.has_value());
  IsFolded();
}

TEST_F(DrillTest, ADrillWithoutConsequencesIsOverAfterSomeTime) {
  Begin(0);
  Step(AgentKill("n2"));
  EXPECT_NE("", WhyNot(AgentKill("n2")));
  Pass(kDrillTime);
  EXPECT_EQ("", WhyNot(AgentKill("n2")));
}

TEST_F(DrillTest, ARankThatWouldEndTheJobIsNotStruck) {
  JobSpec spec;
  spec.max_restarts = 0;
  Begin(0, spec);
  saved_ = 20;
  Pass(Duration::Seconds(1));
  EXPECT_EQ("--max-restarts 0 is used up, so the job would end", WhyNot(Sigkill("n2", 1)));
  EXPECT_EQ("rank 0 is not on n2", WhyNot(Sigkill("n2", 0)));
}

TEST_F(DrillTest, AHangIsNotMadeWhereHangsAreOnlyReported) {
  JobSpec spec;
  spec.only_tells_hangs = true;
  Begin(0, spec);
  saved_ = 20;
  Pass(Duration::Seconds(1));
  DrillRequested stop = Sigkill("n2", 1);
  stop.loss = DrillLoss::kStill;
  EXPECT_EQ("in this job hangs are only reported, so nothing would restart the rank", WhyNot(stop));
}

TEST_F(DrillTest, AJobThatDoesNotTrainIsNotStruck) {
  Begin(0);
  Step(StopRequested{.why = "a test"});
  EXPECT_EQ("the job does not train now", WhyNot(AgentKill("n2")));
}

}  // namespace
}  // namespace paceline::core

// A spare takes the ranks of the one slow node, right after a checkpoint.

#include "paceline/core/world/slow_node.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

// Two seated nodes and a spare, one rank each, that make a step each 100 ms and save each tenth.
class SlowNodeTest : public ::testing::Test {
 protected:
  void Begin(SlowAct act, uint32_t spares = 1) {
    JobSpec spec;
    spec.job_id = "slow";
    spec.nodes_min = spec.nodes_max = 2;
    spec.spares = spares;
    spec.slow_act = act;
    Step(JobSubmitted{spec});
    Step(MasterStarted{1});
    for (uint32_t node = 1; node <= 2 + spares; ++node) {
      NodeReport report = TestReport("n" + std::to_string(node));
      report.store_port = 30'000 + node;
      if (is_checked_) report.check.state = NodeCheck::State::kPassed;
      Step(NodeRegistered{ConnectionId(node), report});
    }
    Pass(Duration::Seconds(2));
    ASSERT_EQ((Names{"n1", "n2"}), Seated());
    ASSERT_EQ(Phase::kRunning, job_.state().phase);
  }
  using Names = std::vector<std::string>;

  void Step(const Event& event) {
    for (const Record& record : job_.Step(now_, event).records) records_.push_back(record);
  }
  void Pass(Duration time) {
    for (const Instant end = now_ + time; now_ < end;) {
      now_ += Duration::Milliseconds(100);
      ++step_;
      for (uint32_t node = 1; node <= 3; ++node) Report(node);
    }
  }
  void Report(uint32_t node) {
    if (job_.state().Find(NodeId(node)) == nullptr) return;
    NodeReported beat{.node = NodeId(node),
                      .connection = ConnectionId(node),
                      .generation = job_.state().generation,
                      .store_port = 30'000 + node};
    const NodeState& state = *job_.state().Find(NodeId(node));
    if (job_.state().IsSeated(state.id)) {
      RankReport rank;
      rank.generation = job_.state().world->generation;
      rank.rank = Rank(job_.state().SeatOf(state).first_rank);
      rank.pid = 100;
      rank.state = RankReport::State::kStepping;
      rank.step = step_;
      rank.step_count = step_;
      rank.steps_total = steps_total_;
      rank.saved_step = saves_ ? step_ / 10 * 10 : 0;
      beat.ranks = {rank};
    }
    Step(beat);
  }
  void Slow(const Names& nodes) {
    PaceJudged judged{job_.state().generation, {}};
    for (const std::string& name : nodes) {
      const NodeState& node = *job_.state().Find(name);
      judged.findings.push_back({.ranks = {Rank(job_.state().SeatOf(node).first_rank)},
                                 .node = name,
                                 .excess = 1,
                                 .cost = 0.5});
    }
    Step(judged);
  }
  Names Seated() const {
    Names names;
    if (!job_.state().world.has_value()) return names;
    for (const Seat& seat : job_.state().world->seats)
      names.push_back(job_.state().NameOf(seat.node));
    return names;
  }

  Instant now_ = Instant() + Duration::Seconds(100);
  int64_t step_ = 0;
  int64_t steps_total_ = 1'000'000;
  bool saves_ = true;
  bool is_checked_ = false;  // each host has passed its checks
  Job job_;
  std::vector<Record> records_;
};

TEST_F(SlowNodeTest, ASpareTakesItsRanksOnceItIsSlowForLong) {
  Begin(SlowAct::kReplace);
  Slow({"n2"});
  Pass(Duration::Seconds(49));
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
  Pass(Duration::Seconds(5));
  EXPECT_EQ((Names{"n1", "n3"}), Seated());
  EXPECT_EQ(NodeState::Status::kSpare, job_.state().Find("n2")->status);
  EXPECT_EQ(0u, job_.state().budget.charged_failures);
  Job again;
  for (const Record& record : records_) again.Restore(record);
  EXPECT_EQ(again.state(), job_.state());
}

TEST_F(SlowNodeTest, AHostWhoseRanksWereMovedIsCheckedBeforeItIsASpare) {
  is_checked_ = true;
  Begin(SlowAct::kReplace);
  Slow({"n2"});
  Pass(Duration::Seconds(54));
  EXPECT_EQ((Names{"n1", "n3"}), Seated());
  const auto ordered = std::ranges::find_if(
      records_, [](const Record& record) { return FactName(record.fact) == "node_check_ordered"; });
  ASSERT_NE(ordered, records_.end());
  EXPECT_EQ("n2 is checked once more: a spare has taken its ranks, as it was slow",
            Sentence(*ordered));
  EXPECT_EQ(1u, DesiredAssignment(job_.state(), NodeId(2)).check_round);
  EXPECT_FALSE(job_.state().moved_node.has_value());
  // The other spare is lost: n2 is not a candidate until its checks are over.
  Step(NodeGone{.name = "n3", .evidence = "was killed", .agent_pid = 1234});
  EXPECT_EQ(Names{}, Seated());
  Step(NodeCheckEnded{
      NodeId(2),
      ConnectionId(2),
      {.state = NodeCheck::State::kPassed, .reason = "", .numbers = "", .round = 1}});
  for (uint32_t tick = 0; tick < 100 && Seated().empty(); ++tick) Pass(Duration::Milliseconds(100));
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
  Job again;
  for (const Record& record : records_) again.Restore(record);
  EXPECT_EQ(again.state(), job_.state());
}

TEST_F(SlowNodeTest, AHostWhoseRanksWereMovedAndThatFailsItsChecksIsTakenOut) {
  is_checked_ = true;
  Begin(SlowAct::kReplace);
  Slow({"n2"});
  Pass(Duration::Seconds(54));
  Step(NodeCheckEnded{NodeId(2),
                      ConnectionId(2),
                      {.state = NodeCheck::State::kFailed, .reason = "fan", .round = 1}});
  EXPECT_EQ(NodeState::Status::kEvicted, job_.state().Find("n2")->status);
  EXPECT_EQ((Names{"n1", "n3"}), Seated());
}

TEST_F(SlowNodeTest, ToldOnlyNothingHappens) {
  Begin(SlowAct::kTell);
  Slow({"n2"});
  Pass(Duration::Seconds(120));
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
}

TEST_F(SlowNodeTest, TwoSlowNodesKeepTheirRanks) {
  Begin(SlowAct::kReplace);
  Slow({"n1", "n2"});
  Pass(Duration::Seconds(120));
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
}

TEST_F(SlowNodeTest, SlowForAShortTimeIsNothing) {
  Begin(SlowAct::kReplace);
  Slow({"n2"});
  Pass(Duration::Seconds(45));
  Slow({});
  Pass(Duration::Seconds(60));
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
}

TEST_F(SlowNodeTest, WithoutASpareOrASaveItStays) {
  Begin(SlowAct::kReplace, 0);
  Slow({"n2"});
  Pass(Duration::Seconds(120));
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
}

TEST_F(SlowNodeTest, NoStepIsDoneTwice) {
  saves_ = false;
  Begin(SlowAct::kReplace);
  Slow({"n2"});
  Pass(Duration::Seconds(120));
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
  saves_ = true;
  Pass(Duration::Seconds(12));
  EXPECT_EQ((Names{"n1", "n3"}), Seated());
}

TEST_F(SlowNodeTest, NearTheEndASwitchCostsMore) {
  Begin(SlowAct::kReplace);
  steps_total_ = step_ + 510;  // 1 s after it was slow for long; the switch is taken for 1 s
  Slow({"n2"});
  Pass(Duration::Seconds(52));
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
}

TEST_F(SlowNodeTest, AHostThatWasMovedTakesNoRanksOfASlowOneForAnHour) {
  Begin(SlowAct::kReplace);
  Slow({"n2"});
  Pass(Duration::Seconds(60));
  ASSERT_EQ((Names{"n1", "n3"}), Seated());
  Slow({"n3"});  // the only spare is the slow n2
  Pass(Duration::Seconds(200));
  EXPECT_EQ((Names{"n1", "n3"}), Seated());
  Pass(kMovedOnce);
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
}

}  // namespace
}  // namespace paceline::core

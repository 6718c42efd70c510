// A node that is declared lost while its connection lives, and that reports again.

#include <string>

#include "gtest/gtest.h"
#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

using Status = NodeState::Status;

// A world of the first node; the second is a spare until the first is lost.
class LostNodeTest : public ::testing::Test {
 protected:
  LostNodeTest() {
    JobSpec spec;
    spec.job_id = "lost";
    spec.nproc_per_node = 1;
    spec.nodes_min = 1;
    spec.nodes_max = 1;
    job_.Step(now_, JobSubmitted{spec});
    job_.Step(now_, MasterStarted{1});
    for (uint32_t i = 1; i <= 2; ++i) {
      job_.Step(now_, NodeRegistered{ConnectionId(i), TestReport("n" + std::to_string(i))});
    }
    for (int i = 0; i < 1'000 && !job_.state().world.has_value(); ++i) {
      Report(1);
      Report(2);
      Pass();
    }
    generation_ = job_.state().world->generation;
    first_ = job_.state().world->seats.front().node.value();
    spare_ = 3 - first_;
    Tell(RankReport::State::kStepping);
    EXPECT_EQ(job_.state().phase, Phase::kRunning);
  }

  void Pass() {
    now_ += Duration::Milliseconds(100);
    job_.Step(now_, TimePassed{});
  }

  // The generation of the order that it has completed.
  Generation OrderOf(uint32_t node) const {
    const JobState& state = job_.state();
    return state.IsSeated(NodeId(node)) ? state.world->generation : state.generation;
  }

  void Report(uint32_t node) {
    job_.Step(now_, NodeReported{.node = NodeId(node),
                                 .connection = ConnectionId(node),
                                 .generation = OrderOf(node),
                                 .store_port = 30'000 + node});
  }

  RankReport RankOfFirst(RankReport::State state) const {
    RankReport rank{.generation = generation_, .rank = Rank(0), .local_rank = 0, .pid = 9};
    rank.state = state;
    return rank;
  }

  void Tell(RankReport::State state) {
    NodeReported report{.node = NodeId(first_), .connection = ConnectionId(first_)};
    report.generation = OrderOf(first_);
    report.ranks = {RankOfFirst(state)};
    job_.Step(now_, report);
    Pass();
  }

  void Lose(uint32_t node) {
    for (int i = 0; i < 10'000 && StatusOf(node) != Status::kLost; ++i) {
      Report(3 - node);
      Pass();
    }
    ASSERT_EQ(StatusOf(node), Status::kLost);
  }

  Status StatusOf(uint32_t node) const { return job_.state().Find(NodeId(node))->status; }

  Job job_;
  Instant now_ = Instant::FromNanoseconds(1'000'000'000);
  Generation generation_;  // of the first world
  uint32_t first_ = 0;
  uint32_t spare_ = 0;
};

TEST_F(LostNodeTest, ABeatOfANodeThatHasNothingToTellBringsItBack) {
  Report(spare_);
  Lose(spare_);
  job_.Step(now_, NodesHeard{{NodeId(spare_)}});
  EXPECT_EQ(StatusOf(spare_), Status::kSpare);
}

TEST_F(LostNodeTest, TheEndOfItsLastRankBringsItBack) {
  Lose(first_);
  Tell(RankReport::State::kStepping);  // it has the order to stop and begins to stop
  EXPECT_EQ(StatusOf(first_), Status::kLost) << "its rank may do harm";
  job_.Step(now_, NodesHeard{{NodeId(first_)}});
  EXPECT_EQ(StatusOf(first_), Status::kLost);
  RankExited exited{.node = NodeId(first_), .connection = ConnectionId(first_)};
  exited.rank = RankOfFirst(RankReport::State::kExited);
  exited.rank.exit = {.kind = ExitCause::Kind::kSignaled, .code = 9, .asked = true};
  job_.Step(now_, exited);
  EXPECT_EQ(StatusOf(first_), Status::kSpare);
}

// Networks deliver messages late and twice.
TEST_F(LostNodeTest, AWordThatWasOvertakenBringsNoRankToLife) {
  Lose(first_);
  Tell(RankReport::State::kExited);
  ASSERT_EQ(StatusOf(first_), Status::kSpare);
  Lose(first_);
  Tell(RankReport::State::kStepping);
  EXPECT_EQ(StatusOf(first_), Status::kSpare);
}

// While the disk is full a new node gets no answer, so it sends nothing more.
TEST_F(LostNodeTest, WhileTheJournalStandsStillNobodyIsJudged) {
  job_.Step(now_, JournalStalled{});
  for (int i = 0; i < 600; ++i) Pass();
  EXPECT_EQ(StatusOf(first_), Status::kSeated);
  EXPECT_EQ(StatusOf(spare_), Status::kSpare);
  EXPECT_GT(job_.NextDeadline(), now_);
  job_.Step(now_, JournalCaughtUp{});
  Pass();
  EXPECT_EQ(StatusOf(first_), Status::kSeated) << "it has its time from here";
  Lose(first_);
}

// The spare has a seat, but its order waits for a full disk.
TEST_F(LostNodeTest, AnOrderThatWaitedForTheJournalIsNotLate) {
  for (int i = 0; i < 10'000 && StatusOf(first_) != Status::kLost; ++i) {
    job_.Step(now_, NodesHeard{{NodeId(spare_)}});
    Pass();
  }
  const auto pass = [&](Duration time) {
    for (const Instant end = now_ + time; now_ < end;) {
      job_.Step(now_, NodesHeard{{NodeId(spare_)}});
      Pass();
    }
  };
  const Duration limit = job_.state().spec.timers.start_timeout;
  ASSERT_EQ(StatusOf(spare_), Status::kSeated);
  pass(limit - Duration::Seconds(1));
  job_.Step(now_, JournalCaughtUp{});
  pass(limit - Duration::Seconds(1));
  EXPECT_EQ(StatusOf(spare_), Status::kSeated);
  pass(Duration::Seconds(2));
  EXPECT_NE(StatusOf(spare_), Status::kSeated) << "it does not carry it out";
}

}  // namespace
}  // namespace paceline::core

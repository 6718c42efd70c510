// Folding accepts records that decode but that we cannot have written, as in a damaged journal. The
// job can continue from the resulting state.

#include "paceline/core/job_state.h"

#include "gtest/gtest.h"
#include "paceline/core/job.h"

namespace paceline::core {
namespace {

class DamagedJournal : public ::testing::Test {
 protected:
  void Restore(Fact fact) {
    Record record;
    record.seq = job_.state().last_seq.next();
    record.at = Instant() + Duration::Seconds(1);
    record.fact = std::move(fact);
    job_.Restore(record);
  }

  void GoOn() {
    Instant now = job_.state().last_record_at;
    job_.Step(now, MasterStarted{1});
    for (int i = 0; i < 900; ++i) {
      now += Duration::Milliseconds(100);  // longer steps count as a stall of the master
      job_.Step(now, TimePassed{});
      ASSERT_FALSE(job_.Pending().empty());
    }
  }

  Job job_;
};

TEST_F(DamagedJournal, AWorldThatRunsWithoutBeingFormedIsNone) {
  Restore(JobCreated{});
  Restore(WorldRunning{.generation = Generation(3), .step = 1});
  EXPECT_EQ(job_.state().phase, Phase::kWaiting);
  GoOn();
}

TEST_F(DamagedJournal, SeatsOfNodesThatNeverJoinedAreLostLikeAnyOther) {
  Restore(JobCreated{});
  World world;
  world.generation = Generation(1);
  world.seats = {{.node = NodeId(900), .first_rank = 0, .rank_count = 1}};
  Restore(WorldFormed{.world = world});
  ASSERT_NE(job_.state().Find(NodeId(900)), nullptr);
  EXPECT_EQ(job_.state().Find(NodeId(900))->id, NodeId(900));
  GoOn();
  EXPECT_EQ(job_.state().nodes.size(), 1u);
  EXPECT_EQ(job_.state().Find(NodeId(900))->status, NodeState::Status::kLost);
}

TEST_F(DamagedJournal, NodesThatAreLostBeforeTheyJoinKeepTheirNumber) {
  Restore(NodeLost{.node = NodeId(7), .name = "n7"});
  Restore(NodeEvicted{.node = NodeId(8), .name = "n8"});
  EXPECT_EQ(job_.state().Find(NodeId(7))->id, NodeId(7));
  EXPECT_EQ(job_.state().Find(NodeId(8))->id, NodeId(8));
  GoOn();
}

}  // namespace
}  // namespace paceline::core

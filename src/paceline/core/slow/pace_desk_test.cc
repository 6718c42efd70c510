#include "paceline/core/slow/pace_desk.h"

#include <gtest/gtest.h>

#include "paceline/core/testing/two_nodes_fixture.h"

namespace paceline::core {
namespace {

class PaceDeskTest : public TwoNodesTest {
 protected:
  void Form(uint64_t generation) {
    TwoNodesTest::Form(generation);
    blocks_ = 0;
  }
  // Every rank has done a block of steps more; rank 3 works longer by `factor`. The answer to the
  // last sample.
  std::optional<PaceJudged> Tell(int factor) {
    ++blocks_;
    std::optional<PaceJudged> last;
    for (const uint32_t id : {1U, 2U}) {
      std::vector<RankSample> samples;
      for (uint32_t rank = 0; rank < 4; ++rank) {  // also of ranks that it has not
        const int own = rank == 3 ? factor : 1;
        const int steps = blocks_ * 7;
        samples.push_back({state_.world->generation,
                           Rank(rank),
                           {.steps = static_cast<uint64_t>(steps),
                            .whole = Duration::Milliseconds(100) * factor * steps,
                            .own = Duration::Milliseconds(100) * own * steps,
                            .waited = Duration::Milliseconds(100) * (factor - own) * steps}});
      }
      last = desk_.Take(state_, NodeId(id), samples);
      EXPECT_TRUE(id == 2 || !last.has_value());
    }
    return last;
  }

  PaceDesk desk_;
  int blocks_ = 0;
};

TEST_F(PaceDeskTest, TellsWhatChanges) {
  EXPECT_FALSE(Tell(2).has_value());
  EXPECT_FALSE(Tell(2).has_value());
  const auto judged = Tell(2);
  ASSERT_TRUE(judged.has_value());
  ASSERT_EQ(1u, judged->findings.size());
  EXPECT_EQ(std::vector<Rank>{Rank(3)}, judged->findings.front().ranks);
  EXPECT_EQ("n2", judged->findings.front().node);
  state_.slow = judged->findings;
  EXPECT_FALSE(Tell(2).has_value());
}

TEST_F(PaceDeskTest, ANewMasterContradictsTheJournalOnlyOnceItHasJudged) {
  state_.slow = {SlowFinding{.ranks = {Rank(0)}}};
  EXPECT_FALSE(Tell(1).has_value());
  EXPECT_FALSE(Tell(1).has_value());
  const auto judged = Tell(1);
  ASSERT_TRUE(judged.has_value());
  EXPECT_TRUE(judged->findings.empty());
}

TEST_F(PaceDeskTest, AnotherWorldBeginsAnew) {
  Tell(2);
  Tell(2);
  Form(2);
  EXPECT_FALSE(Tell(2).has_value());
  EXPECT_FALSE(Tell(2).has_value());
  EXPECT_TRUE(Tell(2).has_value());
}

}  // namespace
}  // namespace paceline::core

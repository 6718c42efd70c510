// A node whose ranks use more and more memory: when the desk says so, and when it does not.

#include "paceline/core/scale/memory_desk.h"

#include <gtest/gtest.h>

#include "paceline/core/memory_told.h"
#include "paceline/model/memory_unit.h"

namespace paceline::core {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

// One node trains. Each second it tells what it uses.
class MemoryDeskTest : public ::testing::Test {
 protected:
  MemoryDeskTest() {
    JobSpec spec;
    spec.memory_node = 8 * kGiB;
    spec.memory_most = 16 * kGiB;
    Fold(JobCreated{spec});
    Fold(NodeJoined{.node = NodeId(1), .name = "n1", .slots = 1});
    Form();
  }
  void Fold(Fact fact) {
    Apply({.seq = RecordSeq(++seq_), .at = now_, .fact = std::move(fact)}, &state_);
  }
  void Form() {
    WorldFormed formed;
    formed.world.generation = Generation(++generation_);
    formed.world.seats = {{NodeId(1), 0, 1}};
    Fold(formed);
    Fold(WorldRunning{.generation = Generation(generation_)});
  }
  // A second passes, and the node uses so many bytes.
  std::optional<MemoryForeseen> Tell(uint64_t used) {
    now_ = now_ + Duration::Seconds(1);
    const MemoryDesk::Facts facts{.now = now_, .outlook = [this] { return outlook_; }};
    return desk_.Take(state_, facts, NodeId(1), {used, limit_, bound_});
  }
  // The use grows from `used` by `step` each second, for so many seconds or until something is due.
  std::optional<MemoryForeseen> Grow(uint64_t used, uint64_t step, int seconds) {
    std::optional<MemoryForeseen> due;
    for (used_ = used; seconds > 0 && !due.has_value(); --seconds) due = Tell(used_ += step);
    return due;
  }
  void Record(const MemoryForeseen& due) {
    Fold(MemoryShort{.node = due.node,
                     .name = "n1",
                     .generation = due.generation,
                     .memory = due.memory,
                     .next_limit = due.next_limit,
                     .left = due.left,
                     .grows = due.grows,
                     .reason = "is short"});
  }

  uint64_t limit_ = 8 * kGiB;
  MemoryBound bound_ = MemoryBound::kNode;
  std::optional<Duration> outlook_;
  uint64_t used_ = 0;
  Instant now_ = Instant() + Duration::Seconds(100);
  JobState state_;
  uint64_t seq_ = 0;
  uint64_t generation_ = 0;
  MemoryDesk desk_;
};

TEST_F(MemoryDeskTest, ALeakOfOnePercentASecondIsMetBeforeTheLimit) {
  const auto due = Grow(5 * kGiB, 82 * kMiB, 60);
  ASSERT_TRUE(due.has_value());
  EXPECT_LT(used_, limit_);
  EXPECT_GT(due->left, Duration::Seconds(10));
  EXPECT_NEAR(due->grows, 82.0 * kMiB, kMiB);
  EXPECT_GT(due->next_limit, limit_);
  EXPECT_LE(due->next_limit, 16 * kGiB);
  EXPECT_EQ(due->next_limit % kMemoryUnit, 0U) << "the kernel has whole pages";
}

TEST_F(MemoryDeskTest, EachRaiseIsOfWholeUnits) {
  const auto due = Grow(7 * kGiB, 20 * kMiB + 12'345, 60);
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->next_limit % kMemoryUnit, 0U);
}

TEST_F(MemoryDeskTest, ARaisedLimitIsNotAskedForTwice) {
  const auto due = Grow(7 * kGiB, 20 * kMiB, 60);
  ASSERT_TRUE(due.has_value());
  Record(*due);
  EXPECT_FALSE(Grow(used_, 20 * kMiB, 5).has_value()) << "the order is on its way";
  limit_ = due->next_limit;
  const auto again = Grow(used_, 20 * kMiB, 300);
  ASSERT_TRUE(again.has_value());
  EXPECT_LT(used_, limit_);
  EXPECT_GT(again->next_limit, due->next_limit);
}

TEST_F(MemoryDeskTest, AtMostItTellsOnceAndRaisesNothing) {
  limit_ = 16 * kGiB;
  const auto due = Grow(12 * kGiB, 100 * kMiB, 60);
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->next_limit, 0U);
  Record(*due);
  EXPECT_FALSE(Grow(used_, 100 * kMiB, 20).has_value());
  EXPECT_TRUE(HurriesForMemory(state_));
  Fold(CheckpointCommitted{.name = "step-5", .directory = "/d", .saved = {1, 5}});
  EXPECT_FALSE(HurriesForMemory(state_));
  Form();
  EXPECT_TRUE(Grow(12 * kGiB, 100 * kMiB, 60).has_value()) << "another world, another leak";
}

TEST_F(MemoryDeskTest, ALimitThatIsNotOursIsOnlyTold) {
  for (const MemoryBound bound : {MemoryBound::kGroup, MemoryBound::kHost, MemoryBound::kTold}) {
    Form();
    bound_ = bound;
    const auto due = Grow(5 * kGiB, 82 * kMiB, 60);
    ASSERT_TRUE(due.has_value());
    EXPECT_EQ(due->next_limit, 0U);
  }
}

TEST_F(MemoryDeskTest, NothingIsDueForAStepANoiseOrASlowLeak) {
  EXPECT_FALSE(Grow(4 * kGiB, 0, 30).has_value());
  EXPECT_FALSE(Grow(7 * kGiB, 0, 30).has_value()) << "an arena";
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(Tell(7 * kGiB + (i * 37 % 11) * 20 * kMiB).has_value());
  EXPECT_FALSE(Grow(2 * kGiB, 1 * kMiB, 100).has_value()) << "hours are left";
}

TEST_F(MemoryDeskTest, ASlowLeakIsSeenOnTheLongScale) {
  // 0.6 MiB a second, and saves that are ten minutes apart.
  Fold(CheckpointCommitted{.name = "a", .directory = "/d", .saved = {1, 5}});
  Tell(7 * kGiB);
  now_ = now_ + Duration::Seconds(600);
  Fold(CheckpointCommitted{.name = "b", .directory = "/d", .saved = {1, 9}});
  std::optional<MemoryForeseen> due;
  uint64_t used = 7 * kGiB;
  while (!due.has_value() && used < limit_) due = Tell(used += 600 << 10);
  ASSERT_TRUE(due.has_value());
  EXPECT_GT(due->left, Duration::Seconds(300));
}

TEST_F(MemoryDeskTest, AJobThatEndsBeforeIsLeftAlone) {
  outlook_ = Duration::Seconds(5);
  EXPECT_FALSE(Grow(5 * kGiB, 20 * kMiB, 100).has_value());
}

TEST_F(MemoryDeskTest, TheFirstStepsDoNotCount) {
  Form();
  EXPECT_FALSE(Grow(1 * kGiB, 1 * kGiB, 4).has_value());
  EXPECT_FALSE(Grow(5 * kGiB, 0, 60).has_value());
}

}  // namespace
}  // namespace paceline::core

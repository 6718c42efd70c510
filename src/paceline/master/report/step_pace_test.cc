#include "paceline/master/report/step_pace.h"

#include "gtest/gtest.h"

namespace paceline::master {
namespace {

Instant After(double seconds) {
  return Instant::FromNanoseconds(1'000'000'000'000 + static_cast<int64_t>(seconds * 1e9));
}

StepPace::Progress Made(uint64_t world, int64_t steps) {
  return {.generation = Generation(world), .step_count = steps};
}

TEST(StepPace, NothingIsKnownBeforeTheFirstSteps) {
  StepPace pace;
  pace.Note(After(0), Made(1, 0));
  EXPECT_EQ(0, pace.PerSecond());
  EXPECT_EQ(std::nullopt, pace.SinceLast(After(5)));
  pace.Note(After(6), Made(1, 3));
  EXPECT_EQ(0, pace.PerSecond());
  EXPECT_EQ(Duration::Seconds(2), pace.SinceLast(After(8)));
}

TEST(StepPace, StepsOfTheLastMinuteCount) {
  StepPace pace;
  for (int i = 1; i <= 600; ++i) pace.Note(After(i * 0.5), Made(1, i));
  EXPECT_NEAR(2, pace.PerSecond(), 1e-9);
  for (int i = 1; i <= 700; ++i) pace.Note(After(300 + i * 0.1), Made(1, 600 + i));
  EXPECT_NEAR(10, pace.PerSecond(), 0.01);
  EXPECT_EQ(Duration::Seconds(7), pace.SinceLast(After(377)));
}

TEST(StepPace, AWorldThatStandsStillHasNoPace) {
  StepPace pace;
  for (int i = 1; i <= 600; ++i) pace.Note(After(i * 0.1), Made(1, i));
  EXPECT_NEAR(10, pace.PerSecond(After(63)), 0.01);
  EXPECT_FALSE(pace.IsStill(After(63)));
  EXPECT_TRUE(pace.IsStill(After(63.1)));
  EXPECT_EQ(0, pace.PerSecond(After(63.1)));
  pace.Note(After(70), Made(1, 601));
  EXPECT_FALSE(pace.IsStill(After(71)));
}

TEST(StepPace, SlowStepsAreGivenFiveTimesTheirTime) {
  StepPace pace;
  for (int i = 1; i <= 10; ++i) pace.Note(After(i * 4), Made(1, i));
  EXPECT_FALSE(pace.IsStill(After(59)));
  EXPECT_TRUE(pace.IsStill(After(61)));
}

TEST(StepPace, StepsThatTakeMinutesHaveAPaceToo) {
  StepPace pace;
  for (int i = 1; i <= 3; ++i) pace.Note(After(i * 300), Made(1, i));
  EXPECT_NEAR(1.0 / 300, pace.PerSecond(), 1e-9);
}

// It reports every tenth step.
TEST(StepPace, StepsThatTheScriptNumbersCountAsItNumbersThem) {
  StepPace pace;
  pace.Note(After(1), Made(1, 1));
  for (int i = 2; i <= 20; ++i) {
    pace.Note(After(i), {.generation = Generation(1), .step = 500 + i * 10, .step_count = i});
  }
  EXPECT_NEAR(10, pace.PerSecond(), 1e-9);
}

TEST(StepPace, AnotherWorldBeginsAnew) {
  StepPace pace;
  for (int i = 1; i <= 20; ++i) pace.Note(After(i), Made(1, i));
  pace.Note(After(30), Made(2, 0));
  EXPECT_EQ(0, pace.PerSecond());
  EXPECT_EQ(std::nullopt, pace.SinceLast(After(31)));
}

}  // namespace
}  // namespace paceline::master

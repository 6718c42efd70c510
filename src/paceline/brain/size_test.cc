// Choices of a size: the right one of all, and none that is not worth its cost.

#include "paceline/brain/size.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/base/prng.h"

namespace paceline::brain {
namespace {

Throughput Measured(const StepCurve& truth, const std::vector<uint32_t>& sizes) {
  std::vector<SizeSample> samples;
  for (const uint32_t nodes : sizes) {
    samples.push_back({.nodes = nodes, .step_seconds = truth.At(nodes), .error = 0});
  }
  return *Throughput::Fit(samples, truth);
}

SizeQuestion Question(uint32_t now, uint32_t max = 6) {
  return {.sizes = SizesBetween(1, max, 1),
          .now = now,
          .efficiency_least = 0.6,
          .outlook = Duration::Seconds(3600),
          .change_cost = Duration::Seconds(10)};
}

constexpr StepCurve kSteep{.constant = 0.01, .work = 1, .exchange = 0};  // more is better
constexpr StepCurve kBent{.constant = 0.05, .work = 0.5, .exchange = 0.02};
constexpr StepCurve kFlat{.constant = 1, .work = 0.05, .exchange = 0};  // more is nothing

TEST(SizeTest, AJobThatScalesTakesAllAndOneThatDoesNotTakesOne) {
  const SizeChoice most = ChooseSize(Measured(kSteep, {1, 2, 6}), Question(2));
  EXPECT_EQ(most.nodes, 6U);
  EXPECT_EQ(most.reason, "6 nodes, the most that the job can have: each is worth it");
  const SizeChoice least = ChooseSize(Measured(kFlat, {2, 4, 6}), Question(6));
  EXPECT_EQ(least.nodes, 1U);
  EXPECT_NEAR(least.step_seconds, kFlat.At(1), 0.02);
}

TEST(SizeTest, AReasonSaysWhatIsPredicted) {
  const SizeChoice most = ChooseSize(Measured(kSteep, {6}), Question(6));
  EXPECT_EQ(most.reason,
            "6 nodes, the most that the job can have; no smaller size was measured, and by "
            "prediction each node is worth it");
  const SizeChoice least = ChooseSize(Measured(kFlat, {1, 3}), Question(1));
  EXPECT_NE(least.reason.find(" (predicted: 2 nodes were not measured)"), std::string::npos)
      << least.reason;
}

TEST(SizeTest, TheReasonNamesWhatTheNextNodeWouldAdd) {
  const SizeChoice choice = ChooseSize(Measured(kBent, {1, 2, 3, 4, 6}), Question(2));
  EXPECT_EQ(choice.nodes, 2U);
  EXPECT_EQ(choice.best, 2U);
  EXPECT_FALSE(choice.explores);
  EXPECT_EQ(choice.reason,
            "2 nodes: with 3 the job would be 25 % faster, and each added node would bring 0.42 of "
            "the first node's speed, which is below efficiency_least 0.60");
}

// Every size, compared with the one before it by the curve itself.
TEST(SizeTest, TheBestSizeIsThatOfTheObviousSearch) {
  Prng prng(3);
  for (int draw = 0; draw < 300; ++draw) {
    const StepCurve truth{.constant = static_cast<double>(prng.Between(0, 30)) / 100,
                          .work = static_cast<double>(prng.Between(10, 400)) / 100,
                          .exchange = static_cast<double>(prng.Between(0, 20)) / 1000};
    SizeQuestion question = Question(1, 16);
    question.outlook = Duration::Infinite();
    const Throughput speed = Measured(truth, question.sizes);
    uint32_t best = 1;
    while (best < 16) {
      const double before = 1 / speed.curve().At(best);
      const double after = 1 / speed.curve().At(best + 1);
      if ((after - before) * speed.curve().At(1) < 0.6) break;
      ++best;
    }
    EXPECT_EQ(ChooseSize(speed, question).best, best) << draw;
  }
}

TEST(SizeTest, NothingChangesForAJobThatIsAboutToEnd) {
  SizeQuestion question = Question(1);
  question.outlook = Duration::Seconds(30);
  const SizeChoice choice = ChooseSize(Measured(kSteep, {1, 2, 6}), question);
  EXPECT_EQ(choice.nodes, 1U);
  EXPECT_EQ(choice.best, 6U);
  EXPECT_EQ(choice.reason,
            "6 nodes would be better than 1, but a change would cost 10.00 s and gain less than "
            "three times as much");
  question.outlook = Duration::Seconds(60);
  EXPECT_EQ(ChooseSize(Measured(kSteep, {1, 2, 6}), question).nodes, 6U);
}

TEST(SizeTest, ASizeIsTriedOnlyWhereTheMeasurementsLeaveItOpenAndOnlyOnce) {
  // One size was measured. The curve is a guess, and the job has what is best by it.
  const auto guess = Throughput::Fit({{.nodes = 4, .step_seconds = 1}});
  ASSERT_TRUE(guess.has_value());
  SizeQuestion question = Question(4, 64);
  const SizeChoice first = ChooseSize(*guess, question);
  ASSERT_NE(first.nodes, 4U);
  // Then it is followed to its end: each choice is measured, exactly.
  const StepCurve truth{.constant = 0.02, .work = 4 * 0.9, .exchange = 0.004};
  std::vector<SizeSample> samples = {{.nodes = 4, .step_seconds = truth.At(4)}};
  std::vector<uint32_t> seen = {4};
  while (true) {
    question.now = seen.back();
    const SizeChoice choice = ChooseSize(*Throughput::Fit(samples), question);
    if (choice.nodes == question.now) break;
    const bool is_new = std::find(seen.begin(), seen.end(), choice.nodes) == seen.end();
    EXPECT_TRUE(is_new || !choice.explores);
    seen.push_back(choice.nodes);
    samples.push_back({.nodes = choice.nodes, .step_seconds = truth.At(choice.nodes)});
    ASSERT_LE(seen.size(), 6U);
  }
  const uint32_t best = ChooseSize(Measured(truth, {1, 2, 4, 8, 16, 32}), question).best;
  EXPECT_NEAR(truth.At(seen.back()) / truth.At(best), 1, 0.05);
}

TEST(SizeTest, OnlyAllowedSizesAreChosen) {
  EXPECT_EQ(SizesBetween(1, 6, 1), (std::vector<uint32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(SizesBetween(3, 9, 2), (std::vector<uint32_t>{4, 6, 8}));
  EXPECT_EQ(SizesBetween(0, 2, 0), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(SizesBetween(4294967295, 4294967295, 1), (std::vector<uint32_t>{4294967295}));
  SizeQuestion question = Question(4, 9);
  question.sizes = SizesBetween(4, 9, 2);
  EXPECT_EQ(ChooseSize(Measured(kSteep, {4, 6, 8}), question).nodes, 8U);
}

}  // namespace
}  // namespace paceline::brain

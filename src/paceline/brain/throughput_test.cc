// Curves of step times: exact where they must be, near where they can be, honest about the rest.

#include "paceline/brain/throughput.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/base/prng.h"

namespace paceline::brain {
namespace {

double Uniform(Prng& prng, double low, double high) {
  const double part = static_cast<double>(prng.Next() >> 11) / static_cast<double>(1ULL << 53);
  return low + (high - low) * part;
}

// Box and Muller.
double Normal(Prng& prng) {
  const double radius = std::sqrt(-2 * std::log(Uniform(prng, 1e-12, 1)));
  return radius * std::cos(Uniform(prng, 0, 2 * 3.14159265358979));
}

SizeSample Exact(const StepCurve& curve, uint32_t nodes) {
  return {.nodes = nodes, .step_seconds = curve.At(nodes), .error = 0};
}

TEST(ThroughputTest, ThreeSizesShowTheWholeCurve) {
  const StepCurve truth{.constant = 0.1, .work = 2.0, .exchange = 0.01};
  const auto speed = Throughput::Fit({Exact(truth, 1), Exact(truth, 4), Exact(truth, 16)});
  ASSERT_TRUE(speed.has_value());
  for (const uint32_t nodes : {1U, 2U, 3U, 8U, 12U, 16U, 24U}) {
    EXPECT_NEAR(speed->Predict(nodes).seconds / truth.At(nodes), 1, 0.03) << nodes;
  }
}

TEST(ThroughputTest, NothingIsKnownWithoutAMeasurement) {
  EXPECT_FALSE(Throughput::Fit({}).has_value());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(Throughput::Fit({{.nodes = 0, .step_seconds = 1},
                                {.nodes = 1, .step_seconds = 0},
                                {.nodes = 1, .step_seconds = -1},
                                {.nodes = 1, .step_seconds = nan},
                                {.nodes = 1, .step_seconds = inf},
                                {.nodes = 1, .step_seconds = 1, .error = -1}})
                   .has_value());
}

TEST(ThroughputTest, OneSizeSaysMuchAboutItselfAndLittleAboutOthers) {
  const auto speed = Throughput::Fit({{.nodes = 4, .step_seconds = 1}});
  ASSERT_TRUE(speed.has_value());
  const Prediction here = speed->Predict(4);
  EXPECT_NEAR(here.seconds, 1, 0.02);
  EXPECT_LT(here.most - here.least, 0.05);
  const Prediction there = speed->Predict(16);
  EXPECT_GT(there.most - there.least, 0.2);
  EXPECT_GE(there.least, 0.24);  // sixteen nodes are at most four times as fast as four
}

TEST(ThroughputTest, NoTermIsBelowZero) {
  // Faster than possible with two nodes: the line through both points needs a negative constant.
  const auto speed =
      Throughput::Fit({{.nodes = 1, .step_seconds = 1}, {.nodes = 2, .step_seconds = 0.3}});
  ASSERT_TRUE(speed.has_value());
  EXPECT_GE(speed->curve().constant, 0);
  EXPECT_GE(speed->curve().work, 0);
  EXPECT_GE(speed->curve().exchange, 0);
}

TEST(ThroughputTest, OneDisturbedSizeOfFiveDoesNotBendTheCurve) {
  const StepCurve truth{.constant = 0.05, .work = 1.0, .exchange = 0.002};
  std::vector<SizeSample> samples;
  for (const uint32_t nodes : {1U, 2U, 4U, 6U, 8U}) samples.push_back(Exact(truth, nodes));
  samples[2].step_seconds *= 2;  // another job on the hosts, just then
  const auto speed = Throughput::Fit(samples);
  ASSERT_TRUE(speed.has_value());
  EXPECT_NEAR(speed->Predict(4).seconds / truth.At(4), 1, 0.05);
  EXPECT_NEAR(speed->Predict(12).seconds / truth.At(12), 1, 0.1);
}

TEST(ThroughputTest, AnEarlierRunOfTheSameJobIsBelieved) {
  const StepCurve truth{.constant = 0.4, .work = 0.6, .exchange = 0.05};  // hardly scales
  const auto alone = Throughput::Fit({Exact(truth, 1)});
  const auto again = Throughput::Fit({Exact(truth, 1)}, truth);
  ASSERT_TRUE(alone.has_value() && again.has_value());
  EXPECT_GT(std::abs(alone->Predict(8).seconds / truth.At(8) - 1), 0.3);
  EXPECT_NEAR(again->Predict(8).seconds / truth.At(8), 1, 0.01);
  // It is corrected where it was wrong.
  const auto corrected =
      Throughput::Fit({Exact(truth, 1), Exact(truth, 8)}, StepCurve{.constant = 0, .work = 1});
  ASSERT_TRUE(corrected.has_value());
  EXPECT_NEAR(corrected->Predict(8).seconds / truth.At(8), 1, 0.1);
}

// The obvious way to the same optimum: walk along one term after the other until nothing moves.
StepCurve::Terms ByCoordinates(const std::vector<SizeSample>& samples) {
  const double step = samples.front().step_seconds;
  const double first = samples.front().nodes;
  const StepCurve::Terms usual = {0.10 * step, 0.88 * step * first, 0.02 * step};
  const StepCurve::Terms spread = {0.15 * step, 0.30 * step * first, 0.03 * step};
  StepCurve::Terms terms = usual;
  for (int round = 0; round < 20'000; ++round) {
    for (size_t i = 0; i < terms.size(); ++i) {
      double top = usual[i] / (spread[i] * spread[i]);
      double bottom = 1 / (spread[i] * spread[i]);
      for (const SizeSample& sample : samples) {
        const double n = sample.nodes;
        const StepCurve::Terms features = {1, 1 / n, n - 1};
        const double deviation = std::max(sample.error, 0.01 * sample.step_seconds);
        double rest = sample.step_seconds;
        for (size_t j = 0; j < terms.size(); ++j) rest -= j == i ? 0 : terms[j] * features[j];
        const double weight = 1 / (deviation * deviation);
        top += weight * features[i] * rest;
        bottom += weight * features[i] * features[i];
      }
      terms[i] = std::max(0.0, top / bottom);
    }
  }
  return terms;
}

TEST(ThroughputTest, TheObviousTwinFindsTheSameCurve) {
  Prng prng(7);
  int bounded = 0;
  for (int draw = 0; draw < 200; ++draw) {
    const StepCurve truth{.constant = Uniform(prng, 0, 0.5),
                          .work = Uniform(prng, 0.2, 2),
                          .exchange = Uniform(prng, 0, 0.02)};
    std::vector<SizeSample> samples;
    for (const uint32_t nodes : {1U, 3U, 8U}) {
      SizeSample sample = Exact(truth, nodes);
      sample.step_seconds *= 1 + 0.01 * Normal(prng);
      sample.error = 0.2 * sample.step_seconds;  // so large that no error counts linearly
      samples.push_back(sample);
    }
    const StepCurve::Terms twin = ByCoordinates(samples);
    const StepCurve::Terms terms = Throughput::Fit(samples)->curve().terms();
    for (size_t i = 0; i < terms.size(); ++i) {
      EXPECT_NEAR(terms[i], twin[i], 1e-6) << "draw " << draw << ", term " << i;
      bounded += terms[i] == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(bounded, 0);  // the bounds were needed
}

// Jobs as they are drawn by chance: the shares of a step are those of the prior, cut off at 0.
StepCurve DrawnJob(Prng& prng, uint32_t first) {
  const auto share = [&](double mean, double spread) {
    double drawn = -1;
    while (drawn < 0) drawn = mean + spread * Normal(prng);
    return drawn;
  };
  const double step = std::exp(Uniform(prng, std::log(0.01), std::log(60)));
  return {.constant = step * share(0.10, 0.15),
          .work = step * first * share(0.88, 0.30),
          .exchange = step * share(0.02, 0.03)};
}

TEST(ThroughputTest, NineOfTenIntervalsHoldAtSizesThatWereNotMeasured) {
  Prng prng(11);
  constexpr int kJobs = 500;
  int held = 0;
  int asked = 0;
  double error = 0;
  for (int job = 0; job < kJobs; ++job) {
    const auto first = static_cast<uint32_t>(prng.Between(1, 8));
    const uint32_t second = first * 2;
    const StepCurve truth = DrawnJob(prng, first);
    std::vector<SizeSample> samples;
    for (const uint32_t nodes : {first, second}) {
      SizeSample sample = Exact(truth, nodes);
      sample.error = 0.01 * sample.step_seconds;
      sample.step_seconds += sample.error * Normal(prng);
      samples.push_back(sample);
    }
    const auto speed = Throughput::Fit(samples);
    ASSERT_TRUE(speed.has_value());
    for (const uint32_t nodes : {first + second, 2 * second}) {
      const Prediction prediction = speed->Predict(nodes);
      const double step = truth.At(nodes);
      held += prediction.least <= step && step <= prediction.most ? 1 : 0;
      error += std::abs(prediction.seconds / step - 1);
      ++asked;
    }
  }
  const double part = static_cast<double>(held) / asked;
  EXPECT_GE(part, 0.85);
  EXPECT_LE(part, 0.95);
  EXPECT_LE(error / asked, 0.05);
}

TEST(ThroughputTest, EfficiencyIsTheSpeedThatEachNodeAdds) {
  const StepCurve truth{.constant = 0, .work = 1, .exchange = 0};
  const auto perfect =
      Throughput::Fit({Exact(truth, 1), Exact(truth, 2), Exact(truth, 4), Exact(truth, 8)}, truth);
  ASSERT_TRUE(perfect.has_value());
  EXPECT_NEAR(perfect->Between(2, 4).mean, 1, 0.02);
  const StepCurve flat{.constant = 1, .work = 0, .exchange = 0};
  const auto useless = Throughput::Fit({Exact(flat, 1), Exact(flat, 2), Exact(flat, 4)}, flat);
  ASSERT_TRUE(useless.has_value());
  const Efficiency added = useless->Between(2, 4);
  EXPECT_NEAR(added.mean, 0, 0.02);
  EXPECT_LE(added.least, added.mean);
  EXPECT_GE(added.most, added.mean);
}

}  // namespace
}  // namespace paceline::brain

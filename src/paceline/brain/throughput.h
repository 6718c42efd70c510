#pragma once

// How long a step of a job takes, as a function of its number of nodes.
//
// The global batch is the same in every world, so that more nodes have less work each. The model
// has three coefficients, none below 0:
//
//   step(n) = constant + work / n + exchange * (n - 1)        seconds
//
//   work      what divides among nodes: the samples of the batch
//   constant  what does not: the optimizer, the bytes of a ring all-reduce
//   exchange  what grows with every node: rounds of collectives, a link that all share
//
// The coefficients minimise the squared errors, each as a part of its own uncertainty, plus the
// squared distance from a prior: ridge regression under bounds. The bounds are kept by trying each
// set of coefficients that are 0. Large errors count linearly (P. J. Huber, Robust Estimation of a
// Location Parameter, 1964), so that one disturbed measurement cannot bend the curve. An interval
// is that of Bayesian linear regression.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::brain {

// What was measured at one size.
struct SizeSample {
  uint32_t nodes = 0;       // ≥ 1
  double step_seconds = 0;  // typical of the windows, such as their median; > 0
  double error = 0;         // its standard error, in seconds; ≥ 0
};

struct StepCurve {
  static constexpr size_t kTerms = 3;
  using Terms = std::array<double, kTerms>;

  double constant = 0;
  double work = 0;
  double exchange = 0;

  Terms terms() const { return {constant, work, exchange}; }
  double At(uint32_t nodes) const;  // seconds a step
};

// A step time of one size, with the bounds that hold in 9 of 10 cases.
struct Prediction {
  double seconds = 0;
  double least = 0;  // > 0
  double most = 0;
};

// What each node adds to the speed when a job goes from one size to another, as a part of the speed
// of one node alone: 1 is perfect. With the bounds that hold in 9 of 10 cases.
struct Efficiency {
  double mean = 0;
  double least = 0;
  double most = 0;
};

// The curve of a job that has run with sizes of its own.
class Throughput {
 public:
  // The standard error of a measurement is taken to be at least this part of it: two windows at
  // different times of day differ by as much.
  static constexpr double kErrorLeast = 0.01;

  // Without samples, or with impossible ones alone, there is nothing to fit. `prior` is the curve
  // of an earlier run of the same job; without one, most of a step is taken for work.
  static std::optional<Throughput> Fit(const std::vector<SizeSample>& samples,
                                       const std::optional<StepCurve>& prior = std::nullopt);

  const StepCurve& curve() const { return curve_; }
  Prediction Predict(uint32_t nodes) const;
  Efficiency Between(uint32_t from, uint32_t to) const;  // from < to
  bool IsMeasured(uint32_t nodes) const;

 private:
  double Deviation(const StepCurve::Terms& gradient) const;

  StepCurve curve_;
  std::array<StepCurve::Terms, StepCurve::kTerms> covariance_{};
  std::vector<SizeSample> samples_;
};

}  // namespace paceline::brain

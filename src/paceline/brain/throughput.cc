#include "paceline/brain/throughput.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::brain {
namespace {

constexpr size_t kTerms = StepCurve::kTerms;
using Terms = StepCurve::Terms;
using Matrix = std::array<Terms, kTerms>;

// Beyond so many standard errors an error counts linearly: 95 % of the efficiency of least squares
// where errors are normal.
constexpr double kHuber = 1.345;
constexpr int kRounds = 20;
constexpr double kNinety = 1.645;  // standard deviations on each side of 90 %

// The prior of a job without measurements: each term as a part of the step at its present size, and
// its spread.
constexpr Terms kUsual = {0.10, 0.88, 0.02};
constexpr Terms kUsualSpread = {0.15, 0.30, 0.03};
// How far a second run of the same job is from the first, as a part of each term, and of the step.
constexpr double kAgain = 0.10;
constexpr double kAgainLeast = 0.01;

Terms FeaturesOf(uint32_t nodes) {
  const double n = nodes;
  return {1, 1 / n, n - 1};
}

double Dot(const Terms& a, const Terms& b) {
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) sum += a[i] * b[i];
  return sum;
}

// An equation of the regression: features · terms = value, with so many standard deviations.
struct Row {
  Terms features{};
  double value = 0;
  double deviation = 1;
  bool is_measured = false;  // only these can be disturbed
};

// The inverse of a symmetric positive definite matrix, by Gauss and Jordan. Terms that are not
// `free` are left out: their rows and columns are 0.
Matrix InverseOf(Matrix from, unsigned free) {
  Matrix inverse{};
  for (size_t i = 0; i < kTerms; ++i) inverse[i][i] = 1;
  for (size_t i = 0; i < kTerms; ++i) {
    if ((free >> i & 1) != 0) continue;
    for (size_t j = 0; j < kTerms; ++j) from[i][j] = from[j][i] = 0;
    from[i][i] = 1;
  }
  for (size_t i = 0; i < kTerms; ++i) {
    const double pivot = from[i][i];
    for (size_t j = 0; j < kTerms; ++j) {
      from[i][j] /= pivot;
      inverse[i][j] /= pivot;
    }
    for (size_t k = 0; k < kTerms; ++k) {
      if (k == i) continue;
      const double factor = from[k][i];
      for (size_t j = 0; j < kTerms; ++j) {
        from[k][j] -= factor * from[i][j];
        inverse[k][j] -= factor * inverse[i][j];
      }
    }
  }
  for (size_t i = 0; i < kTerms; ++i) {
    if ((free >> i & 1) == 0) inverse[i][i] = 0;
  }
  return inverse;
}

struct Equations {
  Matrix left{};
  Terms right{};
};

Equations EquationsOf(const std::vector<Row>& rows, const std::vector<double>& weights) {
  Equations sums;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const double weight = weights[r] / (row.deviation * row.deviation);
    for (size_t i = 0; i < kTerms; ++i) {
      sums.right[i] += weight * row.features[i] * row.value;
      for (size_t j = 0; j < kTerms; ++j) {
        sums.left[i][j] += weight * row.features[i] * row.features[j];
      }
    }
  }
  return sums;
}

double CostOf(const std::vector<Row>& rows, const std::vector<double>& weights,
              const Terms& terms) {
  double cost = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const double error = (Dot(rows[r].features, terms) - rows[r].value) / rows[r].deviation;
    cost += weights[r] * error * error;
  }
  return cost;
}

// The best terms of which none is below 0. Some set of them is 0 in the optimum; there are eight.
Terms BestTerms(const std::vector<Row>& rows, const std::vector<double>& weights) {
  const Equations sums = EquationsOf(rows, weights);
  std::optional<std::pair<double, Terms>> best;
  for (unsigned free = 0; free < 1U << kTerms; ++free) {
    const Matrix inverse = InverseOf(sums.left, free);
    Terms terms{};
    for (size_t i = 0; i < kTerms; ++i) terms[i] = Dot(inverse[i], sums.right);
    if (*std::min_element(terms.begin(), terms.end()) < 0) continue;
    const double cost = CostOf(rows, weights, terms);
    if (!best || cost < best->first) best = {cost, terms};
  }
  return best->second;  // all terms 0 is among them
}

bool IsPossible(const SizeSample& sample) {
  return sample.nodes > 0 && std::isfinite(sample.step_seconds) && sample.step_seconds > 0 &&
         std::isfinite(sample.error) && sample.error >= 0;
}

double DeviationOf(const SizeSample& sample) {
  return std::max(sample.error, Throughput::kErrorLeast * sample.step_seconds);
}

Row PriorRow(size_t term, double value, double deviation) {
  Row row{.value = value, .deviation = deviation};
  row.features[term] = 1;
  return row;
}

// What is known before any measurement, an equation a term.
std::vector<Row> PriorRows(const SizeSample& base, const std::optional<StepCurve>& earlier) {
  std::vector<Row> rows;
  if (earlier) {
    const Terms terms = earlier->terms();
    const Terms features = FeaturesOf(base.nodes);
    for (size_t i = 0; i < kTerms; ++i) {
      const double least = kAgainLeast * base.step_seconds / std::max(features[i], 1e-9);
      rows.push_back(PriorRow(i, terms[i], std::max(kAgain * terms[i], least)));
    }
    return rows;
  }
  const double step = base.step_seconds;
  const Terms unit = {step, step * base.nodes, step};
  for (size_t i = 0; i < kTerms; ++i) {
    rows.push_back(PriorRow(i, kUsual[i] * unit[i], kUsualSpread[i] * unit[i]));
  }
  return rows;
}

}  // namespace

double StepCurve::At(uint32_t nodes) const { return Dot(FeaturesOf(nodes), terms()); }

std::optional<Throughput> Throughput::Fit(const std::vector<SizeSample>& samples,
                                          const std::optional<StepCurve>& prior) {
  Throughput made;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(made.samples_), IsPossible);
  if (made.samples_.empty()) return std::nullopt;

  std::vector<Row> rows = PriorRows(made.samples_.front(), prior);
  for (const SizeSample& sample : made.samples_) {
    rows.push_back({.features = FeaturesOf(sample.nodes),
                    .value = sample.step_seconds,
                    .deviation = DeviationOf(sample),
                    .is_measured = true});
  }

  std::vector<double> weights(rows.size(), 1);
  Terms terms{};
  for (int round = 0; round < kRounds; ++round) {
    terms = BestTerms(rows, weights);
    for (size_t r = 0; r < rows.size(); ++r) {
      if (!rows[r].is_measured) continue;
      const double error =
          std::abs(Dot(rows[r].features, terms) - rows[r].value) / rows[r].deviation;
      weights[r] = error <= kHuber ? 1 : kHuber / error;
    }
  }
  made.curve_ = {terms[0], terms[1], terms[2]};
  made.covariance_ = InverseOf(EquationsOf(rows, weights).left, (1U << kTerms) - 1);
  return made;
}

// Of a quantity with this gradient in the terms.
double Throughput::Deviation(const Terms& gradient) const {
  double variance = 0;
  for (size_t i = 0; i < kTerms; ++i) variance += gradient[i] * Dot(covariance_[i], gradient);
  return std::sqrt(std::max(variance, 0.0));
}

Efficiency Throughput::Between(uint32_t from, uint32_t to) const {
  const auto speed = [&](uint32_t nodes) { return 1 / curve_.At(nodes); };
  const auto slope = [&](uint32_t nodes, size_t term) {
    return -FeaturesOf(nodes)[term] * speed(nodes) * speed(nodes);
  };
  const double nodes = to - from;
  const double one = speed(1);
  const double mean = (speed(to) - speed(from)) / (nodes * one);
  Terms gradient{};
  for (size_t i = 0; i < kTerms; ++i) {
    gradient[i] = (slope(to, i) - slope(from, i)) / (nodes * one) - mean * slope(1, i) / one;
  }
  const double width = kNinety * Deviation(gradient);
  return {.mean = mean, .least = mean - width, .most = mean + width};
}

Prediction Throughput::Predict(uint32_t nodes) const {
  const double seconds = curve_.At(nodes);
  const double width = kNinety * Deviation(FeaturesOf(nodes));
  // No size is faster than if all of the fastest measured step were work.
  double floor = 0;
  for (const SizeSample& sample : samples_) {
    if (sample.nodes > nodes) continue;
    const double divided = (sample.step_seconds - kNinety * DeviationOf(sample)) * sample.nodes;
    floor = std::max(floor, divided / nodes);
  }
  const double least = std::max({seconds - width, floor, 1e-3 * seconds});
  return {.seconds = seconds, .least = std::min(least, seconds), .most = seconds + width};
}

bool Throughput::IsMeasured(uint32_t nodes) const {
  return std::any_of(samples_.begin(), samples_.end(),
                     [&](const SizeSample& sample) { return sample.nodes == nodes; });
}

}  // namespace paceline::brain

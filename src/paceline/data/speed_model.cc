#include "paceline/data/speed_model.h"

#include <algorithm>
#include <cmath>

#include "paceline/base/check.h"

namespace paceline {
namespace {

constexpr double kKept = 0.95;   // of the information, after each observation
constexpr double kErrorMax = 3;  // standard deviations by which one observation may move the model
constexpr double kSlack = 1;     // of the CUSUM: half the shift to detect
constexpr double kAlarm = 5.5;   // of the CUSUM: three errors of the largest size
constexpr double kNoiseLeast = 0.01;   // of the expected time; limit of clocks and schedulers
constexpr double kNoiseFirst = 0.05;   // of the first observations' time, at least
constexpr double kNoiseTaken = 0.1;    // weight of each error in the estimate
constexpr double kMeanToSigma = 1.25;  // from a mean absolute error to a standard deviation
constexpr double kKeptByAlarm = 0.3;   // of the information, after a change
// At first all time counts as per-sample. The standard deviation of the fixed part is six times the
// noise, that of the other part twenty times.
constexpr double kFixedFirst = 1.0 / 36;
constexpr double kLoadFirst = 1.0 / 400;
// The least per-sample part of the expected time. Without it a share could grow without limit.
constexpr double kByLoadLeast = 0.05;
constexpr double kSecondsLeast = 1e-9;

}  // namespace

void SpeedModel::Begin() {
  std::sort(first_.begin(), first_.end(), [](const StepTime& a, const StepTime& b) {
    return a.seconds * b.samples < b.seconds * a.samples;
  });
  const StepTime& middle = first_[1];
  const auto distance = [&](const StepTime& one) {
    return std::abs(one.seconds * middle.samples / one.samples - middle.seconds);
  };
  const double spread = (distance(first_[0]) + distance(first_[2])) / static_cast<double>(kFirst);
  unit_ = middle.samples;
  at_ = {.one = 0, .load = middle.seconds};
  info_[0] = kFirst + kFixedFirst;
  info_[1] = kFirst;
  info_[2] = kFirst + kLoadFirst;
  noise_ = std::max(kNoiseFirst * middle.seconds, kMeanToSigma * spread);
}

void SpeedModel::Observe(const StepTime& time) {
  CHECK(time.samples > 0 && time.seconds > 0, "a time of samples");
  CHECK(std::isfinite(time.samples) && std::isfinite(time.seconds), "a finite time");
  if (!is_known()) {
    first_[observations_++] = time;
    if (is_known()) Begin();
    return;
  }
  const Row row = RowOf(time.samples);
  const double expected = Expected(row);
  const double noise = std::max(noise_, kNoiseLeast * std::abs(expected));
  const double deviation = noise * std::sqrt(1 + VarianceAt(row));
  const double error = time.seconds - expected;
  const double limited = std::clamp(error / deviation, -kErrorMax, kErrorMax);
  // An error as large as a change must not raise the noise estimate at once.
  const double size = std::min(std::abs(error), kErrorMax * noise);
  noise_ = noise + kNoiseTaken * (kMeanToSigma * size - noise);
  Learn(row, limited * deviation);
  Watch(slower_, limited, time);
  Watch(faster_, -limited, time);
}

void SpeedModel::Learn(const Row& row, double error) {
  // info * row, and row' * info * row.
  const Row seen{info_[0] * row.one + info_[1] * row.load,
                 info_[1] * row.one + info_[2] * row.load};
  const double known = seen.one * row.one + seen.load * row.load;
  const double forget = known > 0 ? (1 - kKept) / known : 0;
  info_[0] += row.one * row.one - forget * seen.one * seen.one;
  info_[1] += row.one * row.load - forget * seen.one * seen.load;
  info_[2] += row.load * row.load - forget * seen.load * seen.load;
  const double determinant = info_[0] * info_[2] - info_[1] * info_[1];
  at_.one += error * (info_[2] * row.one - info_[1] * row.load) / determinant;
  at_.load += error * (info_[0] * row.load - info_[1] * row.one) / determinant;
}

void SpeedModel::Watch(Side& side, double error, const StepTime& time) {
  side.sum += error - kSlack;
  if (side.sum <= 0) {
    side = {};
    return;
  }
  const Row row = RowOf(time.samples);
  side.seconds += time.seconds;
  side.rows = {side.rows.one + row.one, side.rows.load + row.load};
  if (side.sum < kAlarm) return;
  // The rank became slower or faster as a whole. The split into the two parts stays.
  const double expected = Expected(side.rows);
  const double scale = expected > 0 ? side.seconds / expected : 1;
  at_ = {at_.one * scale, at_.load * scale};
  noise_ *= scale;
  for (double& entry : info_) entry *= kKeptByAlarm;
  slower_ = faster_ = {};
  ++changes_;
}

double SpeedModel::VarianceAt(const Row& row) const {
  const double determinant = info_[0] * info_[2] - info_[1] * info_[1];
  return (info_[2] * row.one * row.one - 2 * info_[1] * row.one * row.load +
          info_[0] * row.load * row.load) /
         determinant;
}

LinearTime SpeedModel::LineAt(double samples) const {
  CHECK(is_known(), "three observations");
  const double expected = std::max(Expected(RowOf(samples)), kSecondsLeast);
  const double per_sample =
      std::clamp(at_.load / unit_, kByLoadLeast * expected / samples, expected / samples);
  return {.fixed = expected - per_sample * samples, .per_sample = per_sample};
}

double SpeedModel::ErrorAt(double samples) const {
  const double noise = std::max(noise_, kNoiseLeast * std::abs(Expected(RowOf(samples))));
  return noise * std::sqrt(VarianceAt(RowOf(samples)));
}

}  // namespace paceline

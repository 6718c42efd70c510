#include "paceline/brain/memory.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace paceline::brain {
namespace {

constexpr double kMargin = 1.1;        // above a prediction
constexpr double kStepLeast = 1.25;    // of a limit that is raised
constexpr double kAhead = 2;           // times the time that a change needs
constexpr double kHigh = 0.9;          // the part of the windows that stays below the line
constexpr double kBeyondNoise = 4;     // the growth, as a multiple of the usual residual
constexpr double kGrowthLeast = 0.01;  // of the use, over all windows

double Quantile(std::vector<double> values, double part) {
  const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

// The median slope of all pairs of windows that differ in time; 0 if there is none.
double SlopeOf(std::span<const MemoryWindow> windows) {
  std::vector<double> slopes;
  for (size_t i = 0; i < windows.size(); ++i) {
    for (size_t j = i + 1; j < windows.size(); ++j) {
      const double seconds = windows[j].at - windows[i].at;
      if (seconds > 0) slopes.push_back((windows[j].bytes - windows[i].bytes) / seconds);
    }
  }
  return slopes.empty() ? 0 : Quantile(std::move(slopes), 0.5);
}

double PredictedLimit(const std::optional<MemoryGrowth>& growth, const MemoryQuestion& question) {
  return growth.has_value() ? kMargin * growth->After(question.outlook) : 0;
}

}  // namespace

double MemoryGrowth::Until(double limit) const {
  return bytes >= limit ? 0 : (limit - bytes) / bytes_per_second;
}

std::optional<MemoryGrowth> GrowthOf(std::span<const MemoryWindow> windows) {
  if (windows.size() > kMemoryWindowsMost) windows = windows.last(kMemoryWindowsMost);
  if (windows.size() < kMemoryWindowsLeast) return std::nullopt;
  const size_t half = windows.size() / 2;
  const double slope = SlopeOf(windows);
  if (std::min({slope, SlopeOf(windows.first(half)), SlopeOf(windows.last(half))}) <= 0) {
    return std::nullopt;
  }
  const double last = windows.back().at;
  std::vector<double> levels;  // of the line at the last window, by each window alone
  for (const MemoryWindow& window : windows) {
    levels.push_back(window.bytes + slope * (last - window.at));
  }
  const double level = Quantile(levels, 0.5);
  std::vector<double> residuals;
  for (const double one : levels) residuals.push_back(std::abs(one - level));
  const double grown = slope * (last - windows.front().at);
  if (grown < kBeyondNoise * Quantile(residuals, 0.5) || grown < kGrowthLeast * level) {
    return std::nullopt;
  }
  return MemoryGrowth{.bytes_per_second = slope, .bytes = Quantile(levels, kHigh)};
}

std::optional<double> DueLimit(const MemoryGrowth& growth, const MemoryQuestion& question) {
  const double left = growth.Until(question.limit);
  if (left >= question.outlook) return std::nullopt;  // the job ends before
  if (left >= kAhead * (question.next_save + question.change)) return std::nullopt;
  if (question.limit >= question.most) return std::nullopt;
  const double wanted = std::max(PredictedLimit(growth, question), kStepLeast * question.limit);
  return std::min(wanted, question.most);
}

std::optional<double> LimitAfterKill(double limit, const std::optional<MemoryGrowth>& growth,
                                     const MemoryQuestion& question) {
  if (limit >= question.most) return std::nullopt;
  return std::min(std::max(2 * limit, PredictedLimit(growth, question)), question.most);
}

}  // namespace paceline::brain

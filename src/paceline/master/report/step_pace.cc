#include "paceline/master/report/step_pace.h"

#include <algorithm>

namespace paceline::master {
namespace {

constexpr Duration kBetweenMarks = Duration::Seconds(1);

}  // namespace

void StepPace::Note(Instant now, const Progress& progress) {
  const bool is_absolute = progress.step >= 0;
  const int64_t steps = is_absolute ? progress.step : progress.step_count;
  if (progress.generation != generation_ || is_absolute != is_absolute_) {
    generation_ = progress.generation;
    is_absolute_ = is_absolute;
    marks_.clear();
    last_ = {};
  }
  if (steps <= last_.steps) return;
  last_ = {.at = now, .steps = steps};
  if (marks_.empty() || now - marks_.back().at >= kBetweenMarks) marks_.push_back(last_);
  // The oldest mark is the last one before the window, so that slow steps have a rate, too.
  while (marks_.size() > 1 && now - marks_[1].at > kWindow) marks_.pop_front();
}

double StepPace::PerSecond() const {
  if (marks_.empty() || last_.at <= marks_.front().at) return 0;
  const double seconds = (last_.at - marks_.front().at).ToSecondsF();
  return static_cast<double>(last_.steps - marks_.front().steps) / seconds;
}

bool StepPace::IsStill(Instant now) const {
  constexpr double kLeastSeconds = 3;
  constexpr double kUsualSteps = 5;
  const std::optional<Duration> since = SinceLast(now);
  const double pace = PerSecond();
  return since.has_value() && pace > 0 &&
         since->ToSecondsF() > std::max(kLeastSeconds, kUsualSteps / pace);
}

std::optional<Duration> StepPace::SinceLast(Instant now) const {
  if (last_.steps == 0) return std::nullopt;
  return std::max(Duration(), now - last_.at);
}

}  // namespace paceline::master

#include "paceline/core/goodput/told_time.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace paceline::core {

namespace {

size_t IndexOf(TimePart part) { return static_cast<size_t>(part); }
size_t IndexOf(TimeClass time_class) { return static_cast<size_t>(time_class); }

int64_t SumOf(const PartSums& spent) {
  return std::accumulate(spent.begin(), spent.end(), int64_t{0});
}

}  // namespace

std::optional<ToldTime::Since> ToldTime::Take(const TimeAccounted& fact) {
  const bool is_first = !last_.has_value() || last_->generation < fact.generation;
  if (!is_first && last_->generation != fact.generation) return std::nullopt;
  const bool was_lost = std::exchange(is_lost_, false) && !is_first;
  // Fewer ranks told this time: a new master has not heard all of them yet. If they are as few the
  // next time, there are no others.
  const bool are_fewer = !is_first && fact.ranks < last_->ranks;
  if (are_fewer && !std::exchange(were_fewer_, true)) return std::nullopt;
  were_fewer_ = false;
  if (!is_first && SumOf(fact.spent) < SumOf(last_->spent)) return std::nullopt;
  Since since{.is_first = is_first};
  const PartSums before = is_first ? PartSums{} : last_->spent;
  last_ = fact;
  since.is_known = !was_lost;
  if (was_lost) return since;
  for (size_t i = 0; i < kTimeParts; ++i) {
    since.seconds[i] = static_cast<double>(fact.spent[i] - before[i]) / 1000;
  }
  // Stragglers are told apart by comparison. A later one may take back what an earlier one found.
  double& straggler = since.seconds[IndexOf(TimePart::kStraggler)];
  since.seconds[IndexOf(TimePart::kWork)] += std::min(straggler, 0.0);
  straggler = std::max(straggler, 0.0);
  for (double& part : since.seconds) part = std::max(part, 0.0);
  return since;
}

ClassSeconds Divide(const PartSeconds& told, double axis, double* carry) {
  const auto of = [&](TimePart part) { return told[IndexOf(part)]; };
  ClassSeconds parts = {};
  parts[IndexOf(TimeClass::kEvaluation)] = of(TimePart::kEvaluation);
  parts[IndexOf(TimeClass::kCheckpointStall)] = of(TimePart::kCheckpoint);
  parts[IndexOf(TimeClass::kDataWait)] = of(TimePart::kData);
  parts[IndexOf(TimeClass::kStragglerWait)] = of(TimePart::kStraggler);
  parts[IndexOf(TimeClass::kRestore)] = of(TimePart::kRestore);
  parts[IndexOf(TimeClass::kCompile)] = of(TimePart::kCompile);
  parts[IndexOf(TimeClass::kStopping)] = of(TimePart::kEnd);
  const double others = std::accumulate(parts.begin(), parts.end(), 0.0);
  // A script that tells no phases stays in the first one.
  const double work = of(TimePart::kWork) + of(TimePart::kStart) + *carry;
  if (others > axis) {
    for (double& part : parts) part *= axis / others;
    *carry = work + others - axis;
    return parts;
  }
  const double room = axis - others;
  *carry = std::max(0.0, work - room);
  parts[IndexOf(TimeClass::kUnknown)] = std::max(0.0, room - work);
  return parts;
}

}  // namespace paceline::core

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {

std::span<const Axis* const> Axes() {
  static constexpr std::array<const Axis*, kAxisCount> kAll = {
      &kPipelineAxis,      &kTensorAxis, &kSequenceAxis,  &kDataAxis,    &kMicroBatchesAxis,
      &kVirtualStagesAxis, &kShardAxis,  &kRecomputeAxis, &kScheduleAxis};
  return kAll;
}

std::optional<uint32_t> NamedValue(AxisId axis, std::string_view name) {
  if (axis == AxisId::kSchedule) return FindSchedule(name);
  if (axis == AxisId::kRecompute) return FindRecompute(name);
  return std::nullopt;
}

std::string ValueNames(AxisId axis) {
  std::vector<std::string_view> names;
  if (axis == AxisId::kSchedule) {
    for (const Schedule* one : Schedules()) names.push_back(one->name);
  }
  if (axis == AxisId::kRecompute) names.assign(kRecomputeNames.begin(), kRecomputeNames.end());
  return JoinWith(names, ", ");
}

std::string ValueText(AxisId axis, uint32_t value) {
  if (axis == AxisId::kSchedule && value < Schedules().size()) {
    return std::string(Schedules()[value]->name);
  }
  if (axis == AxisId::kRecompute && value < kRecomputeNames.size()) {
    return std::string(kRecomputeNames[value]);
  }
  return std::to_string(value);
}

std::string WordsOf(const Shape& shape) {
  std::vector<std::string> words;
  for (const Axis* axis : Axes()) {
    std::string word = axis->words(shape.*axis->field);
    if (!word.empty()) words.push_back(std::move(word));
  }
  return words.empty() ? "one device" : JoinWith(words, ", ");
}

std::vector<uint32_t> Thinned(const std::vector<uint32_t>& values, size_t most) {
  if (values.size() <= most) return values;
  std::vector<uint32_t> thinned;
  for (size_t i = 0; i < most; ++i) {
    thinned.push_back(values[i * (values.size() - 1) / (most - 1)]);
  }
  return thinned;
}

std::vector<uint32_t> DivisorsOf(uint64_t whole, uint32_t most) {
  std::vector<uint32_t> divisors;
  for (uint32_t i = 1; i <= std::min<uint64_t>(whole, most); ++i) {
    if (whole % i == 0) divisors.push_back(i);
  }
  return divisors;
}

}  // namespace paceline::plan

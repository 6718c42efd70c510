#include <array>

#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {

std::span<const Schedule* const> Schedules() {
  static constexpr std::array<const Schedule*, 5> kAll = {
      &kNoSchedule, &kGPipe, &kOneForwardOneBackward, &kInterleaved, &kZeroBubble};
  return kAll;
}

std::optional<uint32_t> FindSchedule(std::string_view name) {
  for (uint32_t i = 0; i < Schedules().size(); ++i) {
    if (Schedules()[i]->name == name) return i;
  }
  return std::nullopt;
}

}  // namespace paceline::plan

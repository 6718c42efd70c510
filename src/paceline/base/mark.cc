#include "paceline/base/mark.h"

// Bounds of the array, which the linker defines if at least one mark is linked in.
extern "C" {
[[gnu::weak]] extern paceline::Mark* __start_paceline_marks[];
[[gnu::weak]] extern paceline::Mark* __stop_paceline_marks[];
}

namespace paceline {

std::span<Mark* const> AllMarks() {
  Mark* const* first = __start_paceline_marks;
  if (first == nullptr) return {};
  return {first, static_cast<size_t>(__stop_paceline_marks - first)};
}

void ClearMarks() {
  for (Mark* mark : AllMarks()) mark->hits.store(0, std::memory_order_relaxed);
}

}  // namespace paceline

#include "paceline/core/world_count.h"

#include <iterator>
#include <variant>

namespace paceline::core {

void WorldCount::Fold(const Record& record) {
  const auto* formed = std::get_if<WorldFormed>(&record.fact);
  if (formed != nullptr) Add(formed->world.generation, uint64_t{formed->world.restart_count} + 1);
}

uint64_t WorldCount::Of(Generation generation) const {
  const auto later = formed_.upper_bound(generation);
  if (later == formed_.begin()) return WorldNumber(generation);
  const auto& [formed, count] = *std::prev(later);
  if (TermOf(formed) != TermOf(generation)) return WorldNumber(generation);
  return count + (generation.value() - formed.value());
}

}  // namespace paceline::core

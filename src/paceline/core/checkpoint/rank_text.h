#pragma once

// Ranks in a sentence.

#include <cstdint>
#include <set>
#include <string>

namespace paceline::core {

// "rank 3", or "ranks 0, 2, 5, 6, 7, 8, 9, 12 and 40 more".
inline std::string RankText(const std::set<uint32_t>& ranks) {
  constexpr size_t kNamedMax = 8;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  size_t named = 0;
  for (const uint32_t rank : ranks) {
    if (named == kNamedMax) break;
    text += (named++ == 0 ? " " : ", ") + std::to_string(rank);
  }
  if (ranks.size() > named) text += " and " + std::to_string(ranks.size() - named) + " more";
  return text;
}

}  // namespace paceline::core

#pragma once

// Rank 0's report of the parallel plan that the ranks of its world carry out. The texts are those
// of docs/formats/parallel_plan.md.

#include <cstddef>
#include <string>

#include "paceline/model/ids.h"

namespace paceline {

inline constexpr size_t kPlanNoteTextMax = 64 << 10;   // of a summary, wishes and a cluster
inline constexpr size_t kPlanNotePlanMax = 256 << 10;  // of a plan; a longer one is left out
inline constexpr size_t kPlanNoteSentenceMax = 8 << 10;

struct PlanNote {
  Generation generation;
  std::string summary;  // of the model
  std::string wishes;
  std::string cluster;  // the ranks' devices; types, order and memory are true, speeds may not be
  std::string plan;     // "": it is too long
  std::string words;    // the plan in a few words: "data 2"
  std::string because;  // where the plan comes from, and why, as one sentence
  double step = 0;      // predicted seconds; 0: not known
  bool moves = false;   // the plan of the next world: a checkpoint has it, and the ranks wait
  bool operator==(const PlanNote&) const = default;
};

}  // namespace paceline

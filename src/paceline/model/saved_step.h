#pragma once

// The identity of a save, its order, and its folder's name in storage.
//
// A rank's branch is 0 in each new world and rises by one at each save whose step is not higher
// than the step before. So a script may repeat steps or go back, and the last saved state is still
// the newest.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace paceline {

// Saves are ordered by world, then branch, then step. A newer world's lower step is the newer
// state, and a rank of an ended world never saves the newest. Ranks' images belong together only if
// all three are equal.
struct SavedStep {
  uint64_t generation = 0;
  int64_t step = -1;
  uint64_t branch = 0;
  bool operator==(const SavedStep&) const = default;
  std::strong_ordering operator<=>(const SavedStep& other) const {
    return std::tie(generation, branch, step) <=>
           std::tie(other.generation, other.branch, other.step);
  }
};

// Limit of a rank's branches in one world. A higher number is a broken message.
inline constexpr uint64_t kBranchMax = uint64_t{1} << 48;

// "step-1200-g3", or "step-1200-g3-b1" in branch 1.
std::string CheckpointNameOf(SavedStep saved);
// The reverse. None: it is not such a name.
std::optional<SavedStep> SavedStepIn(std::string_view name);

// "step 1200", or "step 1200 (branch 1)": for people.
std::string Say(SavedStep saved);

}  // namespace paceline

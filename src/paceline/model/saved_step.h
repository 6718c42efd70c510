#pragma once

// The identity of a save, its order, and the name of its folder in storage.
//
// A rank counts a branch: 0 in each new world, and one more at each save whose step is not higher
// than the step it saved before. So a script may repeat steps or go back to lower ones, and the
// state that was saved last is still the newest.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace paceline {

// The order of saves is: world first, then branch, then step. A newer world's lower step is the
// newer state, and a rank of an ended world never saves what is the newest. Ranks' images belong
// together only when all three are equal.
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

// Branches that a rank may begin in one world. More than that is a broken message.
inline constexpr uint64_t kBranchMax = uint64_t{1} << 48;

// "step-1200-g3", or "step-1200-g3-b1" in branch 1.
std::string CheckpointNameOf(SavedStep saved);
// The reverse. Nothing: it is not such a name.
std::optional<SavedStep> SavedStepIn(std::string_view name);

// "step 1200", or "step 1200 (branch 1)": for people.
std::string Say(SavedStep saved);

}  // namespace paceline

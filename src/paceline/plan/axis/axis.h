#pragma once

// One dimension of a plan's shape: which values are worth trying, and why a value is impossible. To
// add one: a member of Shape and of AxisId, axis/<name>.cc with its row, the row in axes.cc.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/plan/scene.h"
#include "paceline/plan/wishes.h"

namespace paceline::plan {

struct Axis {
  std::string_view name;   // in JSON and in `--why-not`
  std::string_view alias;  // the name that other systems use: "tp"
  uint32_t Shape::*field;
  // The values to try if the user gave none. `chosen` has the values of the axes before this one.
  std::vector<uint32_t> (*values)(const Scene& scene, const Shape& chosen);
  // Why this value is impossible, as one sentence; "" if it is possible.
  std::string (*refuses)(const Scene& scene, const Shape& chosen, uint32_t value);
  // "pipeline 4"; "" for the default value, which is not printed.
  std::string (*words)(uint32_t value);
};

extern const Axis kPipelineAxis;
extern const Axis kTensorAxis;
extern const Axis kSequenceAxis;
extern const Axis kDataAxis;
extern const Axis kMicroBatchesAxis;
extern const Axis kVirtualStagesAxis;
extern const Axis kShardAxis;
extern const Axis kRecomputeAxis;
extern const Axis kScheduleAxis;

// By AxisId.
std::span<const Axis* const> Axes();

// The names of the values of Recompute, as plans and wishes have them.
inline constexpr std::array<std::string_view, 3> kRecomputeNames = {"none", "full", "selective"};
std::optional<uint32_t> FindRecompute(std::string_view name);

// The value of an axis that has names for its values: "1f1b" of `schedule`. None: no such name.
std::optional<uint32_t> NamedValue(AxisId axis, std::string_view name);
// The names of an axis's values, with commas between them; "": they are numbers.
std::string ValueNames(AxisId axis);
// The name of a value, or its number where there is none.
std::string ValueText(AxisId axis, uint32_t value);

// "pipeline 2, data 4, 8 micro-batches, 1f1b".
std::string WordsOf(const Shape& shape);

// At most `most` of the values, evenly spaced, with the first and the last.
std::vector<uint32_t> Thinned(const std::vector<uint32_t>& values, size_t most);
inline constexpr size_t kDivisorsMost = 24;

// The divisors of `whole`, in ascending order.
std::vector<uint32_t> DivisorsOf(uint64_t whole, uint32_t most);

}  // namespace paceline::plan

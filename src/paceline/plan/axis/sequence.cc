#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"

namespace paceline::plan {
namespace {

std::string RefusesSequence(const Scene& scene, const Shape& chosen, uint32_t value) {
  if (value > 1) return "it is on (1) or off (0)";
  if (value == 0) return "";
  if (chosen.tensor == 1) return "no ranks share layers, so none can divide their sequences";
  const auto is_divided = [](const LayerRow& row) {
    return row.tensor.has_value() && row.tensor->sequence.has_value();
  };
  if (std::none_of(scene.rows.begin(), scene.rows.end(), is_divided)) {
    return "the model's summary says of no layer how its sequence is divided";
  }
  if (scene.sequence_divides % chosen.tensor != 0) {
    return Concat(chosen.tensor, " does not divide the ", scene.sequence_divides,
                  " tokens of a sample");
  }
  return "";
}

// Divided sequences take less memory and send as many bytes, but for the two gathers of a stage. So
// whole ones are only looked at if they are asked for.
std::vector<uint32_t> SequenceValues(const Scene& scene, const Shape& chosen) {
  return {RefusesSequence(scene, chosen, 1).empty() ? 1u : 0u};
}

}  // namespace

const Axis kSequenceAxis = {
    .name = "sequence",
    .alias = "sp",
    .field = &Shape::sequence,
    .values = SequenceValues,
    .refuses = RefusesSequence,
    .words = [](uint32_t value) { return std::string(value == 0 ? "" : "divided sequences"); }};

}  // namespace paceline::plan

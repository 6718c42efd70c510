#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"

namespace paceline::plan {
namespace {

std::string RefusesTensor(const Scene& scene, const Shape& chosen, uint32_t value) {
  if (value == 0) return "a layer is on at least one device";
  if (value == 1) return "";
  if (!scene.no_tensor.empty()) return scene.no_tensor;
  const auto is_divided = [](const LayerRow& layer) { return layer.tensor.has_value(); };
  if (std::none_of(scene.layers.begin(), scene.layers.end(), is_divided)) {
    return "the model's summary says of no layer how it is divided";
  }
  if (scene.tensor_divides % value != 0) {
    return Concat(value, " does not divide ", scene.tensor_divides,
                  ", the greatest number that divides the heads and sizes of the divided layers");
  }
  if (value > scene.cluster.node) {
    return Concat("a node has ", Counted(scene.cluster.node, "device"),
                  ", and its sums are too slow over other links");
  }
  const auto has_room = [&](uint32_t count) { return count / value >= 1; };
  if (std::none_of(scene.counts.begin(), scene.counts.end(), has_room)) {
    return Concat("there are not ", value, " devices of one type");
  }
  if (chosen.pipeline * value > scene.devices) {
    return Concat("the cluster has ", Counted(scene.devices, "device"));
  }
  return "";
}

std::vector<uint32_t> TensorValues(const Scene& scene, const Shape& chosen) {
  std::vector<uint32_t> values;
  for (const uint32_t value : {1u, 2u, 4u, 8u}) {
    if (RefusesTensor(scene, chosen, value).empty()) values.push_back(value);
  }
  return values;
}

}  // namespace

const Axis kTensorAxis = {
    .name = "tensor",
    .alias = "tp",
    .field = &Shape::tensor,
    .values = TensorValues,
    .refuses = RefusesTensor,
    .words = [](uint32_t value) { return value == 1 ? "" : Concat("tensor ", value); }};

}  // namespace paceline::plan

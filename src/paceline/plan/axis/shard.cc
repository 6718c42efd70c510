#include "paceline/plan/axis/axis.h"

namespace paceline::plan {
namespace {

std::string RefusesShard(const Scene&, const Shape& chosen, uint32_t value) {
  if (value > 1) return "it is on (1) or off (0)";
  if (value == 1 && chosen.data == 1) return "one replica has nobody to divide its state with";
  return "";
}

std::vector<uint32_t> ShardValues(const Scene& scene, const Shape& chosen) {
  if (RefusesShard(scene, chosen, 1).empty()) return {0, 1};
  return {0};
}

}  // namespace

const Axis kShardAxis = {
    .name = "shard",
    .alias = "fsdp",
    .field = &Shape::shard,
    .values = ShardValues,
    .refuses = RefusesShard,
    .words = [](uint32_t value) { return std::string(value == 0 ? "" : "sharded state"); }};

}  // namespace paceline::plan

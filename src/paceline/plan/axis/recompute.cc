#include "paceline/plan/axis/axis.h"

namespace paceline::plan {

const Axis kRecomputeAxis = {
    .name = "recompute",
    .alias = "ac",
    .field = &Shape::recompute,
    .values =
        [](const Scene&, const Shape&) {
          return std::vector<uint32_t>{0, 1};
        },
    .refuses =
        [](const Scene&, const Shape&, uint32_t value) {
          return std::string(value > 1 ? "it is on (1) or off (0)" : "");
        },
    .words = [](uint32_t value) { return std::string(value == 0 ? "" : "recomputation"); }};

}  // namespace paceline::plan

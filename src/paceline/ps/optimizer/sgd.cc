#include "paceline/ps/optimizer/optimizers.h"

namespace paceline::ps {
namespace {

// value -= rate × gradient
void SgdPortable(const OptimizerSpec& spec, uint32_t dim, float* row, const float* gradient) {
  const auto rate = static_cast<float>(spec.rate);
  for (uint32_t i = 0; i < dim; ++i) row[i] -= rate * gradient[i];
}

}  // namespace

Optimizer Sgd() {
  return {.name = "sgd",
          .state_floats = [](uint32_t) { return 0u; },
          .init_state = [](const OptimizerSpec&, uint32_t, float*) {},
          .step = SgdPortable,
          .portable_step = SgdPortable};
}

}  // namespace paceline::ps

#include <algorithm>
#include <cmath>

#include "paceline/ps/optimizer/optimizers.h"

namespace paceline::ps {
namespace {

// As torch.optim.Adagrad. The state is the sum of the squared gradients:
//   sum += gradient²
//   value -= rate × gradient / (√sum + epsilon)
void AdagradPortable(const OptimizerSpec& spec, uint32_t dim, float* row, const float* gradient) {
  const auto rate = static_cast<float>(spec.rate);
  const auto epsilon = static_cast<float>(spec.epsilon);
  float* sum = row + dim;
  for (uint32_t i = 0; i < dim; ++i) {
    sum[i] += gradient[i] * gradient[i];
    row[i] -= rate * gradient[i] / (std::sqrt(sum[i]) + epsilon);
  }
}

}  // namespace

Optimizer Adagrad() {
  return {
      .name = "adagrad",
      .state_floats = [](uint32_t dim) { return dim; },
      .init_state = [](const OptimizerSpec& spec, uint32_t dim,
                       float* state) { std::fill_n(state, dim, static_cast<float>(spec.initial)); },
      .step = AdagradPortable,
      .portable_step = AdagradPortable};
}

}  // namespace paceline::ps

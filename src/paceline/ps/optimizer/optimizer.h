#pragma once

// An optimizer changes a row by its gradient. A row is `dim` values and then the optimizer's state.
// Every optimizer is one file of this folder and one row in optimizers.cc.
//
// Results do not depend on the processor: kernels for AVX2 do the same operations in the same order
// as their scalar twins, without fused multiply-add.

#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/ps/table_spec.h"

namespace paceline::ps {

// Changes one row: `row` is dim values and the state, `gradient` is dim values.
using StepFn = void (*)(const OptimizerSpec& spec, uint32_t dim, float* row, const float* gradient);

struct Optimizer {
  std::string_view name;
  uint32_t (*state_floats)(uint32_t dim);
  void (*init_state)(const OptimizerSpec& spec, uint32_t dim, float* state);
  StepFn step;           // for this processor
  StepFn portable_step;  // the scalar twin
};

// Null if there is none with this name.
const Optimizer* FindOptimizer(std::string_view name);

std::string OptimizerNames();  // "sgd, adagrad, adam"

}  // namespace paceline::ps

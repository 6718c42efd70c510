#pragma once

// An optimizer changes rows by their gradients. A row is `dim` values and then the optimizer's
// state. Every optimizer is one file of this folder and one row in optimizers.cc.
//
// Results do not depend on the processor: kernels for AVX2 do the same operations in the same order
// as their scalar twins, without fused multiply-add.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "paceline/ps/table_spec.h"

namespace paceline::ps {

// Row i takes gradient i, which is `dim` floats from gradients + i × dim. Null rows are left out.
// Rows may be the same: they take their gradients in order.
using StepFn = void (*)(const OptimizerSpec& spec, uint32_t dim, std::span<float* const> rows,
                        const float* gradients);

struct Optimizer {
  std::string_view name;
  uint32_t (*state_floats)(uint32_t dim) = nullptr;
  void (*init_state)(const OptimizerSpec& spec, uint32_t dim, float* state) = nullptr;
  StepFn step = nullptr;           // for this processor
  StepFn portable_step = nullptr;  // the scalar twin
};

// Null if there is none with this name.
const Optimizer* FindOptimizer(std::string_view name);

std::string OptimizerNames();  // "sgd, adagrad, adam"

}  // namespace paceline::ps

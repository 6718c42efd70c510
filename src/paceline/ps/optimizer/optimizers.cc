#include "paceline/ps/optimizer/optimizers.h"

#include <array>

namespace paceline::ps {
namespace {

const std::array<Optimizer, 3>& AllOptimizers() {
  static const std::array<Optimizer, 3> all = {Sgd(), Adagrad(), Adam()};
  return all;
}

}  // namespace

const Optimizer* FindOptimizer(std::string_view name) {
  for (const Optimizer& optimizer : AllOptimizers()) {
    if (optimizer.name == name) return &optimizer;
  }
  return nullptr;
}

std::string OptimizerNames() {
  std::string names;
  for (const Optimizer& optimizer : AllOptimizers()) {
    if (!names.empty()) names += ", ";
    names += optimizer.name;
  }
  return names;
}

}  // namespace paceline::ps

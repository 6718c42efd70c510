#include "paceline/sim/pool/pool_run.h"

#include <algorithm>

namespace paceline::sim {
namespace {

PoolFigure FigureOf(const std::vector<double>& values) {
  if (values.empty()) return {};
  PoolFigure figure{.mean = 0, .least = values.front(), .most = values.front()};
  for (const double value : values) {
    figure.mean += value / static_cast<double>(values.size());
    figure.least = std::min(figure.least, value);
    figure.most = std::max(figure.most, value);
  }
  return figure;
}

}  // namespace

PoolFigure PoolResult::Over(double (*value)(const PoolOutcome&)) const {
  std::vector<double> values;
  for (const PoolOutcome& outcome : outcomes) values.push_back(value(outcome));
  return FigureOf(values);
}

std::vector<PoolResult> RunPools(const std::vector<PoolTrace>& traces,
                                 const std::vector<const PoolPolicyEntry*>& policies) {
  std::vector<PoolResult> results;
  for (const PoolPolicyEntry* entry : policies) {
    PoolResult result{.policy = entry->name, .outcomes = {}};
    for (const PoolTrace& trace : traces) {
      const std::unique_ptr<PoolPolicy> policy = entry->make();
      result.outcomes.push_back(RunPool(trace, *policy));
    }
    results.push_back(std::move(result));
  }
  return results;
}

PoolFigure JobTimeRatio(const PoolResult& one, const PoolResult& base) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(one.outcomes.size(), base.outcomes.size()); ++i) {
    const double before = base.outcomes[i].MeanJobSeconds();
    if (before > 0) ratios.push_back(one.outcomes[i].MeanJobSeconds() / before);
  }
  return FigureOf(ratios);
}

}  // namespace paceline::sim

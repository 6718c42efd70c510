#include "paceline/plan/utilization.h"

#include <cstdio>

#include "paceline/base/text.h"
#include "paceline/plan/devices.h"
#include "paceline/plan/explain.h"

namespace paceline::plan {
namespace {

constexpr double kPassesOfAStep = 3;
constexpr double kTera = 1e12;

}  // namespace

void AddUtilization(const ModelSummary& model, const Cluster& cluster, ParallelPlan* plan) {
  PlanCost& cost = plan->predicted;
  double devices = 0;
  double peak = 0;
  bool has_peak = true;
  for (const DeviceRun& run : cluster.runs) {
    const auto of_one = PeakFlops(cluster.types[run.type].name, model.precision);
    devices += run.count;
    peak += of_one.value_or(0) * run.count;
    has_peak = has_peak && of_one.has_value();
  }
  if (!(cost.step > 0) || !(devices > 0)) return;
  const double rate = StepFlops(model, plan->global_batch) / cost.step;
  cost.device_flops = rate / devices;
  if (has_peak) cost.utilization = rate / peak;
}

double StepFlops(const ModelSummary& model, uint64_t global_batch) {
  double flops = 0;  // of a sample's forward pass
  for (const LayerRow& row : model.rows) flops += row.flops * row.count;
  return kPassesOfAStep * flops * static_cast<double>(global_batch);
}

std::string UtilizationText(const PlanCost& cost) {
  if (!cost.device_flops.has_value()) return "";
  const double tera = *cost.device_flops / kTera;
  char rate[64];
  std::snprintf(rate, sizeof(rate), "%.*f", tera < 10 ? 2 : tera < 100 ? 1 : 0, tera);
  std::string text = Concat(rate, " TFLOP/s a device");
  if (!cost.utilization.has_value()) return text;
  return Concat(text, ", ", PercentText(*cost.utilization), " of the peak (MFU)");
}

}  // namespace paceline::plan

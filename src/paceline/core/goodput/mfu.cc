#include "paceline/core/goodput/mfu.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "paceline/base/text.h"
#include "paceline/plan/devices.h"
#include "paceline/plan/json.h"
#include "paceline/plan/utilization.h"

namespace paceline::core {

void MfuMeter::Fold(const Fact& fact, double seated, int64_t steps) {
  if (const auto* model = std::get_if<ModelDescribed>(&fact)) {
    Settle(seated, steps);
    return Take(*model);
  }
  if (const auto* plan = std::get_if<ParallelPlanChosen>(&fact)) {
    Settle(seated, steps);
    return Take(*plan);
  }
  const bool tells = std::holds_alternative<TimeAccounted>(fact) ||
                     std::holds_alternative<WorldEnded>(fact) ||
                     std::holds_alternative<JobFinished>(fact);
  if (tells) Settle(seated, steps);
}

void MfuMeter::Settle(double seated, int64_t steps) {
  if (!has_plan_ || !(step_flops_ > 0)) return;
  if (!peak_.has_value() && steps > steps_ && blind_because_.empty()) blind_because_ = no_peak_;
  done_ += step_flops_ * static_cast<double>(steps - steps_);
  possible_ += peak_.value_or(0) * (seated - seated_);
  steps_ = steps;
  seated_ = seated;
}

void MfuMeter::Take(const ModelDescribed& model) {
  step_flops_ = 0;
  const auto summary = plan::ReadSummary(model.summary);
  if (!summary.ok()) return;
  step_flops_ = plan::StepFlops(*summary, model.global_batch);
  precision_ = summary->precision;
}

void MfuMeter::Take(const ParallelPlanChosen& chosen) {
  has_plan_ = true;
  peak_.reset();
  no_peak_ = "the devices of the plan cannot be read";
  const auto cluster = plan::ReadCluster(chosen.cluster);
  if (!cluster.ok()) return;
  double devices = 0;
  double peak = 0;
  for (const DeviceRun& run : cluster->runs) {
    const std::string& name = cluster->types[run.type].name;
    const auto of_one = plan::PeakFlops(name, precision_);
    if (!of_one.has_value()) {
      no_peak_ = Concat("the peak of \"", name, "\" is not in the catalogue of devices");
      return;
    }
    devices += run.count;
    peak += *of_one * run.count;
  }
  if (devices > 0) peak_ = peak / devices;
}

MfuReport MfuMeter::Report() const {
  if (!has_plan_) return {{}, "no rank told a plan, which has the model's arithmetic"};
  if (!(step_flops_ > 0)) return {{}, "the plan does not tell the model's arithmetic"};
  if (!blind_because_.empty()) return {{}, blind_because_};
  if (!peak_.has_value()) return {{}, no_peak_};
  if (steps_ <= 0 || possible_ <= 0) return {{}, "no step was told yet"};
  return {std::max(0.0, done_ / possible_), ""};
}

}  // namespace paceline::core

#pragma once

// Model FLOPs utilization (MFU): the model's arithmetic of the steps that count, divided by what
// the devices of the seated ranks could have done in all their time, restarts and waiting included.
//
// The idea: both numbers are added up between the records that say how many steps are done. A
// step's arithmetic is that of ModelDescribed, and the devices' peak is that of the cluster that
// the ranks told with their plan. Time and steps before the first plan count with that plan,
// because the ranks of the first world describe it a while after their start. Nothing is guessed:
// without a plan, or with a device that the catalogue of plan/devices.h does not have, the value is
// unknown.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/record.h"

namespace paceline::core {

struct MfuReport {
  std::optional<double> ratio;
  std::string unknown_because;  // a part of a sentence; "" if the ratio is known
};

class MfuMeter {
 public:
  // `seated` are the slot-seconds of seated ranks since the first world was formed, and `steps` the
  // steps that no other one repeated, both with this record.
  void Fold(const Fact& fact, double seated, int64_t steps);
  // Until the newest record that told steps.
  MfuReport Report() const;

 private:
  void Settle(double seated, int64_t steps);
  void Take(const ModelDescribed& model);
  void Take(const ParallelPlanChosen& plan);

  double step_flops_ = 0;  // of a step; 0: not known
  std::string precision_;
  std::optional<double> peak_;  // of a rank's devices, their mean; none: not known
  std::string no_peak_;         // why; a part of a sentence
  bool has_plan_ = false;
  std::string blind_because_;  // some steps could not be compared; "": all could
  double seated_ = 0;          // that are settled, as the steps are
  int64_t steps_ = 0;
  double done_ = 0;
  double possible_ = 0;
};

}  // namespace paceline::core

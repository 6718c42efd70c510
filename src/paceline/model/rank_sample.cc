#include "paceline/model/rank_sample.h"

#include <utility>

namespace paceline {
namespace {

void AddTo(StepSums* sums, const StepSums& more) {
  sums->whole += more.whole;
  sums->own += more.own;
  sums->data += more.data;
  sums->waited += more.waited;
}

}  // namespace

bool StepMeter::Add(const StepSums& step) {
  StepSums shorter = step;
  if (in_block_ == 0) {
    longest_ = step;
    shorter = {};
  } else if (step.whole > longest_.whole) {
    shorter = std::exchange(longest_, step);
  }
  AddTo(&block_, shorter);
  if (++in_block_ < kBlockSteps) return false;
  AddTo(&sums_, block_);
  sums_.steps += kBlockSteps - 1;
  block_ = {};
  in_block_ = 0;
  return true;
}

}  // namespace paceline

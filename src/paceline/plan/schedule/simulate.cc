#include <algorithm>

#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

constexpr double kNotDone = -1;

struct StageRun {
  std::vector<Pass> order;
  size_t next = 0;
  double free_at = 0;
  uint32_t held = 0;
  std::vector<double> forward;  // when each micro-batch's pass ended
  std::vector<double> backward;
};

class StepRun {
 public:
  StepRun(const std::vector<StageTime>& times, uint32_t micro_batches, const Schedule& schedule)
      : times_(times), stages_(times.size()) {
    const auto count = static_cast<uint32_t>(times.size());
    for (uint32_t i = 0; i < count; ++i) {
      stages_[i].order = schedule.order(i, count, micro_batches);
      stages_[i].forward.assign(micro_batches, kNotDone);
      stages_[i].backward.assign(micro_batches, kNotDone);
    }
    step_.busy.assign(count, 0);
    step_.in_flight.assign(count, 0);
  }

  std::optional<SimulatedStep> Run() {
    bool is_moving = true;
    while (is_moving) {
      is_moving = false;
      for (size_t i = 0; i < stages_.size(); ++i) {
        while (DoNext(i)) is_moving = true;
      }
    }
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (stages_[i].next < stages_[i].order.size()) return std::nullopt;
      step_.busy[i] += times_[i].after;
      step_.seconds = std::max(step_.seconds, stages_[i].free_at + times_[i].after);
    }
    return std::move(step_);
  }

 private:
  // When the pass may begin; kNotDone if its inputs are not computed yet.
  double ReadyAt(size_t stage, const Pass& pass) const {
    if (!pass.is_backward) {
      if (stage == 0) return 0;
      const double before = stages_[stage - 1].forward[pass.micro_batch];
      return before == kNotDone ? kNotDone : before + times_[stage].transfer;
    }
    const double own = stages_[stage].forward[pass.micro_batch];
    if (stage + 1 == stages_.size() || own == kNotDone) return own;
    const double next = stages_[stage + 1].backward[pass.micro_batch];
    return next == kNotDone ? kNotDone : next + times_[stage + 1].transfer;
  }

  bool DoNext(size_t index) {
    StageRun& stage = stages_[index];
    if (stage.next == stage.order.size()) return false;
    const Pass pass = stage.order[stage.next];
    const double ready = ReadyAt(index, pass);
    if (ready == kNotDone) return false;
    const double seconds = pass.is_backward ? times_[index].backward : times_[index].forward;
    stage.free_at = std::max(stage.free_at, ready) + seconds;
    (pass.is_backward ? stage.backward : stage.forward)[pass.micro_batch] = stage.free_at;
    step_.busy[index] += seconds;
    stage.held += pass.is_backward ? -1 : 1;
    step_.in_flight[index] = std::max(step_.in_flight[index], stage.held);
    ++stage.next;
    return true;
  }

  const std::vector<StageTime>& times_;
  std::vector<StageRun> stages_;
  SimulatedStep step_;
};

}  // namespace

std::optional<SimulatedStep> Simulate(const std::vector<StageTime>& stages, uint32_t micro_batches,
                                      const Schedule& schedule) {
  return StepRun(stages, micro_batches, schedule).Run();
}

}  // namespace paceline::plan

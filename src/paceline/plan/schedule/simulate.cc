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
};

// When the passes of a virtual stage ended, by micro-batch.
struct ChunkRun {
  std::vector<double> forward;
  std::vector<double> backward;
};

class StepRun {
 public:
  StepRun(const std::vector<StageTime>& times, const PipelineSize& size, const Schedule& schedule)
      : times_(times), stages_(size.stages), chunks_(times.size()) {
    for (uint32_t i = 0; i < size.stages; ++i) stages_[i].order = schedule.order(i, size);
    for (ChunkRun& chunk : chunks_) {
      chunk.forward.assign(size.micro_batches, kNotDone);
      chunk.backward.assign(size.micro_batches, kNotDone);
    }
    step_.busy.assign(size.stages, 0);
    step_.in_flight.assign(size.stages, 0);
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
      double after = 0;
      for (size_t at = i; at < times_.size(); at += stages_.size()) after += times_[at].after;
      step_.busy[i] += after;
      step_.seconds = std::max(step_.seconds, stages_[i].free_at + after);
    }
    return std::move(step_);
  }

 private:
  // When the pass of the virtual stage may begin; kNotDone if its inputs are not computed yet.
  double ReadyAt(size_t at, const Pass& pass) const {
    if (pass.kind == PassKind::kForward) {
      if (at == 0) return 0;
      const double before = chunks_[at - 1].forward[pass.micro_batch];
      return before == kNotDone ? kNotDone : before + times_[at].transfer;
    }
    const double own = chunks_[at].forward[pass.micro_batch];
    if (pass.kind == PassKind::kWeight) return chunks_[at].backward[pass.micro_batch];
    if (at + 1 == chunks_.size() || own == kNotDone) return own;
    const double next = chunks_[at + 1].backward[pass.micro_batch];
    return next == kNotDone ? kNotDone : next + times_[at + 1].transfer;
  }

  static double SecondsOf(const StageTime& time, PassKind kind) {
    switch (kind) {
      case PassKind::kForward: return time.forward;
      case PassKind::kBackward: return time.backward;
      case PassKind::kInput: return time.backward - time.weight;
      case PassKind::kWeight: return time.weight;
    }
    return 0;
  }

  bool DoNext(size_t index) {
    StageRun& stage = stages_[index];
    if (stage.next == stage.order.size()) return false;
    const Pass pass = stage.order[stage.next];
    const size_t at = pass.chunk * stages_.size() + index;
    const double ready = ReadyAt(at, pass);
    if (ready == kNotDone) return false;
    const double seconds = SecondsOf(times_[at], pass.kind);
    stage.free_at = std::max(stage.free_at, ready) + seconds;
    if (pass.kind == PassKind::kForward) {
      chunks_[at].forward[pass.micro_batch] = stage.free_at;
      ++stage.held;
    } else {
      // Weights are what a micro-batch needs its activations for to the end.
      if (pass.kind != PassKind::kWeight) chunks_[at].backward[pass.micro_batch] = stage.free_at;
      if (pass.kind != PassKind::kInput) --stage.held;
    }
    step_.busy[index] += seconds;
    step_.in_flight[index] = std::max(step_.in_flight[index], stage.held);
    ++stage.next;
    return true;
  }

  const std::vector<StageTime>& times_;
  std::vector<StageRun> stages_;
  std::vector<ChunkRun> chunks_;  // by virtual stage
  SimulatedStep step_;
};

}  // namespace

std::optional<SimulatedStep> Simulate(const std::vector<StageTime>& times, const PipelineSize& size,
                                      const Schedule& schedule) {
  return StepRun(times, size, schedule).Run();
}

}  // namespace paceline::plan

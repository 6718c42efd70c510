#include "paceline/core/succession/memo.h"

#include <algorithm>

#include "paceline/core/finish.h"
#include "paceline/core/job_state.h"

namespace paceline::core {
namespace {

std::string Clipped(const std::string& text) { return text.substr(0, Memo::kTextMax); }

}  // namespace

Memo MemoOf(const JobState& state) {
  const BudgetState& budget = state.budget;
  Memo memo{.charged_failures = budget.charged_failures,
            .failures_without_progress = budget.failures_without_progress,
            .same_failure_count = budget.same_failure_count,
            .last_fingerprint = Clipped(budget.last_fingerprint),
            .last_headline = Clipped(budget.last_headline),
            .last_failure_step = budget.last_failure_step,
            .worlds = WorldNumber(state.generation),
            .excluded = state.excluded,
            .chosen_nodes = state.size.nodes,
            .is_size_measured = state.size.is_measured};
  for (const auto& [index, wished] : state.wished) {
    if (memo.replaced.size() >= Memo::kIndexesMax) break;
    if (wished.replaced > 0) memo.replaced[index] = wished.replaced;
  }
  // Without this condition, the memo would change with each step.
  if (memo.failures_without_progress > 0 || !memo.replaced.empty()) memo.step_max = state.step_max;
  // A job that its platform has ended, after a notice, goes on.
  if (state.phase == Phase::kFinished && state.exit_code != kExitStoppedSaved) {
    memo.exit_code = state.exit_code;
    memo.final_reason = Clipped(state.final_reason);
  }
  return memo;
}

void Apply(const Memo& memo, JobState* state) {
  BudgetState& budget = state->budget;
  budget.charged_failures = memo.charged_failures;
  budget.failures_without_progress = memo.failures_without_progress;
  budget.same_failure_count = memo.same_failure_count;
  budget.last_fingerprint = memo.last_fingerprint;
  budget.last_headline = memo.last_headline;
  budget.last_failure_step = memo.last_failure_step;
  budget.last_failure_at = state->last_record_at;
  state->budget_before = budget;
  state->generation = std::max(state->generation, GenerationOf(state->term, memo.worlds));
  state->step_max = std::max(state->step_max, memo.step_max);
  for (const auto& [index, replaced] : memo.replaced) state->wished[index].replaced = replaced;
  state->excluded = memo.excluded;
  state->size.nodes = memo.chosen_nodes;
  state->size.is_measured = memo.is_size_measured;
}

}  // namespace paceline::core

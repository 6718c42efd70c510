// Silence of a node with a stream: its agent is frozen, or the network drops its messages.

#include "paceline/core/detect/detectors.h"
#include "paceline/core/detect/loss_cost.h"

namespace paceline::core {
namespace {

std::string Reason(const NodeView& view, Duration silent, Duration limit) {
  const LossCost cost = CostOfLoss(view);
  std::string text = "was silent for " + ToString(silent) + " (limit " + ToString(limit);
  const bool is_priced = limit > SilenceLimitMin(view.state.spec, view.link.loop_delay);
  if (is_priced) {
    text += ": going on without it costs " + ToString(cost.redo) +
            " of training and a restart of " + ToString(cost.restart);
  }
  return text + ")";
}

}  // namespace

Verdict JudgeHeartbeat(const NodeView& view, Instant now) {
  if (!view.link.connection) return {};
  const Instant heard = view.link.last_heard;
  const Instant suspect_at = heard + SuspectAfter(view.state.spec, view.link.loop_delay);
  if (now < suspect_at) return {Verdict::Kind::kHealthy, suspect_at, ""};
  const Duration limit = SilenceLimit(view);
  if (now >= heard + limit) {
    return {Verdict::Kind::kLost, Instant::Max(), Reason(view, now - heard, limit)};
  }
  return {Verdict::Kind::kSuspect, heard + limit, "has been silent for " + ToString(now - heard)};
}

}  // namespace paceline::core

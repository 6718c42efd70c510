#include "paceline/master/report/summary.h"

#include <cmath>
#include <variant>

#include "paceline/master/succession/memo.h"

namespace paceline::master {
namespace {

constexpr Duration kPause = Duration::Seconds(1);

// A failed rank that is neither charged nor an explanation is no cause: it failed because of an
// earlier failure, or was asked to end.
bool IsCause(const core::RankFailed& failed) { return failed.charged || failed.explains; }

bool IsFailure(const core::Fact& fact) {
  if (const auto* failed = std::get_if<core::RankFailed>(&fact)) return IsCause(*failed);
  return std::holds_alternative<core::NodeLost>(fact) ||
         std::holds_alternative<core::NodeLeft>(fact) ||
         std::holds_alternative<core::NodeEvicted>(fact) ||
         std::holds_alternative<core::HangJudged>(fact) ||
         std::holds_alternative<core::WishChanged>(fact);
}

}  // namespace

void SummaryTeller::Fold(const core::Record& record) {
  if (IsFailure(record.fact)) last_ = core::Sentence(record);
}

std::optional<wire::Summary> SummaryTeller::Take(Instant now, const wire::JobStatus& status,
                                                 const StateCounts& counts,
                                                 const core::JobState& state) {
  next_at_ = now + kPause;
  wire::Summary summary{.phase = status.phase,
                        .pending = status.pending,
                        .nodes = static_cast<uint32_t>(counts.In(core::NodeState::Status::kSeated)),
                        .spares = static_cast<uint32_t>(counts.spares_connected),
                        .step = status.step,
                        .goodput = std::floor(status.goodput * 1000) / 1000,
                        .last = last_,
                        .restart_count = status.restart_count,
                        .memo = MemoText(core::MemoOf(state))};
  if (told_ == summary) return std::nullopt;
  told_ = summary;
  return summary;
}

}  // namespace paceline::master

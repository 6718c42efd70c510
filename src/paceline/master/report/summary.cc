#include "paceline/master/report/summary.h"

#include <cmath>
#include <utility>
#include <variant>

#include "paceline/master/succession/memo.h"

namespace paceline::master {
namespace {

constexpr Duration kPause = Duration::Seconds(1);
constexpr Duration kMeasuresPause = Duration::Seconds(10);

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

void SummaryTeller::SetSize(const core::ChosenSize& size) { size_ = size; }

void SummaryTeller::NoteWanted(uint32_t nodes, std::string refusal) {
  size_refused_ = refusal.empty() ? 0 : nodes;
  refusal_ = std::move(refusal);
}

void SummaryTeller::SetMeasures(Instant now, std::vector<wire::Measure> measures) {
  measures_due_ = now + kMeasuresPause;
  measures_ = std::move(measures);
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
                        .memo = MemoText(core::MemoOf(state)),
                        .size = {},
                        .size_is_measured = size_.has_value() && size_->is_measured,
                        .size_refused = size_refused_,
                        .refusal = refusal_,
                        .measures = measures_};
  if (size_.has_value()) summary.size = size_->nodes;
  if (told_ == summary) return std::nullopt;
  told_ = summary;
  return summary;
}

}  // namespace paceline::master

#include "paceline/wire/codec/pace_proto.h"

#include <cmath>

#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"

namespace paceline::wire {
namespace {

void Fill(const StepSums& from, pb::RankSample* to){PACELINE_STEP_SUMS(PUT)}

absl::Status Take(const pb::RankSample& from, StepSums* to) {
  PACELINE_STEP_SUMS(TAKE)
  return absl::OkStatus();
}

void Fill(const SlowFinding& from, pb::SlowFinding* to) {
  PACELINE_SLOW_FINDING(PUT)
  for (const Rank rank : from.ranks) to->add_ranks(rank.value());
}
absl::Status Take(const pb::SlowFinding& from, SlowFinding* to) {
  PACELINE_SLOW_FINDING(TAKE)
  if (from.ranks_size() > kRanksPerMessageMax) return Invalid("ranks", "are too many");
  for (const uint32_t rank : from.ranks()) {
    RETURN_IF_ERROR(Decode(rank, "rank", &to->ranks.emplace_back()));
  }
  const bool is_possible =
      std::isfinite(to->excess) && std::isfinite(to->cost) && std::isfinite(to->steps_a_day);
  return is_possible ? absl::OkStatus() : Invalid("finding", "has an impossible number");
}

uint64_t Milliseconds(Duration duration) { return static_cast<uint64_t>(duration.milliseconds()); }

}  // namespace

void ToProto(const BadLoss& from, pb::BadLoss* to) {
  PACELINE_BAD_LOSS(PUT)
  to->set_kind(static_cast<uint32_t>(from.kind));
}

void ToProto(const RankSample& from, pb::RankSample* to) {
  PACELINE_RANK_SAMPLE(PUT)
  Fill(from.sums, to);
}

void ToProto(const RankTimes& from, pb::RankTimes* to) {
  PACELINE_RANK_TIMES(PUT)
  to->set_phase(static_cast<uint32_t>(from.phase));
  for (const Duration spent : from.times.of) to->add_spent(Milliseconds(spent));
  to->set_waited(Milliseconds(from.times.waited));
}

void ToProto(const SlowStatus& from, pb::SlowStatus* to) {
  PACELINE_SLOW_STATUS(PUT)
  to->mutable_ranks()->Add(from.ranks.begin(), from.ranks.end());
}

void ToProto(const HangStatus& from, pb::HangStatus* to) {
  PACELINE_HANG_STATUS(PUT)
  to->mutable_ranks()->Add(from.ranks.begin(), from.ranks.end());
}

void Put(const core::RankSlow& from, pb::Fact* fact) {
  auto* to = fact->mutable_rank_slow();
  to->set_generation(from.generation.value());
  Fill(from.finding, to->mutable_finding());
}
void Put(const core::RankNoLongerSlow& from, pb::Fact* fact) {
  auto* to = fact->mutable_rank_no_longer_slow();
  to->set_generation(from.generation.value());
  Fill(from.finding, to->mutable_finding());
}
void Put(const core::TimeAccounted& from, pb::Fact* fact) {
  auto* to = fact->mutable_time_accounted();
  PACELINE_TIME_ACCOUNTED(PUT)
  to->mutable_spent()->Add(from.spent.begin(), from.spent.end());
}
void Put(const core::LossWentBad& from, pb::Fact* fact) {
  auto* to = fact->mutable_loss_went_bad();
  to->set_generation(from.generation.value());
  to->set_rank(from.rank.value());
  ToProto(from.bad, to->mutable_bad());
}

absl::Status FromProto(const pb::BadLoss& from, BadLoss* to) {
  PACELINE_BAD_LOSS(TAKE)
  if (to->step < -1) return Invalid("step", "is out of range");
  if (from.kind() >= kBadLossKinds) return Invalid("kind", "is unknown");
  to->kind = static_cast<BadLossKind>(from.kind());
  return absl::OkStatus();
}

absl::Status FromProto(const pb::RankSample& from, RankSample* to) {
  PACELINE_RANK_SAMPLE(TAKE)
  return Take(from, &to->sums);
}

// A newer release may tell of more phases than this one knows: they count as unknown.
absl::Status FromProto(const pb::RankTimes& from, RankTimes* to) {
  constexpr int kPhasesMax = 64;
  // 292 years are the most that a Duration has.
  constexpr uint64_t kMillisecondsMax = uint64_t{1} << 40;
  PACELINE_RANK_TIMES(TAKE)
  const auto known = [](uint32_t phase) {
    return phase < kRankPhases ? phase : static_cast<uint32_t>(RankPhase::kUnknown);
  };
  to->phase = static_cast<RankPhase>(known(from.phase()));
  if (from.spent_size() > kPhasesMax) return Invalid("spent", "has too many phases");
  if (from.waited() > kMillisecondsMax) return Invalid("waited", "is out of range");
  to->times.waited = Duration::Milliseconds(static_cast<int64_t>(from.waited()));
  for (int i = 0; i < from.spent_size(); ++i) {
    if (from.spent(i) > kMillisecondsMax) return Invalid("spent", "is out of range");
    to->times.of[known(static_cast<uint32_t>(i))] +=
        Duration::Milliseconds(static_cast<int64_t>(from.spent(i)));
  }
  return absl::OkStatus();
}

absl::Status FromProto(const pb::SlowStatus& from, SlowStatus* to) {
  PACELINE_SLOW_STATUS(TAKE)
  if (from.ranks_size() > kRanksPerMessageMax) return Invalid("ranks", "are too many");
  to->ranks.assign(from.ranks().begin(), from.ranks().end());
  return absl::OkStatus();
}

absl::Status FromProto(const pb::HangStatus& from, HangStatus* to) {
  PACELINE_HANG_STATUS(TAKE)
  if (from.ranks_size() > kRanksPerMessageMax) return Invalid("ranks", "are too many");
  to->ranks.assign(from.ranks().begin(), from.ranks().end());
  return absl::OkStatus();
}

absl::Status FromProto(const pb::RankSlow& from, core::RankSlow* to) {
  RETURN_IF_ERROR(Decode(from.generation(), "generation", &to->generation));
  return Take(from.finding(), &to->finding);
}
absl::Status FromProto(const pb::RankNoLongerSlow& from, core::RankNoLongerSlow* to) {
  RETURN_IF_ERROR(Decode(from.generation(), "generation", &to->generation));
  return Take(from.finding(), &to->finding);
}
absl::Status FromProto(const pb::TimeAccounted& from, core::TimeAccounted* to) {
  PACELINE_TIME_ACCOUNTED(TAKE)
  if (to->steps < 0) return Invalid("steps", "is negative");
  if (from.spent_size() > static_cast<int>(kTimeParts))
    return Invalid("spent", "has too many parts");
  for (int i = 0; i < from.spent_size(); ++i) {
    if (from.spent(i) < 0) return Invalid("spent", "is negative");
    to->spent[static_cast<size_t>(i)] = from.spent(i);
  }
  return absl::OkStatus();
}
absl::Status FromProto(const pb::LossWentBad& from, core::LossWentBad* to) {
  RETURN_IF_ERROR(Decode(from.generation(), "generation", &to->generation));
  RETURN_IF_ERROR(Decode(from.rank(), "rank", &to->rank));
  return FromProto(from.bad(), &to->bad);
}

}  // namespace paceline::wire

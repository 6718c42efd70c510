#include "paceline/core/slow/time_desk.h"

#include <algorithm>

namespace paceline::core {
namespace {

TimePart PartOfPhase(RankPhase phase) {
  switch (phase) {
    case RankPhase::kStart: return TimePart::kStart;
    case RankPhase::kData: return TimePart::kData;
    // On a GPU the script often waits between two steps for the device's work.
    case RankPhase::kUnknown:
    case RankPhase::kForward:
    case RankPhase::kBackward:
    case RankPhase::kOptimizer: return TimePart::kWork;
    case RankPhase::kCheckpoint: return TimePart::kCheckpoint;
    case RankPhase::kCompile: return TimePart::kCompile;
    case RankPhase::kEvaluation: return TimePart::kEvaluation;
    case RankPhase::kEnd: return TimePart::kEnd;
    case RankPhase::kRestore: return TimePart::kRestore;
  }
  return TimePart::kWork;
}

size_t NumberOf(TimePart part) { return static_cast<size_t>(part); }

}  // namespace

std::optional<TimeTold> TimeDesk::Take(Instant now, const JobState& state, NodeId node,
                                       const std::vector<RankTimes>& times) {
  if (times.empty() || !state.IsSeated(node)) return std::nullopt;
  const Generation generation = state.world->generation;
  if (generation_ != generation) {
    generation_ = generation;
    ranks_.clear();
    told_at_ = Instant();
    straggled_ = 0;
    window_since_ = now;
  }
  const Seat& seat = state.SeatOf(*state.Find(node));
  bool has_news = false;
  bool has_end = false;
  for (const RankTimes& one : times) {
    const uint32_t rank = one.rank.value();
    const bool is_here = rank >= seat.first_rank && rank - seat.first_rank < seat.rank_count;
    if (!is_here || one.generation != generation) continue;
    const auto [it, is_new] = ranks_.try_emplace(one.rank);
    if (is_new) it->second.waited_before = one.times.waited;
    it->second.times = one;
    it->second.at = now;
    has_news = true;
    has_end = has_end || one.has_ended;
  }
  const Duration every = has_end ? kTellEndsEvery : kTellEvery;
  if (!has_news || (told_at_ != Instant() && now - told_at_ < every)) return std::nullopt;
  told_at_ = now;
  const TimeTold told = Sum(now);
  if (now - window_since_ >= kWindow) {
    straggled_ += Straggling();
    for (auto& [rank, one] : ranks_) one.waited_before = one.times.times.waited;
    window_since_ = now;
  }
  return told;
}

int64_t TimeDesk::Straggling() const {
  Duration least = Duration::Infinite();
  for (const auto& [rank, one] : ranks_) {
    // The stages of a pipeline wait for each other by design.
    if (one.times.is_piped) return 0;
    least = std::min(least, one.times.times.waited - one.waited_before);
  }
  int64_t sum = 0;
  for (const auto& [rank, one] : ranks_) {
    sum += (one.times.times.waited - one.waited_before - least).milliseconds();
  }
  return sum;
}

TimeTold TimeDesk::Sum(Instant now) const {
  TimeTold told{.generation = generation_, .ranks = static_cast<uint32_t>(ranks_.size())};
  for (const auto& [rank, one] : ranks_) {
    const RankTimes& times = one.times;
    for (uint32_t i = 0; i < kRankPhases; ++i) {
      const TimePart part = PartOfPhase(static_cast<RankPhase>(i));
      told.spent[NumberOf(part)] += times.times.of[i].milliseconds();
    }
    if (times.has_ended) continue;
    const TimePart part = PartOfPhase(times.phase);
    told.spent[NumberOf(part)] += std::min(now - one.at, kGuessMax).milliseconds();
    ++told.now[NumberOf(part)];
  }
  int64_t& work = told.spent[NumberOf(TimePart::kWork)];
  const int64_t straggled = std::min(straggled_ + Straggling(), work);
  work -= straggled;
  told.spent[NumberOf(TimePart::kStraggler)] = straggled;
  return told;
}

}  // namespace paceline::core

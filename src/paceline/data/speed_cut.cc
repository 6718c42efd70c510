#include "paceline/data/speed_cut.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <queue>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/data/batch_cut.h"

namespace paceline {
namespace {

constexpr double kErrorsLeast = 3;  // standard errors that a gain must exceed
constexpr int kHalvings = 100;      // more than a double has bits
// With larger batches, products of two counts would overflow.
constexpr uint64_t kGlobalBatchMax = 1ull << 32;

uint64_t SamplesWithin(const LinearTime& rank, double seconds, ShareBounds bounds) {
  const double fitting = (seconds - rank.fixed) / rank.per_sample;
  if (!(fitting > static_cast<double>(bounds.least))) return bounds.least;
  if (fitting >= static_cast<double>(bounds.most)) return bounds.most;
  return static_cast<uint64_t>(fitting);
}

uint64_t Sum(const std::vector<uint64_t>& shares) {
  return std::accumulate(shares.begin(), shares.end(), uint64_t{0});
}

std::vector<uint64_t> EvenShares(uint64_t size, uint64_t ranks) {
  std::vector<uint64_t> shares;
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    shares.push_back(CutEvenly({0, size}, {.number = rank, .of = ranks}).size());
  }
  return shares;
}

double Longest(const std::vector<LinearTime>& lines, const std::vector<uint64_t>& shares) {
  double longest = 0;
  for (size_t rank = 0; rank < lines.size(); ++rank) {
    longest = std::max(longest, lines[rank].SecondsFor(static_cast<double>(shares[rank])));
  }
  return longest;
}

bool IsMeasured(const StepTime& time) {
  return time.samples > 0 && time.seconds > 0 && std::isfinite(time.samples) &&
         std::isfinite(time.seconds);
}

Failure InvalidCut(std::string why) {
  return {.kind = FailureKind::kInvalid, .message = std::move(why)};
}

}  // namespace

// Finds the common end time by bisection and rounds the shares down. Each left-over sample goes to
// the rank that would end first with it. This greedy order is optimal for the maximum of increasing
// functions.
std::vector<uint64_t> CutForEqualTimes(const std::vector<LinearTime>& ranks, uint64_t batch,
                                       ShareBounds bounds) {
  return CutForEqualTimes(ranks, batch, std::vector<ShareBounds>(ranks.size(), bounds));
}

std::vector<uint64_t> CutForEqualTimes(const std::vector<LinearTime>& ranks, uint64_t batch,
                                       const std::vector<ShareBounds>& bounds) {
  uint64_t least = 0;
  uint64_t most = 0;
  for (const ShareBounds& one : bounds) {
    CHECK(one.least <= one.most, "bounds of a rank");
    least += one.least;
    most += one.most;
  }
  CHECK(!ranks.empty() && ranks.size() == bounds.size() && least <= batch, "a share for each");
  CHECK(batch <= most, "room for the batch");
  const auto filled = [&](double seconds) {
    uint64_t sum = 0;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      sum += SamplesWithin(ranks[rank], seconds, bounds[rank]);
    }
    return sum;
  };
  double low = 0;
  double high = 0;
  for (const LinearTime& rank : ranks) {
    high = std::max(high, rank.SecondsFor(static_cast<double>(batch)));
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = low + (high - low) / 2;
    (filled(middle) <= batch ? low : high) = middle;
  }
  std::vector<uint64_t> shares;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    shares.push_back(SamplesWithin(ranks[rank], low, bounds[rank]));
  }
  using Next = std::pair<double, size_t>;  // end time with one more sample, rank
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto offer = [&](size_t rank) {
    if (shares[rank] >= bounds[rank].most) return;
    next.emplace(ranks[rank].SecondsFor(static_cast<double>(shares[rank] + 1)), rank);
  };
  for (size_t rank = 0; rank < ranks.size(); ++rank) offer(rank);
  for (uint64_t left = batch - Sum(shares); left > 0; --left) {
    const size_t rank = next.top().second;
    next.pop();
    ++shares[rank];
    offer(rank);
  }
  return shares;
}

// By largest remainders. On a tie, lower ranks get the sample.
std::vector<uint64_t> ScaleShares(const std::vector<uint64_t>& shares, uint64_t size,
                                  uint64_t least) {
  const uint64_t whole = Sum(shares);
  CHECK(whole > 0 && whole <= kGlobalBatchMax && size <= kGlobalBatchMax, "shares of a step");
  std::vector<uint64_t> scaled;
  std::vector<std::pair<uint64_t, size_t>> remainders;
  for (const uint64_t share : shares) {
    remainders.emplace_back(share * size % whole, scaled.size());
    scaled.push_back(share * size / whole);
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const uint64_t left = size - Sum(scaled);
  for (uint64_t i = 0; i < left; ++i) ++scaled[remainders[i].second];
  if (*std::min_element(scaled.begin(), scaled.end()) < least) {
    return EvenShares(size, shares.size());
  }
  return scaled;
}

Result<SpeedCut> SpeedCut::Make(SpeedCutSpec spec) {
  if (spec.world_size < 1) return InvalidCut("a world has at least one rank");
  if (spec.global_batch < spec.world_size || spec.global_batch > kGlobalBatchMax) {
    return InvalidCut("a step has a sample for each rank, and 2^32 at most");
  }
  const uint64_t least = spec.global_batch / spec.world_size;
  const uint64_t most = (spec.global_batch + spec.world_size - 1) / spec.world_size;
  if (spec.bounds.least < 1 || spec.bounds.least > least || spec.bounds.most < most) {
    return InvalidCut("an even cut is within the bounds of a share");
  }
  if (!(spec.gain_least >= 0 && spec.gain_least < 1)) return InvalidCut("a gain is in [0, 1)");
  if (spec.shares.empty()) spec.shares = EvenShares(spec.global_batch, spec.world_size);
  if (spec.shares.size() != spec.world_size || Sum(spec.shares) != spec.global_batch) {
    return InvalidCut("the shares are not those of this step and world");
  }
  return SpeedCut(std::move(spec));
}

SpeedCut::SpeedCut(SpeedCutSpec spec)
    : spec_(std::move(spec)), shares_(spec_.shares), models_(spec_.world_size) {
  spec_.bounds.most = std::min(spec_.bounds.most, spec_.global_batch);
}

std::vector<LinearTime> SpeedCut::Lines() const {
  std::vector<LinearTime> lines;
  for (size_t rank = 0; rank < models_.size(); ++rank) {
    lines.push_back(models_[rank].LineAt(static_cast<double>(shares_[rank])));
  }
  return lines;
}

std::optional<SpeedCut::Change> SpeedCut::Look(const std::vector<StepTime>& by_rank,
                                               uint64_t steps) {
  steps_ += steps;
  if (by_rank.size() != models_.size()) return std::nullopt;
  if (!std::all_of(by_rank.begin(), by_rank.end(), IsMeasured)) return std::nullopt;
  for (size_t rank = 0; rank < models_.size(); ++rank) models_[rank].Observe(by_rank[rank]);
  if (!models_.front().is_known()) return std::nullopt;

  const std::vector<LinearTime> lines = Lines();
  std::vector<uint64_t> shares = CutForEqualTimes(lines, spec_.global_batch, spec_.bounds);
  const double now = Longest(lines, shares_);
  const double then = Longest(lines, shares);
  double unsure = 0;
  for (size_t rank = 0; rank < models_.size(); ++rank) {
    unsure = std::max(unsure, models_[rank].ErrorAt(static_cast<double>(shares_[rank])));
  }
  const double gain = now - then;
  if (gain <= spec_.gain_least * now || gain <= kErrorsLeast * unsure) return std::nullopt;
  if (gain * static_cast<double>(steps_) < switch_seconds_) return std::nullopt;
  Change change{.shares = shares, .gain = gain / now, .because = Because(lines, now, then)};
  shares_ = std::move(shares);
  steps_ = 0;
  return change;
}

void SpeedCut::Switched(const std::vector<StepTime>& by_rank) {
  if (by_rank.size() != models_.size()) return;
  double excess = 0;
  for (size_t rank = 0; rank < models_.size(); ++rank) {
    if (!IsMeasured(by_rank[rank]) || !models_[rank].is_known()) return;
    const double samples = by_rank[rank].samples;
    const double expected = models_[rank].LineAt(samples).SecondsFor(samples);
    excess = std::max(excess, by_rank[rank].seconds - expected);
  }
  switch_seconds_ = switch_seconds_ > 0 ? (switch_seconds_ + excess) / 2 : excess;
}

std::string SpeedCut::Because(const std::vector<LinearTime>& lines, double now, double then) const {
  size_t slowest = 0;
  std::vector<double> times;
  const double even =
      static_cast<double>(spec_.global_batch) / static_cast<double>(spec_.world_size);
  for (size_t rank = 0; rank < lines.size(); ++rank) {
    times.push_back(lines[rank].SecondsFor(even));
    if (times[rank] > times[slowest]) slowest = rank;
  }
  const double worst = times[slowest];
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  char text[200];
  std::snprintf(text, sizeof text,
                "rank %zu takes %.2f times as long as the median for an even share; a step should "
                "take %.3g s instead of %.3g s",
                slowest, worst / times[times.size() / 2], then, now);
  return text;
}

}  // namespace paceline

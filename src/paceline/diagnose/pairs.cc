#include "paceline/diagnose/pairs.h"

#include <algorithm>
#include <set>

namespace paceline::diagnose {
namespace {

constexpr double kLeastOfMedian = 0.5;
constexpr size_t kPairsMin = 3;

Pair PairOf(uint32_t a, uint32_t b) { return a < b ? Pair{a, b} : Pair{b, a}; }

// The median of `sorted` without one `own`. An even count has the higher one of its two middle
// values: a link may be busy, but nothing makes it faster than it is. 0: there are too few.
double MedianOfOtherPairs(const std::vector<double>& sorted, double own) {
  if (sorted.size() < kPairsMin) return 0;
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), own) - sorted.begin();
  const auto middle = static_cast<ptrdiff_t>((sorted.size() - 1) / 2);
  return sorted[static_cast<size_t>(middle < at ? middle : middle + 1)];
}

bool HasHost(const Pair& pair, uint32_t host) { return pair.a == host || pair.b == host; }

// Whether each host has passed a test.
std::vector<bool> GoodHosts(uint32_t count, const std::vector<Pair>& tested,
                            const std::set<Pair>& failed) {
  std::vector<bool> is_good(count, false);
  for (const Pair& pair : tested) {
    if (!failed.contains(pair)) is_good[pair.a] = is_good[pair.b] = true;
  }
  return is_good;
}

}  // namespace

// The circle method: host count - 1 stays, and the others move on by one place in each round. With
// an odd count the place that stays is empty.
std::vector<std::vector<Pair>> PairRounds(uint32_t count) {
  std::vector<std::vector<Pair>> rounds;
  if (count < 2) return rounds;
  const uint32_t even = count + count % 2;
  const uint32_t circle = even - 1;
  const uint32_t number = std::min(count - 1, kPairRoundsMax);
  for (uint32_t round = 0; round < number; ++round) {
    std::vector<Pair> pairs;
    if (even == count) pairs.push_back(PairOf(round % circle, count - 1));
    for (uint32_t i = 1; i < even / 2; ++i) {
      pairs.push_back(PairOf((round + i) % circle, (round + circle - i) % circle));
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

std::vector<Pair> FailedPairs(const std::vector<PairTried>& tried) {
  std::vector<double> speeds;
  for (const PairTried& one : tried) {
    if (one.problem.empty() && one.gb_s > 0) speeds.push_back(one.gb_s);
  }
  std::sort(speeds.begin(), speeds.end());
  std::vector<Pair> failed;
  for (const PairTried& one : tried) {
    const bool is_slow = one.problem.empty() && one.gb_s > 0 &&
                         one.gb_s < kLeastOfMedian * MedianOfOtherPairs(speeds, one.gb_s);
    if (!one.problem.empty() || is_slow) failed.push_back(one.pair);
  }
  return failed;
}

std::vector<std::vector<Pair>> SecondRounds(uint32_t count, const std::vector<Pair>& tested,
                                            const std::vector<Pair>& failed) {
  const std::set<Pair> broken(failed.begin(), failed.end());
  const std::set<Pair> known(tested.begin(), tested.end());
  const std::vector<bool> is_good = GoodHosts(count, tested, broken);
  std::vector<Pair> wanted(broken.begin(), broken.end());
  for (uint32_t host = 0; count <= kPairRoundsMax + 1 && host < count; ++host) {
    const bool has_failed = std::any_of(broken.begin(), broken.end(),
                                        [host](const Pair& pair) { return HasHost(pair, host); });
    if (is_good[host] || !has_failed) continue;
    for (uint32_t other = 0; other < count; ++other) {
      if (other != host && !known.contains(PairOf(host, other))) {
        wanted.push_back(PairOf(host, other));
      }
    }
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<std::vector<Pair>> rounds;
  for (const Pair& pair : wanted) {
    const auto has_room = [&pair](const std::vector<Pair>& round) {
      return std::none_of(round.begin(), round.end(), [&pair](const Pair& other) {
        return HasHost(other, pair.a) || HasHost(other, pair.b);
      });
    };
    const auto found = std::find_if(rounds.begin(), rounds.end(), has_room);
    (found == rounds.end() ? rounds.emplace_back() : *found).push_back(pair);
  }
  return rounds;
}

PairsVerdict JudgePairs(uint32_t count, const std::vector<Pair>& tested,
                        const std::vector<Pair>& failed) {
  const std::set<Pair> broken(failed.begin(), failed.end());
  const std::vector<bool> is_good = GoodHosts(count, tested, broken);
  PairsVerdict verdict;
  for (const Pair& pair : broken) {
    if (is_good[pair.a] && is_good[pair.b]) verdict.bad_links.push_back(pair);
  }
  for (uint32_t host = 0; host < count; ++host) {
    size_t failures = 0;
    size_t against_good = 0;
    for (const Pair& pair : broken) {
      if (!HasHost(pair, host)) continue;
      ++failures;
      if (is_good[pair.a == host ? pair.b : pair.a]) ++against_good;
    }
    if (is_good[host] || failures == 0) continue;
    // One failure alone may be the link's.
    (against_good >= 2 ? verdict.bad : verdict.one_of).push_back(host);
  }
  return verdict;
}

}  // namespace paceline::diagnose

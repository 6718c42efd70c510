#include "paceline/diagnose/slow.h"

#include <algorithm>
#include <cmath>

#include "paceline/base/text.h"

namespace paceline::diagnose {
namespace {

constexpr double kNormal = 0.6745;  // the median of the absolute values of a normal distribution

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

template <class Value>
std::vector<double> Each(const std::vector<Value>& from, double (*what)(const Value&)) {
  std::vector<double> values;
  values.reserve(from.size());
  for (const Value& one : from) values.push_back(what(one));
  return values;
}

bool IsBehind(const StepSums& a, const StepSums& b) {
  return a.steps < b.steps || a.whole < b.whole || a.own < b.own || a.data < b.data ||
         a.waited < b.waited;
}

std::string PercentText(double share) { return Concat(std::llround(share * 100), " %"); }

std::string WhoText(const SlowFinding& finding) {
  const std::string first = ToString(finding.ranks.front());
  if (finding.ranks.size() == 1) return Concat("rank ", first, " on ", finding.node);
  return Concat("ranks ", first, " to ", ToString(finding.ranks.back()), ", all of ", finding.node);
}

}  // namespace

double MedianWithout(const std::vector<double>& sorted, double one) {
  if (sorted.size() < 2) return 0;
  const auto at =
      static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), one) - sorted.begin());
  const auto get = [&](size_t i) { return sorted[i < at ? i : i + 1]; };
  const size_t left = sorted.size() - 1;
  if (left % 2 == 1) return get(left / 2);
  return (get(left / 2 - 1) + get(left / 2)) / 2;
}

void SlowWatch::Begin(Generation generation, std::vector<PacedNode> nodes) {
  generation_ = generation;
  nodes_ = std::move(nodes);
  size_t ranks = 0;
  for (const PacedNode& node : nodes_) {
    ranks = std::max(ranks, size_t{node.first_rank} + node.rank_count);
  }
  newest_.assign(ranks, {});
  mark_.assign(ranks, {});
  named_.assign(ranks, false);
  ready_ = 0;
  is_piped_ = false;
  windows_.clear();
  findings_.clear();
}

bool SlowWatch::IsReady(size_t rank) const {
  return newest_[rank].steps > mark_[rank].steps &&
         newest_[rank].whole - mark_[rank].whole >= kWindowTime;
}

bool SlowWatch::Take(const RankSample& sample) {
  const size_t rank = sample.rank.value();
  if (sample.generation != generation_ || rank >= newest_.size()) return false;
  if (IsBehind(sample.sums, newest_[rank])) return false;
  is_piped_ = is_piped_ || sample.sums.is_piped;
  const bool was_ready = IsReady(rank);
  newest_[rank] = sample.sums;
  if (!was_ready && IsReady(rank)) ++ready_;
  if (ready_ < newest_.size()) return false;
  EndWindow();
  Judge();
  return true;
}

void SlowWatch::EndWindow() {
  Window window;
  for (size_t rank = 0; rank < newest_.size(); ++rank) {
    const StepSums& now = newest_[rank];
    const StepSums& then = mark_[rank];
    const auto count = static_cast<double>(now.steps - then.steps);
    window.steps.push_back({.whole = (now.whole - then.whole).ToSecondsF() / count,
                            .own = (now.own - then.own).ToSecondsF() / count,
                            .data = (now.data - then.data).ToSecondsF() / count,
                            .waited = (now.waited - then.waited).ToSecondsF() / count});
  }
  std::vector<double> sorted = Each<Step>(window.steps, [](const Step& s) { return s.busy(); });
  std::sort(sorted.begin(), sorted.end());
  for (const Step& step : window.steps) {
    const double usual = MedianWithout(sorted, step.busy());
    window.excess.push_back(usual > 0 ? step.busy() / usual - 1 : 0);
  }
  windows_.push_back(std::move(window));
  if (windows_.size() > kHistory) windows_.pop_front();
  mark_ = newest_;
  ready_ = 0;
}

// The standard deviation of the noise in a window's excess, estimated from the change between
// consecutive windows, because a lasting difference is not noise. With few values the estimate is
// too large on purpose.
std::optional<double> SlowWatch::Noise() const {
  std::vector<double> changes;
  for (size_t i = 1; i < windows_.size(); ++i) {
    for (size_t rank = 0; rank < newest_.size(); ++rank) {
      changes.push_back(std::abs(windows_[i].excess[rank] - windows_[i - 1].excess[rank]));
    }
  }
  if (changes.empty()) return std::nullopt;
  const double few = 1 + 6 / static_cast<double>(changes.size());
  return Median(std::move(changes)) / (kNormal * std::sqrt(2.0)) * few;
}

// The standard deviation of the lasting differences between ranks, estimated from the half of the
// ranks that are most alike, because the others may be slow.
double SlowWatch::Spread() const {
  const size_t ranks = newest_.size();
  if (ranks < 3) return 0;
  std::vector<double> lasting;
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<double> values;
    for (size_t i = windows_.size() - std::min(windows_.size(), kWindows); i < windows_.size();
         ++i) {
      values.push_back(windows_[i].excess[rank]);
    }
    lasting.push_back(Median(std::move(values)));
  }
  std::sort(lasting.begin(), lasting.end());
  const size_t half = (ranks - 1) / 2;
  double width = lasting.back() - lasting.front();
  for (size_t i = 0; i + half < ranks; ++i) {
    width = std::min(width, lasting[i + half] - lasting[i]);
  }
  const double few = 1 + 4 / static_cast<double>(ranks);
  return width / 2 / kNormal * few;
}

SlowWatch::Means SlowWatch::MeansOf() const {
  Means means{.steps = std::vector<Step>(newest_.size())};
  const size_t count = std::min(windows_.size(), kWindows);
  for (size_t i = windows_.size() - count; i < windows_.size(); ++i) {
    for (size_t rank = 0; rank < newest_.size(); ++rank) {
      const Step& step = windows_[i].steps[rank];
      Step& mean = means.steps[rank];
      mean.whole += step.whole / static_cast<double>(count);
      mean.own += step.own / static_cast<double>(count);
      mean.data += step.data / static_cast<double>(count);
      mean.waited += step.waited / static_cast<double>(count);
    }
  }
  means.busy = Each<Step>(means.steps, [](const Step& s) { return s.busy(); });
  means.waited = Each<Step>(means.steps, [](const Step& s) { return s.waited; });
  std::sort(means.busy.begin(), means.busy.end());
  std::sort(means.waited.begin(), means.waited.end());
  means.median_whole = Median(Each<Step>(means.steps, [](const Step& s) { return s.whole; }));
  return means;
}

bool SlowWatch::IsSlow(size_t rank, double limit, const Means& means) const {
  // A rank that was named stays slow until most windows show at most half of the limit.
  const bool was_named = named_[rank];
  const double least = was_named ? limit / 2 : limit;
  const size_t count = std::min(windows_.size(), kWindows);
  size_t slow = 0;
  for (size_t i = windows_.size() - count; i < windows_.size(); ++i) {
    if (windows_[i].excess[rank] > least) ++slow;
  }
  if (was_named) return slow >= 2;
  // In a world of two ranks each is the other's only peer, so their difference has the noise of
  // both.
  if (slow < (named_.size() == 2 ? kWindows : kSlowWindows)) return false;
  const Step& own = means.steps[rank];
  const double excess = own.busy() - MedianWithout(means.busy, own.busy());
  return MedianWithout(means.waited, own.waited) - own.waited >= excess / 2;
}

bool SlowWatch::IsMinority(const std::vector<bool>& slow) const {
  const auto count = static_cast<size_t>(std::count(slow.begin(), slow.end(), true));
  if (2 * count < slow.size()) return true;
  if (2 * count > slow.size()) return false;
  if (slow.size() == 2) return true;
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const PacedNode& node) {
    if (node.rank_count != count) return false;
    const auto first = slow.begin() + node.first_rank;
    return std::all_of(first, first + node.rank_count, [](bool is_slow) { return is_slow; });
  });
}

void SlowWatch::Judge() {
  const std::vector<bool> none(newest_.size(), false);
  if (newest_.size() < 2 || is_piped_ || windows_.size() < kSlowWindows) {
    findings_.clear();
    named_ = none;
    return;
  }
  const Means means = MeansOf();
  const double limit =
      std::max({kExcessMin, kNoiseFactor * Noise().value_or(0), kSpreadFactor * Spread()});
  std::vector<bool> slow = none;
  for (size_t rank = 0; rank < slow.size(); ++rank) slow[rank] = IsSlow(rank, limit, means);
  if (!IsMinority(slow)) slow = none;
  named_ = slow;
  Name(slow, means);
}

SlowWatch::Peers SlowWatch::PeersOf(const std::vector<bool>& slow, const Means& means) {
  Peers peers;
  std::vector<double> own;
  std::vector<double> data;
  for (size_t rank = 0; rank < slow.size(); ++rank) {
    if (slow[rank]) continue;
    const Step& step = means.steps[rank];
    own.push_back(step.own);
    data.push_back(step.data);
    peers.longest = std::max(peers.longest, step.busy());
  }
  peers.own = Median(std::move(own));
  peers.data = Median(std::move(data));
  return peers;
}

SlowFinding SlowWatch::FindingOf(std::vector<Rank> ranks, const Means& means, const Peers& peers) {
  std::vector<double> own;
  std::vector<double> data;
  double busy = 0;
  for (const Rank rank : ranks) {
    const Step& step = means.steps[rank.value()];
    own.push_back(step.own);
    data.push_back(step.data);
    busy = std::max(busy, step.busy());
  }
  const double more_own = Median(std::move(own)) - peers.own;
  const double more_data = Median(std::move(data)) - peers.data;
  SlowFinding finding{.ranks = std::move(ranks), .is_data = more_data > more_own};
  const double usual = finding.is_data ? peers.data : peers.own;
  if (usual > 0) finding.excess = (finding.is_data ? more_data : more_own) / usual;
  const double whole = means.median_whole;
  if (whole <= 0) return finding;
  const double saved = std::clamp(busy - peers.longest, 0.0, 0.99 * whole);
  constexpr double kDay = 86'400;
  finding.cost = saved / whole;
  finding.steps_a_day = kDay / (whole - saved) - kDay / whole;
  return finding;
}

void SlowWatch::Name(const std::vector<bool>& slow, const Means& means) {
  const std::vector<SlowFinding> former = std::move(findings_);
  findings_.clear();
  const Peers peers = PeersOf(slow, means);
  const auto add = [&](const PacedNode& node, std::vector<Rank> ranks, bool is_whole) {
    SlowFinding finding = FindingOf(std::move(ranks), means, peers);
    finding.node = node.name;
    finding.is_whole_node = is_whole;
    if (finding.cost >= kCostMin) findings_.push_back(std::move(finding));
  };
  for (const PacedNode& node : nodes_) {
    std::vector<Rank> ranks;
    for (uint32_t i = 0; i < node.rank_count; ++i) {
      if (slow[node.first_rank + i]) ranks.push_back(Rank(node.first_rank + i));
    }
    if (ranks.size() == node.rank_count && ranks.size() > 1) {
      add(node, std::move(ranks), true);
      continue;
    }
    for (const Rank rank : ranks) add(node, {rank}, false);
  }
  const auto was_told = [&](const SlowFinding& finding) {
    return std::any_of(former.begin(), former.end(),
                       [&](const SlowFinding& one) { return one.ranks == finding.ranks; });
  };
  const auto by_cost = [](const auto& a, const auto& b) { return a.cost > b.cost; };
  if (findings_.size() > kNamedMax) {
    std::stable_partition(findings_.begin(), findings_.end(), was_told);
    const auto told = std::find_if_not(findings_.begin(), findings_.end(), was_told);
    std::stable_sort(told, findings_.end(), by_cost);
    findings_.resize(kNamedMax);
  }
  std::stable_sort(findings_.begin(), findings_.end(), by_cost);
}

std::string SlowSentence(const SlowFinding& finding) {
  const bool is_one = finding.ranks.size() == 1;
  const std::string peers = is_one ? "its peers'" : "the other ranks'";
  std::string text = WhoText(finding) + ": ";
  text += finding.is_data ? "waits for its data " : "own work ";
  const bool has_share = finding.excess > 0 && finding.excess < 10;
  if (finding.is_data) {
    text += is_one ? "longer than its peers do" : "longer than the other ranks do";
  } else {
    text += (has_share ? PercentText(finding.excess) + " " : std::string("far ")) + "longer than " +
            peers;
  }
  return Concat(text, "; costs ", PercentText(finding.cost), " of the speed (",
                std::llround(finding.steps_a_day), " steps a day)");
}

std::string NoLongerSlowSentence(const SlowFinding& finding) {
  return WhoText(finding) + (finding.ranks.size() == 1 ? ": is" : ": are") +
         " as fast as the others again";
}

}  // namespace paceline::diagnose

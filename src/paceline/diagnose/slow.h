#pragma once

// Slow ranks: whose own work takes longer than their peers', so that all others wait for them.
//
// In a world whose ranks work in step, every step takes equally long everywhere. What differs is
// how it is spent: the slow rank works while the others wait. So ranks are compared by their busy
// time (own work and data), window by window. A rank is named only if all of this holds:
//
//   - in 3 of the last 4 windows its busy time exceeds the median of its peers' by more than a
//     tenth, by more than the noise of the measurements, and by more than the usual difference
//     between ranks;
//   - it waits less than its peers do, by at least half of that excess, because they wait for it;
//   - fewer than half of the ranks are slow, or all ranks of one of two nodes;
//   - it costs at least 2 % of the speed.
//
// Ranks that send point to point are not compared, because in a pipeline they have different work.

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "paceline/model/rank_sample.h"

namespace paceline::diagnose {

// Ranks of one node, in a row.
struct PacedNode {
  std::string name;
  uint32_t first_rank = 0;
  uint32_t rank_count = 0;
};

class SlowWatch {
 public:
  static constexpr size_t kWindows = 4;  // compared windows, of which …
  static constexpr size_t kSlowWindows = 3;
  static constexpr size_t kHistory = 12;  // windows that show how noisy the measurements are
  static constexpr Duration kWindowTime = Duration::Milliseconds(250);  // of the steps in it
  static constexpr size_t kNamedMax = 8;  // findings; ranks that were reported stay in the list
  static constexpr double kExcessMin = 0.10;
  static constexpr double kCostMin = 0.02;
  static constexpr double kNoiseFactor = 5;   // standard deviations of a window
  static constexpr double kSpreadFactor = 5;  // … of the difference between ranks

  // From now on only samples of this world count, and earlier ones are forgotten. `nodes` has all
  // ranks, each once.
  void Begin(Generation generation, std::vector<PacedNode> nodes);
  Generation generation() const { return generation_; }

  // Returns true if a window ended with this sample, so that findings() has changed. Samples of
  // other worlds or ranks, and impossible ones, are ignored.
  bool Take(const RankSample& sample);

  // Whether enough windows have ended for findings() to be meaningful.
  bool has_judged() const { return windows_.size() >= kSlowWindows; }
  // Worst first.
  const std::vector<SlowFinding>& findings() const { return findings_; }

 private:
  struct Step {  // the average of a window, in seconds
    double whole = 0;
    double own = 0;
    double data = 0;
    double waited = 0;
    double busy() const { return own + data; }
  };
  struct Window {
    std::vector<Step> steps;     // by rank
    std::vector<double> excess;  // of its busy time over its peers' median, as a share of that
  };
  // Over the last windows.
  struct Means {
    std::vector<Step> steps;
    std::vector<double> busy;  // sorted
    std::vector<double> waited;
    double median_whole = 0;
  };

  bool IsReady(size_t rank) const;
  void EndWindow();
  void Judge();
  Means MeansOf() const;
  std::optional<double> Noise() const;
  double Spread() const;
  bool IsSlow(size_t rank, double limit, const Means& means) const;
  bool IsMinority(const std::vector<bool>& slow) const;
  // The times of ranks that are not slow.
  struct Peers {
    double own = 0;
    double data = 0;
    double longest = 0;  // busy time: without slow ranks a step would take this long
  };
  static Peers PeersOf(const std::vector<bool>& slow, const Means& means);
  void Name(const std::vector<bool>& slow, const Means& means);
  static SlowFinding FindingOf(std::vector<Rank> ranks, const Means& means, const Peers& peers);

  Generation generation_;
  std::vector<PacedNode> nodes_;
  std::vector<StepSums> newest_;  // by rank
  std::vector<StepSums> mark_;    // at the window's begin
  size_t ready_ = 0;
  bool is_piped_ = false;
  std::deque<Window> windows_;  // oldest first
  std::vector<bool> named_;
  std::vector<SlowFinding> findings_;
};

// The median of all but one of `sorted`; of two in the middle, their mean.
double MedianWithout(const std::vector<double>& sorted, double one);

// "Rank 3 on node1: own work 21 % longer than its peers'; costs 17 % of the speed (1480 steps a
// day)", and "Ranks 4 to 7, all of node1: …".
std::string SlowSentence(const SlowFinding& finding);
std::string NoLongerSlowSentence(const SlowFinding& finding);

}  // namespace paceline::diagnose

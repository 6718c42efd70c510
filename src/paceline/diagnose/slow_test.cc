// Slow ranks: named when they are, and nobody named otherwise.

#include "paceline/diagnose/slow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "paceline/base/prng.h"

namespace paceline::diagnose {
namespace {

// A world that trains: a step is over when its slowest rank is, and all others have waited.
class Job {
 public:
  struct Options {
    uint32_t nodes = 1;
    uint32_t per_node = 4;
    double step = 0.1;         // seconds of own work
    double data = 0.01;        // … in the loader
    double collective = 0.01;  // … that a collective takes at least
    double noise = 0.05;       // of each step
    double spread = 0;         // lasting, between ranks
    uint64_t seed = 1;
  };

  explicit Job(const Options& options) : options_(options), prng_(options.seed) {
    std::vector<PacedNode> nodes;
    for (uint32_t i = 0; i < options.nodes; ++i) {
      nodes.push_back({"node" + std::to_string(i), i * options.per_node, options.per_node});
    }
    meters_.resize(size_t{options.nodes} * options.per_node);
    for (size_t i = 0; i < meters_.size(); ++i) {
      own_.push_back(1 + options.spread * Normal());
      data_.push_back(1);
    }
    watch_.Begin(Generation(1), std::move(nodes));
  }

  void SlowDown(uint32_t rank, double factor) { own_[rank] *= factor; }
  void SlowDownData(uint32_t rank, double factor) { data_[rank] *= factor; }
  void HideWaits() { hides_waits_ = true; }
  void Pipe() { is_piped_ = true; }

  void Step() {
    std::vector<double> own;
    std::vector<double> data;
    double longest = 0;
    for (size_t rank = 0; rank < meters_.size(); ++rank) {
      own.push_back(options_.step * own_[rank] * Noise());
      data.push_back(options_.data * data_[rank] * Noise());
      longest = std::max(longest, own.back() + data.back());
    }
    const double whole = longest + options_.collective;
    for (size_t rank = 0; rank < meters_.size(); ++rank) {
      const double waited = hides_waits_ ? 0 : whole - own[rank] - data[rank];
      meters_[rank].Add({.whole = Time(whole),
                         .own = Time(whole - data[rank] - waited),
                         .data = Time(data[rank]),
                         .waited = Time(waited)});
    }
    ++steps_;
    since_tell_ += whole;
  }
  // As agents do: twice a second, and when there is something new.
  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Step();
      if (since_tell_ < 0.5 || meters_[0].sums().steps == told_steps_) continue;
      told_steps_ = meters_[0].sums().steps;
      since_tell_ = 0;
      Tell();
    }
  }
  void Tell() {
    std::vector<uint32_t> order;
    for (uint32_t rank = 0; rank < meters_.size(); ++rank) order.push_back(rank);
    prng_.Shuffle(order);
    for (const uint32_t rank : order) {
      if (!watch_.Take({Generation(1), Rank(rank), sums(rank)})) continue;
      ++windows_;
      for (const SlowFinding& finding : watch_.findings()) {
        if (first_named_ == 0) first_named_ = steps_;
        for (const Rank one : finding.ranks) named_.insert(one.value());
      }
    }
  }

  const std::vector<SlowFinding>& findings() const { return watch_.findings(); }
  const std::set<uint32_t>& ever_named() const { return named_; }
  int64_t first_named() const { return first_named_; }
  int windows() const { return windows_; }
  SlowWatch& watch() { return watch_; }
  StepSums sums(uint32_t rank) const {
    StepSums sums = meters_[rank].sums();
    sums.is_piped = is_piped_;
    return sums;
  }
  Prng& prng() { return prng_; }

 private:
  static Duration Time(double seconds) {
    return Duration::Nanoseconds(static_cast<int64_t>(seconds * 1e9));
  }
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(prng_.Below(1 << 20)) / (1 << 20);
    return sum;
  }
  // Most steps take about as long; one of 200 takes up to four times as long, as when a rank is
  // interrupted.
  double Noise() {
    if (options_.noise == 0) return 1;
    const double factor = std::exp(options_.noise * Normal());
    return prng_.Chance(1, 200) ? factor * static_cast<double>(prng_.Between(1, 4)) : factor;
  }

  Options options_;
  Prng prng_;
  SlowWatch watch_;
  std::vector<double> own_;
  std::vector<double> data_;
  std::vector<StepMeter> meters_;
  bool is_piped_ = false;
  bool hides_waits_ = false;
  int64_t steps_ = 0;
  uint64_t told_steps_ = 0;
  double since_tell_ = 0;
  int windows_ = 0;
  std::set<uint32_t> named_;
  int64_t first_named_ = 0;
};

TEST(Slow, ARankThatWorksLongerIsNamedWithItsCost) {
  Job job({.noise = 0});
  job.SlowDown(3, 1.21);
  job.Run(40);
  ASSERT_EQ(1u, job.findings().size());
  const SlowFinding& found = job.findings().front();
  EXPECT_EQ(std::vector<Rank>{Rank(3)}, found.ranks);
  EXPECT_FALSE(found.is_data);
  EXPECT_NEAR(0.21, found.excess, 0.001);
  EXPECT_NEAR(0.021 / 0.141, found.cost, 0.001);
  EXPECT_NEAR(86'400 / 0.12 - 86'400 / 0.141, found.steps_a_day, 1);
  EXPECT_EQ(
      "rank 3 on node0: own work 21 % longer than its peers'; costs 15 % of the speed (107234 "
      "steps a day)",
      SlowSentence(found));
  EXPECT_EQ("rank 3 on node0: is as fast as the others again", NoLongerSlowSentence(found));
}

TEST(Slow, OneOfTwoIsNamed) {
  Job job({.per_node = 2, .noise = 0.02});
  job.SlowDown(0, 1.5);
  job.Run(100);
  EXPECT_EQ(std::set<uint32_t>{0}, job.ever_named());
}

TEST(Slow, TheLoaderIsNamedWhenItIsTheLoader) {
  Job job({.noise = 0.02});
  job.SlowDownData(1, 6);
  job.Run(60);
  ASSERT_EQ(1u, job.findings().size());
  EXPECT_TRUE(job.findings().front().is_data);
  EXPECT_TRUE(SlowSentence(job.findings().front())
                  .starts_with("rank 1 on node0: waits for its data longer than its peers do; "));
}

TEST(Slow, ANodeIsNamedWhenAllItsRanksAreSlow) {
  for (const uint32_t nodes : {2U, 3U, 16U}) {
    Job job({.nodes = nodes, .noise = 0.03});
    for (uint32_t rank = 4; rank < 8; ++rank) job.SlowDown(rank, 1.4);
    job.Run(100);
    ASSERT_EQ(1u, job.findings().size()) << nodes;
    EXPECT_TRUE(job.findings().front().is_whole_node);
    EXPECT_EQ("node1", job.findings().front().node);
    EXPECT_TRUE(
        SlowSentence(job.findings().front()).starts_with("ranks 4 to 7, all of node1: own work "));
  }
}

TEST(Slow, OfManyTheWorstAreNamedAndStayNamed) {
  Job job({.nodes = 12, .per_node = 4, .noise = 0});
  for (uint32_t rank = 0; rank < 15; ++rank) job.SlowDown(3 * rank, 1.3 + 0.02 * rank);
  job.Run(60);
  EXPECT_EQ(SlowWatch::kNamedMax, job.findings().size());
  EXPECT_EQ(std::vector<Rank>{Rank(3 * 14)}, job.findings().front().ranks);
  const std::set<uint32_t> named = job.ever_named();
  for (uint32_t rank = 0; rank < 5; ++rank) job.SlowDown(3 * rank, 2);
  job.Run(60);
  EXPECT_EQ(named, job.ever_named());
}

TEST(Slow, EverybodyIsNeverBlamed) {
  Job job({.per_node = 8, .noise = 0.02});
  job.Run(100);
  for (uint32_t rank = 0; rank < 8; ++rank) job.SlowDown(rank, 3);
  job.Run(100);
  EXPECT_TRUE(job.ever_named().empty());
  Job most({.per_node = 8, .noise = 0.02});
  for (uint32_t rank = 0; rank < 5; ++rank) most.SlowDown(rank, 1.5);
  most.Run(100);
  EXPECT_TRUE(most.ever_named().empty());
  EXPECT_GT(most.windows(), 5);
}

// If no peer is seen to wait, a rank's longer work costs nothing, or the hooks do not see the wait.
TEST(Slow, WhoIsNotWaitedForIsNotNamed) {
  Job job({.noise = 0.02});
  job.SlowDown(3, 1.5);
  job.HideWaits();
  job.Run(100);
  EXPECT_TRUE(job.ever_named().empty());
  EXPECT_GT(job.windows(), 5);
}

TEST(Slow, RanksOfAPipelineAreNotCompared) {
  Job job({.noise = 0.02});
  job.SlowDown(3, 1.5);
  job.Pipe();
  job.Run(100);
  EXPECT_TRUE(job.ever_named().empty());
  EXPECT_GT(job.windows(), 5);
}

TEST(Slow, ARankThatRecoversIsNamedNoMore) {
  Job job({.noise = 0.03});
  job.SlowDown(2, 1.5);
  job.Run(60);
  EXPECT_EQ(1u, job.findings().size());
  job.SlowDown(2, 1 / 1.5);
  job.Run(60);
  EXPECT_TRUE(job.findings().empty());
  EXPECT_EQ(std::set<uint32_t>{2}, job.ever_named());
}

TEST(Slow, AnotherWorldBeginsAnew) {
  Job job({.noise = 0.02});
  job.SlowDown(2, 1.5);
  job.Run(60);
  EXPECT_FALSE(job.findings().empty());
  job.watch().Begin(Generation(2), {{"node0", 0, 4}});
  EXPECT_TRUE(job.findings().empty());
  job.Run(60);  // samples of the former world
  EXPECT_TRUE(job.findings().empty());
}

TEST(Slow, ImpossibleSamplesChangeNothing) {
  Job job({.noise = 0});
  job.Run(10);
  StepSums wrong = job.sums(0);
  wrong.own = Duration();
  EXPECT_FALSE(job.watch().Take({Generation(1), Rank(0), wrong}));
  EXPECT_FALSE(job.watch().Take({Generation(1), Rank(4), job.sums(0)}));
  SlowWatch empty;
  EXPECT_FALSE(empty.Take({Generation(), Rank(0), job.sums(0)}));
}

// The median of all others is the same, however it is found.
TEST(Slow, TheMedianOfTheOthersIsThatOfASortedCopy) {
  Prng prng(7);
  for (int round = 0; round < 1000; ++round) {
    std::vector<double> values;
    const size_t count = 2 + prng.Below(9);
    for (size_t i = 0; i < count; ++i) values.push_back(static_cast<double>(prng.Below(6)));
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    for (size_t left_out = 0; left_out < count; ++left_out) {
      std::vector<double> others = values;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
      std::sort(others.begin(), others.end());
      const double expected = (others[(others.size() - 1) / 2] + others[others.size() / 2]) / 2;
      EXPECT_EQ(expected, MedianWithout(sorted, values[left_out]));
    }
  }
}

Job::Options RandomJob(uint64_t seed) {
  Prng prng(seed);
  const uint32_t sizes[] = {2, 3, 4, 8};
  return {.nodes = static_cast<uint32_t>(prng.Between(1, 3)),
          .per_node = sizes[prng.Below(4)],
          .step = 0.02 * static_cast<double>(prng.Between(1, 20)),
          .data = 0.001 * static_cast<double>(prng.Between(0, 20)),
          .collective = 0.001 * static_cast<double>(prng.Between(1, 50)),
          .noise = 0.01 * static_cast<double>(prng.Between(0, 25)),
          .spread = 0.01 * static_cast<double>(prng.Below(3)),
          .seed = seed};
}

constexpr uint64_t kJobs = 300;

TEST(Slow, NoiseNamesNobody) {
  for (uint64_t seed = 1; seed <= kJobs; ++seed) {
    Job job(RandomJob(seed));
    job.Run(200);
    EXPECT_GT(job.windows(), 3);
    for (const uint32_t rank : job.ever_named()) {
      ADD_FAILURE() << "seed " << seed << " named rank " << rank;
    }
  }
}

TEST(Slow, ARankHalfAsSlowAgainIsNamedWithinFortySteps) {
  int missed = 0;
  constexpr uint64_t kSlowJobs = 300;
  for (uint64_t seed = 1; seed <= kSlowJobs; ++seed) {
    Job::Options options = RandomJob(seed);
    options.step = std::max(options.step, 0.08);  // a window has eight steps then, and not more
    options.noise = std::min(options.noise, 0.05);
    Job job(options);
    const auto slow = static_cast<uint32_t>(job.prng().Below(options.nodes * options.per_node));
    job.SlowDown(slow, 1.5);
    job.Run(100);
    for (const uint32_t rank : job.ever_named()) EXPECT_EQ(slow, rank) << "seed " << seed;
    if (job.first_named() == 0 || job.first_named() > 40) ++missed;
  }
  EXPECT_LE(missed, static_cast<int>(kSlowJobs) / 100);
}

}  // namespace
}  // namespace paceline::diagnose

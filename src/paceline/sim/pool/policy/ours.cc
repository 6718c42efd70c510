// What paceline decides, by its own code: the size by brain/throughput.h and brain/size.h, and the
// memory by brain/memory.h. The desk's rules around them are those of core/scale/scale_desk.h:
//
//   first size    the best of the curve that earlier runs of the script measured, if they had two
//                 sizes; otherwise what the user asks for, or what the pool has
//   measured      a size counts after four windows, of which the first of a world is left out; a
//                 window has at least 20 steps
//   changed       after twice the time of a change; each change restarts the ranks, at a step that
//                 the nodes hold in memory
//   memory        what the user asks for, until it grows; raised before the limit, at a restart
//   a lost node   the ranks restart, and the newest step comes from the memory of other nodes

#include <algorithm>
#include <deque>
#include <utility>

#include "paceline/brain/memory.h"
#include "paceline/brain/size.h"
#include "paceline/sim/pool/policy/policy.h"

namespace paceline::sim {
namespace {

constexpr double kEfficiencyLeast = 0.6;
constexpr double kWindowSteps = 20;
constexpr size_t kWindowsLeast = 4;
constexpr size_t kWindowsMost = 64;
constexpr uint32_t kKillsMost = 16;  // the memory has doubled up to its most long before

using Sizes = std::map<uint32_t, std::deque<double>>;

double Middle(std::deque<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<brain::SizeSample> SamplesOf(const Sizes& sizes) {
  std::vector<brain::SizeSample> samples;
  for (const auto& [nodes, windows] : sizes) {
    if (windows.size() < kWindowsLeast) continue;
    samples.push_back({.nodes = nodes, .step_seconds = Middle(windows), .error = 0});
  }
  return samples;
}

class OursPolicy : public PoolPolicy {
 public:
  PoolConduct Conduct() const override {
    return {.stops_to_resize = true, .kills_most = kKillsMost};
  }

  PoolGrant First(const PoolAsk& ask, uint32_t* least) override {
    *least = 1;
    const auto known = scripts_.find(ask.script);
    const auto samples =
        known == scripts_.end() ? std::vector<brain::SizeSample>() : SamplesOf(known->second);
    const auto speed = brain::Throughput::Fit(samples);
    if (samples.size() < 2 || !speed.has_value()) return {.nodes = ask.nodes, .memory = ask.memory};
    const std::vector<uint32_t> sizes = brain::SizesBetween(1, kPoolNodesMax, 1);
    const brain::SizeChoice choice =
        brain::ChooseSize(*speed, {.sizes = sizes,
                                   .now = sizes.back(),
                                   .efficiency_least = kEfficiencyLeast,
                                   .outlook = brain::kOutlookMax,
                                   .change_cost = Duration()});
    return {.nodes = choice.best, .memory = ask.memory};
  }

  PoolGrant Look(const PoolSight& sight) override {
    Job& job = jobs_[sight.ask.job];
    if (job.begins != sight.trains_since) {
      job.begins = sight.trains_since;
      job.windows_here = 0;
      job.steps = 0;
      job.is_warm = false;
      job.memory.clear();
    }
    Measure(sight, &job);
    PoolGrant wanted = sight.has;
    if (const auto limit = DueMemory(sight, job)) {
      wanted.memory = *limit;
      return wanted;
    }
    wanted.nodes = DueSize(sight, job);
    return wanted;
  }

  std::optional<PoolGrant> AfterKill(const PoolSight& sight) override {
    const Job& job = jobs_[sight.ask.job];
    const auto limit = brain::LimitAfterKill(sight.has.memory, brain::GrowthOf(job.memory),
                                             MemoryQuestionOf(sight));
    if (!limit.has_value()) return std::nullopt;
    return PoolGrant{.nodes = sight.has.nodes, .memory = *limit};
  }

  void Ended(const PoolAsk& ask, double) override {
    const auto job = jobs_.find(ask.job);
    if (job == jobs_.end()) return;
    for (const auto& [nodes, windows] : job->second.sizes) {
      if (windows.size() >= kWindowsLeast) scripts_[ask.script][nodes] = windows;
    }
    jobs_.erase(job);
  }

 private:
  struct Job {
    double begins = -1;  // of this world
    double steps = 0;    // of the window that is open
    bool is_warm = false;
    size_t windows_here = 0;                  // in this world
    Sizes sizes;                              // step times by number of nodes
    std::vector<brain::MemoryWindow> memory;  // of this process, GiB
  };

  static void Measure(const PoolSight& sight, Job* job) {
    job->memory.push_back({.at = sight.now, .bytes = sight.memory});
    if (job->memory.size() > brain::kMemoryWindowsMost) job->memory.erase(job->memory.begin());
    if (sight.step_seconds <= 0) return;
    job->steps += kPoolDecisionSeconds / sight.step_seconds;
    if (job->steps < kWindowSteps) return;
    job->steps = 0;
    if (!std::exchange(job->is_warm, true)) return;
    std::deque<double>& windows = job->sizes[sight.has.nodes];
    windows.push_back(sight.step_seconds);
    if (windows.size() > kWindowsMost) windows.pop_front();
    ++job->windows_here;
  }

  static brain::MemoryQuestion MemoryQuestionOf(const PoolSight& sight) {
    return {.limit = sight.has.memory,
            .next_save = sight.next_save,
            .change = sight.restart + kPoolDecisionSeconds,
            .outlook = sight.seconds_left,
            .most = kPoolMemoryMost};
  }

  static std::optional<double> DueMemory(const PoolSight& sight, const Job& job) {
    const auto growth = brain::GrowthOf(job.memory);
    return growth.has_value() ? brain::DueLimit(*growth, MemoryQuestionOf(sight)) : std::nullopt;
  }

  uint32_t DueSize(const PoolSight& sight, const Job& job) const {
    const uint32_t now = sight.has.nodes;
    if (job.windows_here < kWindowsLeast) return now;
    if (sight.now - job.begins < 2 * sight.restart) return now;
    std::vector<brain::SizeSample> samples = SamplesOf(job.sizes);
    // The newest size first: the prior is made for it.
    std::stable_partition(samples.begin(), samples.end(),
                          [&](const brain::SizeSample& one) { return one.nodes == now; });
    const auto speed = brain::Throughput::Fit(samples, PriorOf(sight.ask.script));
    if (!speed.has_value()) return now;
    const uint32_t most = std::min(now + sight.free_nodes, std::max(now, kPoolNodesMax));
    const brain::SizeChoice choice = brain::ChooseSize(
        *speed,
        {.sizes = brain::SizesBetween(1, most, 1),
         .now = now,
         .efficiency_least = kEfficiencyLeast,
         .outlook = Duration::Milliseconds(static_cast<int64_t>(sight.seconds_left * 1000)),
         .change_cost = Duration::Milliseconds(static_cast<int64_t>(sight.restart * 1000))});
    return choice.nodes;
  }

  std::optional<brain::StepCurve> PriorOf(uint32_t script) const {
    const auto known = scripts_.find(script);
    if (known == scripts_.end()) return std::nullopt;
    const auto speed = brain::Throughput::Fit(SamplesOf(known->second));
    return speed.has_value() ? std::optional(speed->curve()) : std::nullopt;
  }

  std::map<uint32_t, Job> jobs_;
  std::map<uint32_t, Sizes> scripts_;  // what ended runs measured
};

}  // namespace

std::unique_ptr<PoolPolicy> MakeOursPolicy() { return std::make_unique<OursPolicy>(); }

}  // namespace paceline::sim

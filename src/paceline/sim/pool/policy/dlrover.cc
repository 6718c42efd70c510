// DLRover's rules and constants for workers, as its Brain and its local optimizer have them:
//
//   first         one worker; memory 1.5 times the largest of earlier runs, at least 16 GiB
//   more workers  the first plan after 90 s, then one every 300 s, each with 4 workers more, at
//   most
//                 60, while a new worker brings at least 0.2 of what an old one does, and the job
//                 has not become slower by a tenth
//   killed        twice the memory, at most 8 GiB more, at most 64 GiB; three relaunches
//   its master    keeps no durable state: the operator fails a job whose master's pod is lost
//
// A new worker of its asynchronous jobs costs no step, so a change of the size is free here.

#include <algorithm>

#include "paceline/sim/pool/policy/policy.h"

namespace paceline::sim {
namespace {

constexpr double kFirstPlan = 90;
constexpr double kBetweenPlans = 300;
constexpr uint32_t kWorkersAdded = 4;
constexpr double kNewWorkerLeast = 0.2;
constexpr double kSlower = 0.9;
constexpr double kMemoryFirst = 16;
constexpr double kMemoryMargin = 1.5;
constexpr double kMemoryAddedMost = 8;
constexpr uint32_t kRelaunches = 3;

class DlroverPolicy : public PoolPolicy {
 public:
  PoolConduct Conduct() const override {
    return {.dies_with_master = true, .kills_most = kRelaunches};
  }

  PoolGrant First(const PoolAsk& ask, uint32_t* least) override {
    *least = 1;
    const auto known = peaks_.find(ask.script);
    const double peak = known == peaks_.end() ? 0 : known->second;
    return {.nodes = 1, .memory = std::clamp(kMemoryMargin * peak, kMemoryFirst, kPoolMemoryMost)};
  }

  PoolGrant Look(const PoolSight& sight) override {
    Job& job = jobs_[sight.ask.job];
    if (sight.step_seconds <= 0) return sight.has;
    const double speed = 1 / sight.step_seconds;
    if (job.plans == 0 && job.begins == 0) job.begins = sight.now;
    const double due = job.plans == 0 ? job.begins + kFirstPlan : job.planned + kBetweenPlans;
    if (sight.now < due || job.is_settled) return sight.has;
    if (job.workers_before > 0) {
      const double added = sight.has.nodes - job.workers_before;
      const double old_worker = job.speed_before / job.workers_before;
      const double new_worker = added > 0 ? (speed - job.speed_before) / added : 0;
      if (new_worker < kNewWorkerLeast * old_worker || speed < kSlower * job.speed_before) {
        job.is_settled = true;
        return sight.has;
      }
    }
    const uint32_t added =
        std::min({kWorkersAdded, sight.free_nodes, kPoolNodesMax - sight.has.nodes});
    job.planned = sight.now;
    if (added == 0) return sight.has;
    ++job.plans;
    job.workers_before = sight.has.nodes;
    job.speed_before = speed;
    return {.nodes = sight.has.nodes + added, .memory = sight.has.memory};
  }

  std::optional<PoolGrant> AfterKill(const PoolSight& sight) override {
    const double memory =
        std::min(sight.has.memory + std::min(sight.has.memory, kMemoryAddedMost), kPoolMemoryMost);
    if (memory <= sight.has.memory) return std::nullopt;
    return PoolGrant{.nodes = sight.has.nodes, .memory = memory};
  }

  void Ended(const PoolAsk& ask, double peak) override {
    double& known = peaks_[ask.script];
    known = std::max(known, peak);
    jobs_.erase(ask.job);
  }

 private:
  struct Job {
    uint32_t plans = 0;
    double begins = 0;
    double planned = 0;
    uint32_t workers_before = 0;
    double speed_before = 0;
    bool is_settled = false;
  };
  std::map<uint32_t, Job> jobs_;
  std::map<uint32_t, double> peaks_;  // GiB, by script
};

}  // namespace

std::unique_ptr<PoolPolicy> MakeDlroverPolicy() { return std::make_unique<DlroverPolicy>(); }

}  // namespace paceline::sim

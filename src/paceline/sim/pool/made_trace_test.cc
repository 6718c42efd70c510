// The made trace is as published averages say, under the policies that those averages are of.

#include "paceline/sim/pool/made_trace.h"

#include <gtest/gtest.h>

#include "paceline/sim/pool/pool_run.h"

namespace paceline::sim {
namespace {

TEST(MadeTraceTest, JobsAreInOrderAndPossible) {
  const PoolTrace trace = MadeTrace(5);
  double before = 0;
  for (const PoolJob& job : trace.jobs) {
    EXPECT_GE(job.arrives, before);
    before = job.arrives;
    EXPECT_GT(job.curve.At(job.nodes), 0);
    EXPECT_LE(job.nodes * job.cores, trace.pool.cores);
    EXPECT_GE(MemoryPeak(job), job.memory.first);
  }
  EXPECT_NE(MadeTrace(6).jobs.front().seed, trace.jobs.front().seed);
}

TEST(MadeTraceLongTest, StaticAndDlroverLandWithinATenthOfTheirPublishedAverages) {
  std::vector<PoolTrace> traces;
  for (uint64_t seed = 1; seed <= 10; ++seed) traces.push_back(MadeTrace(seed));
  const std::vector<PoolResult> results =
      RunPools(traces, {FindPoolPolicy("static"), FindPoolPolicy("dlrover")});
  for (size_t i = 0; i < results.size(); ++i) {
    const PoolPublished& published = kPoolPublished[i];
    ASSERT_EQ(results[i].policy, published.policy);
    const double used =
        results[i].Over([](const PoolOutcome& o) { return o.CpuUtilization(); }).mean;
    const double completed =
        results[i].Over([](const PoolOutcome& o) { return o.Completion(); }).mean;
    const double time = JobTimeRatio(results[i], results[0]).mean;
    EXPECT_NEAR(used / published.cpu_utilization, 1, 0.1) << published.policy;
    EXPECT_NEAR(completed / published.completion, 1, 0.1) << published.policy;
    // Of those that fail, too: 0.11 and 0.05.
    EXPECT_NEAR(completed, published.completion, 0.02) << published.policy;
    EXPECT_NEAR(time / published.job_time, 1, 0.1) << published.policy;
  }
}

}  // namespace
}  // namespace paceline::sim

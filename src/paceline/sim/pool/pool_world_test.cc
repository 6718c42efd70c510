// Pools that are small enough to know what must come out.

#include "paceline/sim/pool/pool_world.h"

#include <gtest/gtest.h>

#include "paceline/sim/pool/made_trace.h"

namespace paceline::sim {
namespace {

PoolJob QuietJob(double arrives, uint32_t nodes) {
  PoolJob job;
  job.seed = 1;
  job.arrives = arrives;
  job.nodes = nodes;
  job.busy = 0.5;
  job.steps = 1000;
  job.restart = 30;
  job.curve = {.constant = 1, .work = 4, .exchange = 0};
  return job;
}

PoolTrace QuietTrace(std::vector<PoolJob> jobs) {
  PoolTrace trace;
  trace.name = "quiet";
  trace.pool = {.cores = 32, .memory = 1000};  // four nodes
  trace.faults = {.node_hours = 1e9, .fatal = 1};
  trace.jobs = std::move(jobs);
  return trace;
}

PoolOutcome RunStatic(const PoolTrace& trace) { return RunPool(trace, *MakeStaticPolicy()); }

TEST(PoolWorldTest, AJobTakesItsStartAndItsSteps) {
  const PoolOutcome outcome = RunStatic(QuietTrace({QuietJob(0, 4)}));
  EXPECT_EQ(outcome.completed, 1U);
  // The job starts for 90 s and makes 1000 steps of 2 s. The simulator sees its start and its end
  // up to one tick late.
  EXPECT_NEAR(outcome.MeanJobSeconds(), 2090, 20);
  // A step works 1 of its 2 s, with half of the cores; starting works nothing.
  EXPECT_NEAR(outcome.CpuUtilization(), 0.25 * 2000 / 2090, 0.005);
  EXPECT_EQ(outcome.kernel_kills + outcome.resizes + outcome.node_faults, 0U);
}

TEST(PoolWorldTest, AJobWaitsForRoomAndASmallerOnePasses) {
  const PoolOutcome outcome =
      RunStatic(QuietTrace({QuietJob(0, 3), QuietJob(10, 2), QuietJob(20, 1)}));
  EXPECT_EQ(outcome.completed, 3U);
  // Three nodes need 2333 s; only the second job waits for them.
  EXPECT_NEAR(outcome.MeanWaitSeconds() * 3, 2333 + 90, 60);
}

TEST(PoolWorldTest, AJobThatFitsNowhereIsCountedAndEndsTheRun) {
  const PoolOutcome outcome = RunStatic(QuietTrace({QuietJob(0, 5), QuietJob(0, 1)}));
  EXPECT_EQ(outcome.completed, 1U);
  EXPECT_EQ(outcome.failures.never, 1U);
}

TEST(PoolWorldTest, TheKernelKillsAJobAboveItsLimit) {
  PoolJob job = QuietJob(0, 1);
  job.asked = 20;
  job.memory = {.kind = MemoryKind::kGrows, .first = 10, .factor = 3, .at = 0};
  const PoolTrace trace = QuietTrace({job});
  EXPECT_EQ(RunStatic(trace).failures.memory, 1U);
  // DLRover begins with 16 GiB, and goes to 24 and 32 after two kills.
  const PoolOutcome outcome = RunPool(trace, *MakeDlroverPolicy());
  EXPECT_EQ(outcome.completed, 1U);
  EXPECT_EQ(outcome.kernel_kills, 2U);
}

TEST(PoolWorldTest, FourNodesMoreEveryFiveMinutesWhileTheyBringSomething) {
  PoolJob job = QuietJob(0, 1);
  job.steps = 20'000;
  job.curve = {.constant = 0.1, .work = 1, .exchange = 0};
  PoolTrace trace = QuietTrace({job});
  trace.pool = {.cores = 8000, .memory = 100'000};
  // 1, 5, 9 … nodes. The speed of n nodes is n / (1 + 0.1 n), so from 9 to 13 the new ones bring
  // 0.44 of an old one, and from 41 to 45 less than 0.2. In between, the noise decides.
  const PoolOutcome outcome = RunPool(trace, *MakeDlroverPolicy());
  EXPECT_EQ(outcome.completed, 1U);
  EXPECT_GE(outcome.resizes, 3U);
  EXPECT_LE(outcome.resizes, 11U);
}

TEST(PoolWorldTest, ALeakIsFreedByARestartAndAJumpIsNot) {
  PoolJob job = QuietJob(0, 1);
  job.memory = {.kind = MemoryKind::kLeaks, .first = 10, .factor = 3, .at = 0.5};
  EXPECT_DOUBLE_EQ(MemoryUse(job, 900, 0), 10);
  EXPECT_DOUBLE_EQ(MemoryUse(job, 900, 500), 20);
  job.memory.kind = MemoryKind::kJumps;
  EXPECT_DOUBLE_EQ(MemoryUse(job, 499, 0), 10);
  EXPECT_DOUBLE_EQ(MemoryUse(job, 500, 0), 30);
  EXPECT_DOUBLE_EQ(MemoryPeak(job), 30);
}

TEST(PoolWorldTest, TheSameSeedGivesTheSameOutcome) {
  PoolTrace trace = MadeTrace(3);
  trace.jobs.resize(60);
  for (const PoolPolicyEntry& entry : AllPoolPolicies()) {
    const PoolOutcome one = RunPool(trace, *entry.make());
    const PoolOutcome two = RunPool(trace, *entry.make());
    EXPECT_EQ(one.cpu_used, two.cpu_used) << entry.name;
    EXPECT_EQ(one.job_seconds, two.job_seconds) << entry.name;
    EXPECT_EQ(one.completed + one.failures.script + one.failures.memory + one.failures.node +
                  one.failures.master + one.failures.never,
              one.jobs)
        << entry.name;
    EXPECT_LE(one.cpu_used, one.cpu_granted) << entry.name;
  }
}

}  // namespace
}  // namespace paceline::sim

#include "paceline/sim/swarm/bench.h"

#include <cinttypes>
#include <cstdio>
#include <ctime>

#include "paceline/sim/swarm/shrink.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void MeasureCalm(uint32_t node_count, bool heartbeats_each, Duration simulated) {
  Options options;
  options.seed = 1;
  options.spec.job_id = "bench";
  options.spec.nodes_min = options.spec.nodes_max = node_count;
  options.spec.nproc_per_node = 2;
  options.node_count = node_count;
  options.late_node_count = 0;
  options.heartbeats_each = heartbeats_each;
  options.step_time = Duration::Milliseconds(500);
  SimWorld world(options, nullptr);
  world.PowerOnAll();
  const Instant warm = Instant() + Duration::Seconds(30);
  world.RunUntil(warm);
  const double before = CpuSeconds();
  const uint64_t tasks = world.queue().ran();
  world.RunUntil(warm + simulated);
  const double spent = CpuSeconds() - before;
  const Generation generation = world.master().job().state().generation;
  std::printf("simulator  %u nodes, heartbeats %-9s %8.0f x real time  (%.3f s of CPU for %" PRId64
              " s, %" PRIu64 " tasks, step %" PRId64 ")\n",
              node_count, heartbeats_each ? "each" : "credited", simulated.ToSecondsF() / spent,
              spent, simulated.seconds(), world.queue().ran() - tasks,
              world.workload().StepOf(generation));
}

void MeasureSeeds(uint64_t seed_count) {
  const double before = CpuSeconds();
  uint64_t failed = 0;
  double simulated = 0;
  for (uint64_t seed = 0; seed < seed_count; ++seed) {
    const Outcome outcome = RunSeed(seed, Overrides{}, nullptr);
    failed += outcome.violation.has_value() ? 1 : 0;
    simulated += static_cast<double>(outcome.end.nanoseconds()) / 1e9;
  }
  const double spent = CpuSeconds() - before;
  std::printf(
      "simulator  small clusters      %8.0f seeds in 10 minutes  (%.2f s of CPU for %" PRIu64
      " seeds, %.0f x real time, %" PRIu64 " failed)\n",
      static_cast<double>(seed_count) / spent * 600, spent, seed_count, simulated / spent, failed);
}

}  // namespace

void RunSimBench(uint32_t node_count, uint64_t seed_count) {
  MeasureCalm(node_count, false, Duration::Seconds(600));
  MeasureCalm(node_count, true, Duration::Seconds(60));
  MeasureSeeds(seed_count);
}

}  // namespace paceline::sim

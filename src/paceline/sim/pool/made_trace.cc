#include "paceline/sim/pool/made_trace.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "paceline/sim/pool/draw.h"

namespace paceline::sim {
namespace {

constexpr size_t kJobs = 400;
constexpr uint32_t kScripts = 60;
constexpr double kSpan = 48 * 3600;  // seconds within which the jobs arrive
constexpr Pool kPool = {.cores = 2720, .memory = 10880};
// Lost hosts and evicted pods together.
constexpr PoolFaults kFaults = {.node_hours = 40, .fatal = 0.07};
constexpr double kNodesMax = 60;
constexpr double kBugs = 0.015;     // of the jobs
constexpr double kAsksFor = 6;      // times the size at which half of a step is work; the median
constexpr double kAskSpread = 0.5;  // of its logarithm

// What all runs of a script have in common.
PoolJob DrawScript(Prng& prng, uint32_t number) {
  PoolJob script;
  script.script = number;
  // With so many nodes, half of a step is work, and half is what does not divide among them.
  const double half = DrawLog(prng, 9, 50);
  const double step = DrawLog(prng, 2, 40);
  script.curve.constant = step / (1 + half);
  script.curve.work = step - script.curve.constant;
  script.curve.exchange = script.curve.constant * DrawBetween(prng, 0, 0.003);
  const double asks = kAsksFor * std::exp(kAskSpread * DrawNormal(prng));
  script.nodes = static_cast<uint32_t>(std::clamp(std::round(half * asks), 1.0, kNodesMax));
  script.busy = DrawBetween(prng, 0.62, 0.98);
  script.restart = DrawBetween(prng, 20, 60);
  const uint64_t kind = prng.Below(20);
  script.memory.kind = kind < 12   ? MemoryKind::kFlat
                       : kind < 16 ? MemoryKind::kGrows
                       : kind < 19 ? MemoryKind::kLeaks
                                   : MemoryKind::kJumps;
  script.memory.first = DrawLog(prng, 1.5, 12);
  if (script.memory.kind == MemoryKind::kJumps) script.memory.factor = 2;
  if (script.memory.kind == MemoryKind::kGrows) script.memory.factor = DrawBetween(prng, 1.5, 4);
  if (script.memory.kind == MemoryKind::kLeaks) script.memory.factor = DrawBetween(prng, 1.2, 3);
  script.memory.at = DrawBetween(prng, 0.2, 0.8);
  // A user knows the peak of the script's memory roughly, and asks for several times as much.
  const double factor = 4 * std::exp(0.75 * DrawNormal(prng));
  script.asked = std::clamp(
      std::ceil(factor * script.memory.first * std::sqrt(script.memory.factor)), 4.0, 64.0);
  return script;
}

PoolJob DrawRun(Prng& prng, const std::vector<PoolJob>& scripts) {
  // A few scripts make most of the runs.
  const double part = DrawPart(prng);
  PoolJob job = scripts[static_cast<size_t>(part * part * static_cast<double>(scripts.size()))];
  job.seed = prng.Below(uint64_t{1} << 53);  // as JSON can carry it
  job.arrives = DrawBetween(prng, 0, kSpan);
  // So many seconds long with half of its best speed.
  const double seconds = DrawLog(prng, 600, 6000);
  job.steps = std::ceil(seconds / (2 * job.curve.constant));
  job.has_bug = DrawPart(prng) < kBugs;
  return job;
}

}  // namespace

PoolTrace MadeTrace(uint64_t seed) {
  Prng prng(seed);
  PoolTrace trace;
  trace.name = "made";
  trace.pool = kPool;
  trace.faults = kFaults;
  std::vector<PoolJob> scripts;
  for (uint32_t i = 0; i < kScripts; ++i) scripts.push_back(DrawScript(prng, i));
  for (size_t i = 0; i < kJobs; ++i) trace.jobs.push_back(DrawRun(prng, scripts));
  std::sort(trace.jobs.begin(), trace.jobs.end(),
            [](const PoolJob& a, const PoolJob& b) { return a.arrives < b.arrives; });
  return trace;
}

}  // namespace paceline::sim

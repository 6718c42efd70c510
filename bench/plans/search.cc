// How good and how fast the search for a parallel plan is: against brute force and against Whale's
// rules on random small instances, and in seconds on large clusters. bench/plans/search.py runs it.
//
//   bench_plan_search INSTANCES [SEED]     a JSON line an instance, then one a large cluster

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "paceline/plan/devices.h"
#include "paceline/plan/family/family.h"
#include "paceline/plan/search.h"
#include "paceline/plan/testing/instances.h"
#include "paceline/plan/whale.h"

namespace {

using namespace paceline;        // NOLINT
using namespace paceline::plan;  // NOLINT

// Seconds of this process's processor time: the search has one thread, and other work on the
// machine does not count.
double Now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void PrintNumber(const char* name, double value) {
  if (value == kNever) {
    std::printf(", \"%s\": null", name);
  } else {
    std::printf(", \"%s\": %.9g", name, value);
  }
}

void RunInstance(int number, const Instance& instance) {
  const Scene scene = *MakeScene(instance.model, instance.cluster, instance.wishes);
  SearchReport report;
  const double begin = Now();
  const auto answer = ChoosePlan(instance.model, instance.cluster, instance.wishes, {}, &report);
  const double seconds = Now() - begin;
  const auto* plan = std::get_if<ParallelPlan>(&answer);
  std::printf("{\"instance\": %d", number);
  PrintNumber("closed", plan == nullptr ? kNever : report.closed);
  PrintNumber("closed_least", BruteForce(scene, instance.wishes));
  PrintNumber("step", plan == nullptr ? kNever : plan->predicted.step);
  PrintNumber("step_least", BruteForceSimulated(scene, instance.wishes));
  PrintNumber("whale", WhaleSeconds(scene));
  PrintNumber("seconds", seconds);
  std::printf("}\n");
}

void RunLarge(const char* model, const char* line, uint64_t global_batch) {
  const ModelSummary summary = *SummaryOfPreset(model, {});
  const Cluster cluster = *ClusterFromLine(line, {});
  SearchReport report;
  const double begin = Now();
  const auto answer =
      ChoosePlan(summary, cluster, {.global_batch = global_batch, .only = {}}, {}, &report);
  const double seconds = Now() - begin;
  const auto* plan = std::get_if<ParallelPlan>(&answer);
  std::printf("{\"model\": \"%s\", \"cluster\": \"%s\", \"shapes\": %llu, \"transitions\": %llu",
              model, line, static_cast<unsigned long long>(report.shapes),
              static_cast<unsigned long long>(report.transitions));
  PrintNumber("step", plan == nullptr ? kNever : plan->predicted.step);
  PrintNumber("bound", plan == nullptr ? kNever : plan->bound);
  PrintNumber("seconds", seconds);
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int instances = argc > 1 ? std::atoi(argv[1]) : 100;
  Prng prng(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2026);
  for (int i = 0; i < instances; ++i) {
    RunInstance(i, DrawInstance(prng, {.types = 3, .groups = 6, .layers = 12}));
  }
  RunLarge("llama-70b", "H100-80G:256,A100-80G:256", 1024);
  RunLarge("llama-405b", "H100-80G:256,A100-80G:256", 1024);
  RunLarge("gpt-175b", "H100-80G:256,A100-80G:256", 1536);
  RunLarge("llama-70b", "H100-80G:2496,A100-80G:2496,L40S-48G:2496,V100-32G:2512", 8192);
  RunLarge("gpt-175b", "H100-80G:2496,A100-80G:2496,L40S-48G:2496,V100-32G:2512", 8192);
  return 0;
}

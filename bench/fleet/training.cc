// The agents of bench/observe/large_job.py, which starts the master and runs this:
//
//   bench_training_fleet HOST:PORT TOKEN_FILE AGENTS RANKS SLOW_RANK
//
// All agents join; then one line says so, and their ranks train until this process is ended.

#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "fleet/fleet.h"

namespace paceline::bench {
namespace {

constexpr double kJoinSecondsMax = 120;
constexpr double kTrainSecondsMax = 3600;

int Main(int argc, char** argv) {
  if (argc != 6) {
    fprintf(stderr, "bench_training_fleet HOST:PORT TOKEN_FILE AGENTS RANKS SLOW_RANK\n");
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  FleetOptions options = FleetOf(argv[1], argv[2], static_cast<uint32_t>(atoi(argv[3])));
  options.ranks = static_cast<uint32_t>(atoi(argv[4]));
  options.slow_rank = static_cast<uint32_t>(atoi(argv[5]));
  Fleet fleet(options);
  const auto all_joined = [&] { return fleet.TakenIn(1) >= options.agents; };
  if (!fleet.Serve(all_joined, kJoinSecondsMax)) {
    fprintf(stderr, "in the world: %u; streams ended: %u\n", fleet.TakenIn(1), fleet.ended());
    return 1;
  }
  puts("joined");
  fflush(stdout);
  fleet.Serve([&] { return fleet.ended() > 0; }, kTrainSecondsMax);
  fprintf(stderr, "streams ended: %u\n", fleet.ended());
  return 1;
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::Main(argc, argv); }

// The agents of bench/fleet/agents.py, which starts the master, runs this and reads its lines:
//
//   bench_agents HOST:PORT TOKEN_FILE AGENTS CONNECTIONS RANKS SECONDS [RELAYED RELAY_PORT …]
//
// One JSON line on stdout when a phase begins or ends, so that its reader can look at the master's
// CPU time in that moment.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cpu_seconds.h"
#include "fleet/fleet.h"
#include "paceline/wire/client/control_client.h"

namespace paceline::bench {
namespace {

constexpr double kPhaseSecondsMax = 120;

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Tell(const char* phase, double seconds, const Fleet& fleet) {
  printf(
      "{\"phase\":\"%s\",\"seconds\":%.6f,\"beats\":%llu,\"ended\":%u,\"late_max\":%.4f,"
      "\"client_cpu\":%.3f}\n",
      phase, seconds, static_cast<unsigned long long>(fleet.beats()), fleet.ended(),
      fleet.late_seconds_max(), OwnCpuSeconds());
  fflush(stdout);
}

bool Join(Fleet& fleet, uint32_t agents) {
  const auto start = Clock::now();
  if (!fleet.Serve([&] { return fleet.TakenIn(1) >= agents; }, kPhaseSecondsMax)) return false;
  Tell("joined", Since(start), fleet);
  return true;
}

// Afterwards every agent must still be there, in the first world.
bool Beat(Fleet& fleet, double seconds) {
  fleet.Serve([] { return false; }, 2);  // what joining left to do is not part of it
  Tell("beats_begin", 0, fleet);
  const auto start = Clock::now();
  fleet.Serve([] { return false; }, seconds);
  Tell("beats_end", Since(start), fleet);
  return fleet.ended() == 0 && fleet.TakenIn(2) == 0;
}

// From the report of a dead node until every survivor and the spare were told of the next world.
bool Replace(Fleet& fleet, const FleetOptions& options, const std::string& master) {
  constexpr uint32_t kVictim = 1;
  std::atomic<bool> is_attached = false;
  wire::SupervisorStream launcher({.address = master, .credentials = {.token = options.token}},
                                  [&](const wire::SupervisorEvent& event) {
                                    if (std::holds_alternative<wire::SupervisorOpened>(event))
                                      is_attached = true;
                                  });
  if (!fleet.Serve([&] { return is_attached.load(); }, kPhaseSecondsMax)) return false;
  const auto start = Clock::now();
  fleet.Kill(kVictim);
  launcher.Send(wire::NodeGoneReport{.name = Fleet::NameOf(kVictim),
                                     .evidence = "was killed",
                                     .agent_pid = static_cast<int32_t>(kVictim) + 1});
  const auto all = [&] { return fleet.TakenIn(2) >= options.agents; };
  if (!fleet.Serve(all, kPhaseSecondsMax)) return false;
  Tell("replaced", Since(start), fleet);
  return true;
}

int Main(int argc, char** argv) {
  if (argc < 7) {
    fprintf(stderr,
            "bench_agents HOST:PORT TOKEN_FILE AGENTS CONNECTIONS RANKS SECONDS "
            "[RELAYED RELAY_PORT …]\n");
    return 2;
  }
  const std::string address = argv[1];
  FleetOptions options = FleetOf(address, argv[2], static_cast<uint32_t>(atoi(argv[3])));
  options.connections = static_cast<uint32_t>(atoi(argv[4]));
  options.ranks = static_cast<uint32_t>(atoi(argv[5]));
  if (argc > 7) options.relayed = static_cast<uint32_t>(atoi(argv[7]));
  for (int i = 8; i < argc; ++i) options.relay_ports.push_back(atoi(argv[i]));
  Fleet fleet(options);
  const bool is_done =
      Join(fleet, options.agents) && Beat(fleet, atof(argv[6])) && Replace(fleet, options, address);
  if (!is_done) {
    Tell("failed", 0, fleet);
    fprintf(stderr, "in world 1: %u, in world 2: %u, streams ended: %u\n", fleet.TakenIn(1),
            fleet.TakenIn(2), fleet.ended());
  }
  return is_done ? 0 : 1;
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::Main(argc, argv); }

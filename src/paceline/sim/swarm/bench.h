#pragma once

// How fast the simulator is, in seconds simulated per second of CPU.

#include <cstdint>

namespace paceline::sim {

// Prints one line a measurement to stdout.
void RunSimBench(uint32_t node_count, uint64_t seed_count);

}  // namespace paceline::sim

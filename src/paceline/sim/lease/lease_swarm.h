#pragma once

// `paceline sim --leases`: many worlds of leases, one a seed, and a failing one made small.

#include <string>
#include <vector>

#include "paceline/sim/lease/lease_world.h"

namespace paceline::sim {

// Arguments as those of RunSimCommand, and its exit codes.
int RunLeaseCommand(const std::vector<std::string>& args);

// The least that still goes wrong: fewer faulty steps first, then without kinds of faults. What it
// is given must go wrong.
LeaseLimits ShrinkLeaseWorld(uint64_t seed, LeaseCanary canary, LeaseLimits limits);

// The arguments of `paceline sim` that repeat this world.
std::string LeaseCommandLine(uint64_t seed, LeaseCanary canary, const LeaseLimits& limits);

}  // namespace paceline::sim

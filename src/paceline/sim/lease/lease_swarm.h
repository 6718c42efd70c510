#pragma once

// `paceline sim --leases`: runs worlds of leases, one a seed, and shrinks a failing one.

#include <string>
#include <vector>

#include "paceline/sim/lease/lease_world.h"

namespace paceline::sim {

// Arguments and exit codes as in RunSimCommand.
int RunLeaseCommand(const std::vector<std::string>& args, std::string* wrong);

// The smallest world that still fails: with fewer faulty steps, then without kinds of faults. The
// given world must fail.
LeaseLimits ShrinkLeaseWorld(uint64_t seed, LeaseCanary canary, LeaseLimits limits);

// Arguments of `paceline sim` that repeat this world.
std::string LeaseCommandLine(uint64_t seed, LeaseCanary canary, const LeaseLimits& limits);

}  // namespace paceline::sim

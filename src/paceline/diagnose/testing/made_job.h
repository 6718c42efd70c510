#pragma once

// Jobs of many ranks in which some ranks hang, and the facts that their agents would report.
//
// A rank's step is a list of collectives: of its tensor-parallel group, then of its data-parallel
// group, then of the world. A rank goes on when all members of a group have entered. The ranks that
// hang never enter one of their collectives. The others come as far as they can.

#include <cstdint>
#include <set>

#include "paceline/base/prng.h"
#include "paceline/diagnose/facts.h"

namespace paceline::diagnose::testing {

enum class MadeFault { kStopped, kBlocked, kBusy, kOtherCall };

struct MadeJob {
  uint32_t tensor = 1;  // ranks of a tensor-parallel group
  uint32_t data = 1;    // ranks of a data-parallel group
  uint32_t stages = 1;  // world size = tensor × data × stages
  MadeFault fault = MadeFault::kStopped;
  uint32_t hung = 1;       // how many ranks hang; one if they make another call
  double lost_share = 0.;  // of the ranks, those whose agent does not answer
};

struct MadeFacts {
  Facts facts;
  std::set<uint32_t> culprits;  // the ranks that hang and whose agent answered
};

MadeJob DrawMadeJob(Prng& random, uint32_t ranks_max);
MadeFacts RunMadeJob(const MadeJob& job, Prng& random);

}  // namespace paceline::diagnose::testing

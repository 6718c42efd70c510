#pragma once

// Seconds that collectives take, by the model of Hockney (a latency and a rate) on a ring. The
// slowest link of the ring counts. (R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of
// collective communication operations in MPICH", 2005.)

#include <cstdint>

#include "paceline/model/plan.h"

namespace paceline::plan {

// `bytes` is the whole buffer: what each rank puts into a sum, or has after a gather.
double AllReduceSeconds(double bytes, uint32_t ranks, const Link& link);
double AllGatherSeconds(double bytes, uint32_t ranks, const Link& link);
double ReduceScatterSeconds(double bytes, uint32_t ranks, const Link& link);
double SendSeconds(double bytes, const Link& link);

}  // namespace paceline::plan

#pragma once

// Checks the end state of a world of streams; stream_world.h has the invariants.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/data/lease/lease_book.h"
#include "paceline/data/lease/partition.h"
#include "paceline/sim/lease/lease_worker.h"

namespace paceline::sim {

// A partition of the simulated broker.
struct StreamTopic {
  uint64_t base = 0;    // the first offset that the stream reads
  uint64_t oldest = 0;  // retention has eaten those below
  uint64_t end = 0;     // of the log
};

// A record in the counts of a worker. The ledger may give a partition another number after a crash.
inline uint64_t StreamKey(uint64_t partition, uint64_t offset) {
  return partition * kPartitionOrdinals + offset;
}

struct StreamEnd {
  const std::vector<LeaseFact>& journal;
  const std::vector<LeaseWorker>& workers;
  const std::vector<StreamTopic>& topics;
  bool follows = false;  // checkpoints
};

// What a world whose broker has stopped still waits for; empty if it has come to its end. A world
// that restarts keeps its ledger's older state until the first frame of its new generation, and its
// models are older than that.
std::string WhyNotOver(const StreamEnd& end, const LeaseBook& book);

// The first violation as one sentence; empty if there is none. Only of a world that is over.
std::string JudgeStream(const StreamEnd& end);

}  // namespace paceline::sim

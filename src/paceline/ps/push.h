#pragma once

// The gradients of one batch, with the tag that makes them count once.
//
// Every push goes to every server, also to those that have none of its keys: a server knows by the
// ordinals alone which batches it has applied.

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/data/epoch_order.h"
#include "paceline/data/lease/blame.h"

namespace paceline::ps {

struct PushTag {
  uint64_t set = 0;                 // hash of the data set's name
  std::vector<OrdinalRange> batch;  // disjoint, at least one ordinal
  WorkerKey worker = {};            // for messages
  uint64_t recovery = 0;            // times that the job lost a server, as the worker knows it
};

struct TableGradient {
  uint32_t table = 0;
  std::span<const uint64_t> keys;  // distinct
  std::span<const float> values;   // keys × dim
};

enum class PushAnswer : uint8_t {
  kApplied,
  kSkipped,       // all of the batch was applied before; as good as kApplied
  kOverlaps,      // a part of the batch was applied before
  kFenced,        // from before the last loss of a server
  kNotFinite,     // a gradient is NaN or infinite
  kUnknownTable,  // not open here
  kMalformed,     // no ordinals, ranges that overlap, or another number of values
};

}  // namespace paceline::ps

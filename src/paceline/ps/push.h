#pragma once

// The gradients of one batch, with the tag that makes them count once.
//
// Every push goes to every server, also to those that have none of its keys: a server knows by the
// ordinals alone which batches it has applied.
//
// A batch of a data set of fixed size has the same borders in whatever process it is read. One of
// a live stream has not. A server that has applied a part of it refuses it, and says where the
// part's borders are. The worker computes the gradients of the parts, and pushes each of them.

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

// The ranges of `batch`, cut wherever one of `borders` begins or ends. By rising ordinals.
std::vector<OrdinalRange> CutAt(const std::vector<OrdinalRange>& batch,
                                const std::vector<OrdinalRange>& borders);

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

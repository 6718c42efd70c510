#pragma once

// Synchronous training: a step consumes the next `global_batch` ordinals of the epoch at any world
// size. Only the shares of the ranks depend on the world. So a world that shrinks or grows between
// two steps reads the same samples in the same steps, and a position is two numbers.
//
// A share may be cut further, into parts that a rank works on one after the other: micro-batches,
// or the virtual ranks of a fixed-order reduction. A rank's parts are contiguous.

#include <cstdint>

#include "paceline/base/result.h"
#include "paceline/data/epoch_order.h"

namespace paceline {

struct BatchSpec {
  uint64_t samples = 0;       // of an epoch
  uint64_t global_batch = 0;  // samples of a step, over all ranks
  uint64_t world_size = 1;
  uint64_t micro_batch = 0;  // samples of a rank at once, at most; 0: all of them
  bool drop_last = false;    // leave out samples that fill no whole step
  bool even_steps = true;    // every rank has samples in every step
};

// Part `number` of `of` parts, whose sizes differ by one sample at most. The first ones are larger.
struct Part {
  uint64_t number = 0;
  uint64_t of = 1;
};
OrdinalRange CutEvenly(OrdinalRange whole, Part part);

class BatchCut {
 public:
  // kInvalid: the rule that the spec violates, as one sentence.
  static Result<BatchCut> Make(const BatchSpec& spec);

  const BatchSpec& spec() const { return spec_; }

  // Whether the epoch can continue from there, if its first steps had another size. kInvalid as in
  // Make.
  Result<void> CheckFrom(uint64_t consumed) const;

  // The number of steps in the rest of an epoch.
  uint64_t StepsFrom(uint64_t consumed) const;

  // The ordinals of the step that begins at `consumed`; empty at the end of the epoch.
  OrdinalRange StepAt(uint64_t consumed) const;

  // The number of parts into which each rank cuts its share of such a step; at least 1.
  uint64_t PartsOf(OrdinalRange step) const;

 private:
  explicit BatchCut(const BatchSpec& spec) : spec_(spec) {}

  BatchSpec spec_;
};

}  // namespace paceline

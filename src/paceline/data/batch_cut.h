#pragma once

// Synchronous training: a step consumes the next `global_batch` ordinals of the epoch, whatever the
// world; only the cut among ranks depends on it. So a world that shrinks or grows between two steps
// reads the same samples in the same steps, and a position is two numbers.
//
// A step may be cut further, to parts that a rank works on one after the other (micro-batches, or
// the virtual ranks of a reduction whose order is fixed); a rank's parts lie behind each other.

#include <cstdint>

#include "paceline/base/result.h"
#include "paceline/data/epoch_order.h"

namespace paceline {

// Where a data set stands: what of the epoch was consumed.
struct DataPosition {
  uint64_t epoch = 0;
  uint64_t consumed = 0;  // ordinals of it, from 0; at most its samples
  bool operator==(const DataPosition&) const = default;
};

struct BatchSpec {
  uint64_t samples = 0;       // of an epoch
  uint64_t global_batch = 0;  // samples of a step, over all ranks
  uint64_t world_size = 1;
  uint64_t micro_batch = 0;  // at most so many samples of a rank at once; 0 is all of them
  bool drop_last = false;    // the samples that fill no whole step are left out
  bool even_steps = true;    // every rank has samples in every step
};

// A part of a cut into `of` parts that differ by one sample at most; number < of. The first ones
// are the larger ones.
struct Part {
  uint64_t number = 0;
  uint64_t of = 1;
};
OrdinalRange CutEvenly(OrdinalRange whole, Part part);

class BatchCut {
 public:
  // kInvalid: what the spec breaks, as one sentence.
  static Result<BatchCut> Make(const BatchSpec& spec);

  const BatchSpec& spec() const { return spec_; }

  // Whether the epoch can go on from there, which matters when its first steps had another size.
  // kInvalid as Make.
  Result<void> CheckFrom(uint64_t consumed) const;

  // Steps of a whole epoch, and those that are left of it.
  uint64_t Steps() const { return StepsFrom(0); }
  uint64_t StepsFrom(uint64_t consumed) const;

  // The ordinals of the step that begins at `consumed`; empty when the epoch has no further step.
  OrdinalRange StepAt(uint64_t consumed) const;

  // Into how many parts every rank cuts its share of such a step; at least 1.
  uint64_t PartsOf(OrdinalRange step) const;

  // A rank's share of a step, and one part of it.
  OrdinalRange RankShare(OrdinalRange step, uint64_t rank) const;

 private:
  explicit BatchCut(const BatchSpec& spec) : spec_(spec) {}

  BatchSpec spec_;
};

}  // namespace paceline

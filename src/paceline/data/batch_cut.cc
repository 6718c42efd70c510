#include "paceline/data/batch_cut.h"

#include <algorithm>
#include <string>
#include <utility>

#include "paceline/base/check.h"

namespace paceline {
namespace {

Failure Invalid(std::string why) {
  return {.kind = FailureKind::kInvalid, .message = std::move(why)};
}

std::string Samples(uint64_t n) { return std::to_string(n) + (n == 1 ? " sample" : " samples"); }

std::string Ranks(const BatchSpec& spec) { return std::to_string(spec.world_size) + " ranks"; }

}  // namespace

OrdinalRange CutEvenly(OrdinalRange whole, Part part) {
  CHECK(part.number < part.of, "a part of the cut");
  const uint64_t each = whole.size() / part.of;
  const uint64_t larger = whole.size() % part.of;
  const uint64_t begin = whole.begin + part.number * each + std::min(part.number, larger);
  return {begin, begin + each + (part.number < larger ? 1 : 0)};
}

Result<BatchCut> BatchCut::Make(const BatchSpec& spec) {
  if (spec.samples < 1 || spec.samples > kSamplesMax) {
    return Invalid("an epoch has 1 to 2^53 samples");
  }
  if (spec.global_batch < 1) return Invalid("a step has at least one sample");
  if (spec.world_size < 1) return Invalid("a world has at least one rank");
  if (spec.even_steps && spec.global_batch < spec.world_size) {
    return Invalid("a step of " + Samples(spec.global_batch) + " is too small for " + Ranks(spec));
  }
  if (spec.drop_last && spec.samples < spec.global_batch) {
    return Invalid("an epoch of " + Samples(spec.samples) + " has no whole step of " +
                   std::to_string(spec.global_batch));
  }
  BatchCut cut(spec);
  RETURN_IF_ERROR(cut.CheckFrom(0));
  return cut;
}

Result<void> BatchCut::CheckFrom(uint64_t consumed) const {
  const uint64_t left = spec_.samples - std::min(consumed, spec_.samples);
  const uint64_t rest = spec_.drop_last ? 0 : left % spec_.global_batch;
  if (spec_.even_steps && rest > 0 && rest < spec_.world_size) {
    return Invalid("the last step of the epoch has " + Samples(rest) + ", too few for " +
                   Ranks(spec_));
  }
  const bool is_even = spec_.global_batch % spec_.world_size == 0 && rest % spec_.world_size == 0;
  if (spec_.micro_batch == 1 && !is_even) {
    return Invalid("micro-batches of one sample need steps that " + Ranks(spec_) +
                   " can share evenly");
  }
  return {};
}

uint64_t BatchCut::StepsFrom(uint64_t consumed) const {
  if (consumed >= spec_.samples) return 0;
  const uint64_t left = spec_.samples - consumed;
  const uint64_t whole = left / spec_.global_batch;
  return whole + (!spec_.drop_last && left % spec_.global_batch > 0 ? 1 : 0);
}

OrdinalRange BatchCut::StepAt(uint64_t consumed) const {
  if (StepsFrom(consumed) == 0) return {consumed, consumed};
  return {consumed, std::min(consumed + spec_.global_batch, spec_.samples)};
}

uint64_t BatchCut::PartsOf(OrdinalRange step) const {
  if (spec_.micro_batch == 0 || step.size() == 0) return 1;
  const uint64_t largest = CutEvenly(step, {.number = 0, .of = spec_.world_size}).size();
  return (largest + spec_.micro_batch - 1) / spec_.micro_batch;
}

}  // namespace paceline

#include "paceline/data/epoch_order.h"

#include <algorithm>

#include "paceline/base/check.h"

namespace paceline {
namespace {

// Numbers of the streams for an epoch's key.
constexpr uint64_t kWholeStream = 0;
constexpr uint64_t kBlockStream = 1;
constexpr uint64_t kFirstWindowStream = 2;

uint64_t BlocksOf(const OrderSpec& spec) { return (spec.samples + spec.block - 1) / spec.block; }

}  // namespace

Result<EpochOrder> EpochOrder::Make(const OrderSpec& spec) {
  const auto invalid = [](const char* why) {
    return Failure{.kind = FailureKind::kInvalid, .message = why};
  };
  if (spec.samples < 1) return invalid("an order has at least one sample");
  if (spec.samples > kSamplesMax) return invalid("an order has at most 2^53 samples");
  if (spec.shuffle == Shuffle::kBlocked) {
    if (spec.block < 1 || spec.block > kSamplesMax) return invalid("a block has 1 to 2^53 samples");
    if (spec.window < 1 || spec.window > kSamplesMax / spec.block) {
      return invalid("a window has at least one block and at most 2^53 samples");
    }
  }
  return EpochOrder(spec);
}

EpochOrder::EpochOrder(const OrderSpec& spec) : spec_(spec) {
  const auto key = [&spec](uint64_t stream) {
    return PermutationKey{.seed = spec.seed, .epoch = spec.epoch, .stream = stream};
  };
  switch (spec.shuffle) {
    case Shuffle::kNone: break;
    case Shuffle::kWhole: whole_.emplace(spec.samples, key(kWholeStream)); break;
    case Shuffle::kBlocked:
      blocks_.emplace(BlocksOf(spec), key(kBlockStream));
      missing_ = blocks_->count() * spec.block - spec.samples;
      short_place_ = blocks_->Inverse(blocks_->count() - 1);
      break;
  }
}

EpochOrder::Window EpochOrder::WindowAt(uint64_t ordinal) const {
  const uint64_t size = spec_.block * spec_.window;
  const uint64_t with_short = short_place_ / spec_.window;
  // Windows behind the short block begin earlier than their number suggests.
  uint64_t number = ordinal / size;
  if (number >= with_short) number = std::max(with_short, (ordinal + missing_) / size);
  const uint64_t begin = number * size - (number > with_short ? missing_ : 0);
  const uint64_t end = (number + 1) * size - (number >= with_short ? missing_ : 0);
  return {.number = number, .ordinals = {begin, std::min(end, spec_.samples)}};
}

Permutation EpochOrder::WithinWindow(const Window& window) const {
  return Permutation(
      window.ordinals.size(),
      {.seed = spec_.seed, .epoch = spec_.epoch, .stream = kFirstWindowStream + window.number});
}

uint64_t EpochOrder::SampleInWindow(const Window& window, const Permutation& within,
                                    uint64_t ordinal) const {
  // The ordinals that it would have if all blocks were full.
  uint64_t at = window.ordinals.begin + within.Forward(ordinal - window.ordinals.begin);
  const uint64_t short_end = (short_place_ + 1) * spec_.block - missing_;
  if (at >= short_end) at += missing_;
  return blocks_->Forward(at / spec_.block) * spec_.block + at % spec_.block;
}

uint64_t EpochOrder::SampleAt(uint64_t ordinal) const {
  CHECK(ordinal < spec_.samples, "an ordinal of this epoch");
  if (whole_) return whole_->Forward(ordinal);
  if (!blocks_) return ordinal;
  const Window window = WindowAt(ordinal);
  return SampleInWindow(window, WithinWindow(window), ordinal);
}

uint64_t EpochOrder::OrdinalOf(uint64_t sample) const {
  CHECK(sample < spec_.samples, "a sample of this data set");
  if (whole_) return whole_->Inverse(sample);
  if (!blocks_) return sample;
  const uint64_t place = blocks_->Inverse(sample / spec_.block);
  uint64_t at = place * spec_.block + sample % spec_.block;
  if (place > short_place_) at -= missing_;
  const Window window = WindowAt(at);
  return window.ordinals.begin + WithinWindow(window).Inverse(at - window.ordinals.begin);
}

std::vector<uint64_t> EpochOrder::SamplesAt(OrdinalRange range) const {
  CHECK(range.begin <= range.end, "a range begins before it ends");
  CHECK(range.end <= spec_.samples, "ordinals of this epoch");
  std::vector<uint64_t> samples;
  samples.reserve(range.size());
  uint64_t ordinal = range.begin;
  if (!blocks_) {
    for (; ordinal < range.end; ++ordinal) samples.push_back(SampleAt(ordinal));
    return samples;
  }
  while (ordinal < range.end) {
    const Window window = WindowAt(ordinal);
    const Permutation within = WithinWindow(window);
    for (; ordinal < std::min(range.end, window.ordinals.end); ++ordinal) {
      samples.push_back(SampleInWindow(window, within, ordinal));
    }
  }
  return samples;
}

}  // namespace paceline

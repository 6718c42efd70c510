#pragma once

// Memory of rows of one size, in blocks. A row stays where it is until it is freed.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::ps {

class RowStore {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit RowStore(uint32_t row_floats)
      : row_floats_(row_floats), shift_(ShiftFor(row_floats)), mask_((1u << shift_) - 1) {}

  // A row with undefined content, or kNone after 2^32 - 2 rows.
  uint32_t Add();
  void Free(uint32_t row) { free_.push_back(row); }

  float* At(uint32_t row) {
    return blocks_[row >> shift_].get() + size_t{row & mask_} * row_floats_;
  }
  const float* At(uint32_t row) const {
    return blocks_[row >> shift_].get() + size_t{row & mask_} * row_floats_;
  }

  uint32_t row_floats() const { return row_floats_; }
  size_t row_bytes() const { return size_t{row_floats_} * sizeof(float); }

 private:
  // A block takes whole huge pages, so that a random row costs one miss less.
  static constexpr size_t kHugePage = 2 << 20;
  struct Release {
    void operator()(float* block) const;
  };

  // Rows of a block are a power of two: from kHugePage to twice as many bytes.
  static int ShiftFor(uint32_t row_floats) {
    return std::countr_zero(std::bit_ceil(kHugePage / sizeof(float) / row_floats));
  }
  void AddBlock();

  const uint32_t row_floats_;
  const int shift_;
  const uint32_t mask_;
  uint32_t used_ = 0;  // rows that were ever given out
  std::vector<std::unique_ptr<float[], Release>> blocks_;
  std::vector<uint32_t> free_;
};

}  // namespace paceline::ps

#include "paceline/ps/rows/row_store.h"

#include <sys/mman.h>

#include <new>

#include "paceline/ps/table_spec.h"

namespace paceline::ps {

static_assert(3 * size_t{kDimMax} * sizeof(float) < 2 << 20, "a block has at least one row");

uint32_t RowStore::Add() {
  if (!free_.empty()) {
    const uint32_t row = free_.back();
    free_.pop_back();
    return row;
  }
  if (used_ == kNone - 1) return kNone;
  if (used_ >> shift_ == blocks_.size()) AddBlock();
  return used_++;
}

void RowStore::AddBlock() {
  const size_t bytes = row_bytes() << shift_;
  auto* block = static_cast<float*>(::operator new(bytes, std::align_val_t(kHugePage)));
  // The first block keeps small pages, so that a small table takes no more memory than it uses.
  if (!blocks_.empty()) ::madvise(block, bytes, MADV_HUGEPAGE);
  blocks_.emplace_back(block);
}

void RowStore::Release::operator()(float* block) const {
  ::operator delete(block, std::align_val_t(kHugePage));
}

}  // namespace paceline::ps

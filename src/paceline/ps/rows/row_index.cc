#include "paceline/ps/rows/row_index.h"

#include <new>

#include "paceline/base/check.h"

namespace paceline::ps {

void RowIndex::Put(uint64_t place, uint64_t key, uint32_t row) {
  uint32_t at = HomeOf(place);
  while (BucketAt(at).used == kSlots) {
    BucketAt(at).is_passed = 1;
    at = Next(at);
  }
  Bucket& bucket = BucketAt(at);
  bucket.keys[bucket.used] = key;
  bucket.rows[bucket.used] = row;
  ++bucket.used;
}

uint32_t RowIndex::ProbesOf(uint64_t place, uint64_t key) const {
  uint32_t probes = 0;
  if (size_ == 0) return probes;
  for (uint32_t at = HomeOf(place);; at = Next(at)) {
    ++probes;
    const Bucket& bucket = BucketAt(at);
    for (uint32_t i = 0; i < bucket.used; ++i) {
      if (bucket.keys[i] == key) return probes;
    }
    if (bucket.is_passed == 0) return probes;
  }
}

RowIndex::Array RowIndex::Allocate(uint32_t count, Pages* pages) const {
  const uint32_t wanted = (count + kPageBuckets - 1) / kPageBuckets;
  Array array{.pages = std::make_unique<Page[]>(wanted), .small = nullptr};
  if (count < kPageBuckets) {
    array.small = std::make_unique<Bucket[]>(count);
    array.pages[0].buckets = array.small.get();
    return array;
  }
  for (uint32_t i = 0; i < wanted; ++i) {
    const uint32_t number = pages->Add();
    CHECK(number != RowStore::kNone, "pages for as many rows as there can be");
    auto* buckets = reinterpret_cast<Bucket*>(pages->At(number));
    for (uint32_t j = 0; j < kPageBuckets; ++j) new (buckets + j) Bucket();
    array.pages[i] = {buckets, number};
  }
  return array;
}

void RowIndex::Release(const Array& array, uint32_t count, Pages* pages) {
  if (array.small != nullptr) return;
  for (uint32_t i = 0; i < count / kPageBuckets; ++i) pages->Free(array.pages[i].number);
}

void RowIndex::Clear(Pages* pages) {
  Release(array_, bucket_count_, pages);
  *this = RowIndex();
}

}  // namespace paceline::ps

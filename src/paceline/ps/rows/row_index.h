#pragma once

// Finds the row of a key, for one partition.
//
// Open addressing in buckets of one cache line: five keys, the numbers of their rows, and whether a
// further key had no room. So a key costs one cache miss, and its row another one. The array grows
// by half when it is 80 % full: a row takes 16 to 24 bytes of it. Keys are never removed alone.
//
// The array consists of pages of 64 buckets from a store for all partitions, which lies in huge
// pages of the system. A small partition has one shorter page of its own.
//
// absl::flat_hash_map costs two misses a key (control bytes, slot) and doubles. It also cannot be
// linked into the Python module.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "paceline/ps/rows/row_store.h"

namespace paceline::ps {

class RowIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kPageBytes = 4096;

  // `pages` has rows of kPageBytes, and is the same in all calls.
  using Pages = RowStore;
  static constexpr uint32_t kPageFloats = kPageBytes / sizeof(float);

  // The address that Find reads first. `place` is uniform in 64 bits.
  const void* Home(uint64_t place) const {
    return bucket_count_ == 0 ? nullptr : &BucketAt(HomeOf(place));
  }

  // The key's row, or kNone.
  uint32_t Find(uint64_t place, uint64_t key) const {
    if (size_ == 0) return kNone;
    for (uint32_t at = HomeOf(place);; at = Next(at)) {
      const Bucket& bucket = BucketAt(at);
      for (uint32_t i = 0; i < kSlots; ++i) {
        if (bucket.keys[i] == key && i < bucket.used) return bucket.rows[i];
      }
      if (bucket.is_passed == 0) return kNone;
    }
  }

  // The key must not be there. `place_of` gives the place of any key: the array may grow.
  template <class PlaceOf>
  void Add(uint64_t place, uint64_t key, uint32_t row, Pages* pages, const PlaceOf& place_of) {
    if (IsFull()) Grow(pages, place_of);
    Put(place, key, row);
    ++size_;
  }

  void Clear(Pages* pages);

  // Returns by how many bytes the array grows at the next Add.
  size_t GrowthBytes() const {
    return IsFull() ? (NextCount() - bucket_count_) * sizeof(Bucket) : 0;
  }
  size_t bytes() const { return bucket_count_ * sizeof(Bucket); }
  uint32_t size() const { return size_; }

  // Buckets that Find reads for this key.
  uint32_t ProbesOf(uint64_t place, uint64_t key) const;

  template <class Visitor>
  void Visit(const Visitor& visit) const {
    for (uint32_t at = 0; at < bucket_count_; ++at) {
      const Bucket& bucket = BucketAt(at);
      for (uint32_t i = 0; i < bucket.used; ++i) visit(bucket.keys[i], bucket.rows[i]);
    }
  }

 private:
  static constexpr uint32_t kSlots = 5;
  struct alignas(64) Bucket {
    uint64_t keys[kSlots] = {};
    uint32_t rows[kSlots] = {};
    uint16_t used = 0;
    uint16_t is_passed = 0;  // a key whose home is at or before this bucket lies behind it
  };
  static_assert(sizeof(Bucket) == 64);
  static constexpr uint32_t kPageBuckets = kPageBytes / sizeof(Bucket);

  struct Page {
    Bucket* buckets = nullptr;
    uint32_t number = 0;  // in the store; of a whole page
  };
  struct Array {
    std::unique_ptr<Page[]> pages;
    std::unique_ptr<Bucket[]> small;  // the only page, if it is shorter
  };

  Bucket& BucketAt(uint32_t at) const {
    return array_.pages[at / kPageBuckets].buckets[at % kPageBuckets];
  }
  uint32_t HomeOf(uint64_t place) const {
    return static_cast<uint32_t>((static_cast<unsigned __int128>(place) * bucket_count_) >> 64);
  }
  uint32_t Next(uint32_t at) const { return at + 1 == bucket_count_ ? 0 : at + 1; }
  bool IsFull() const { return size_ >= uint64_t{bucket_count_} * 4; }  // of 5 slots
  uint32_t NextCount() const {
    const uint32_t next = bucket_count_ + bucket_count_ / 2 + 1;
    return next < kPageBuckets ? next : (next + kPageBuckets - 1) / kPageBuckets * kPageBuckets;
  }

  void Put(uint64_t place, uint64_t key, uint32_t row);
  Array Allocate(uint32_t count, Pages* pages) const;
  static void Release(const Array& array, uint32_t count, Pages* pages);

  template <class PlaceOf>
  void Grow(Pages* pages, const PlaceOf& place_of) {
    RowIndex old = std::move(*this);
    bucket_count_ = old.NextCount();
    size_ = old.size_;
    array_ = Allocate(bucket_count_, pages);
    old.Visit([&](uint64_t key, uint32_t row) { Put(place_of(key), key, row); });
    Release(old.array_, old.bucket_count_, pages);
  }

  Array array_;
  uint32_t bucket_count_ = 0;
  uint32_t size_ = 0;
};

}  // namespace paceline::ps

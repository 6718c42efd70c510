#pragma once

// The hash of a row's key: XXH3-64 of the key's eight bytes, little-endian, seeded with the hash of
// the table's name. Its highest 12 bits are the partition; the bits below find the row in it.

#include <bit>
#include <cstdint>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "paceline/ps/table_spec.h"

namespace paceline::ps {

inline constexpr int kPartitionShift = 64 - 12;
static_assert(kPartitions == 1u << (64 - kPartitionShift));
static_assert(std::endian::native == std::endian::little, "keys are hashed as they lie in memory");

inline uint64_t RowHash(TableKey table, uint64_t key) {
  return XXH3_64bits_withSeed(&key, sizeof(key), table.value());
}

}  // namespace paceline::ps

#pragma once

// The hash of a data set's name, by which table servers know it: XXH3-64, as in the tag of a push.

#include <cstdint>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace paceline {

inline uint64_t DataSetKey(std::string_view name) { return XXH3_64bits(name.data(), name.size()); }

}  // namespace paceline

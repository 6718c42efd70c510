#pragma once

#include <cstddef>

namespace paceline {

// job.json and its copy in the registry hold the command line, which the kernel limits to 6 MiB
// with the environment. One byte may take six in JSON.
inline constexpr size_t kJobFileBytesMax = size_t{64} << 20;

}  // namespace paceline

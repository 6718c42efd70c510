#pragma once

#include <cstddef>

namespace paceline {

// job.json and the registry's copy of it hold the command line, so they are as long as the kernel
// lets that be: 6 MiB with the environment, and a byte may need six in JSON.
inline constexpr size_t kJobFileBytesMax = size_t{64} << 20;

}  // namespace paceline

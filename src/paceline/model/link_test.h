#pragma once

// A test of the link from one host to another: the first fetches a few chunks of bytes over the
// bulk channel of the second.

#include <cstddef>
#include <cstdint>
#include <string>

namespace paceline {

inline constexpr size_t kLinkProblemMax = 300;  // bytes of LinkTested::problem that are kept
inline constexpr uint32_t kLinkChunksMax = 16;

struct LinkTry {
  uint64_t round = 0;
  std::string peer;     // name of the other node
  std::string address;  // HOST:PORT of its bulk channel
  uint32_t chunks = 1;  // of 4 MiB each; at most kLinkChunksMax
  bool operator==(const LinkTry&) const = default;
};

struct LinkTested {
  uint64_t round = 0;
  std::string peer;
  double gb_s = 0;      // 10^9 bytes a second, of the fastest chunk; 0: no chunk came
  std::string problem;  // "": all chunks came
  bool operator==(const LinkTested&) const = default;
};

}  // namespace paceline

#pragma once

// A chunk of a file in storage, as ranks request it from their agent and agents from each other:
// docs/formats/chunk_socket.md, docs/formats/bulk_channel.md. It includes its hash, so the reader
// needs no manifest.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

inline constexpr uint64_t kStoredChunkBytes = uint64_t{4} << 20;
inline constexpr uint64_t kStoredFileBytesMax = uint64_t{1} << 41;
inline constexpr size_t kStoredChunkTextMax = 320;

struct StoredChunk {
  std::string file;  // in the directory of checkpoints: "step-7-g1/shard-00003.safetensors"
  uint64_t file_bytes = 0;
  uint64_t index = 0;
  uint64_t hash = 0;  // XXH3-64 of its bytes

  auto operator<=>(const StoredChunk&) const = default;
  // All chunks of a file but the last one are full.
  uint64_t bytes() const {
    const uint64_t left = file_bytes - index * kStoredChunkBytes;
    return left < kStoredChunkBytes ? left : kStoredChunkBytes;
  }
};

// Three numbers of 8 bytes, little-endian, then the file's name.
std::string EncodeChunk(const StoredChunk& chunk);
// None: truncated, too long, or the file has no such chunk. The name is not checked; the code that
// opens it does.
std::optional<StoredChunk> ParseChunk(std::string_view bytes);

// The answer on the socket between a rank and its agent.
enum class ChunkEnd : uint32_t {
  kHere = 0,     // its bytes follow
  kDamaged = 1,  // it differs from what was saved
  kGone = 2,     // there is no such file
  kAway = 3,     // the storage does not answer
  kFailed = 4,   // this file cannot be read now
};

}  // namespace paceline

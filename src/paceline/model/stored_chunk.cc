#include "paceline/model/stored_chunk.h"

#include <array>
#include <bit>
#include <cstring>

namespace paceline {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are sent as they lie");
constexpr size_t kNumbersBytes = 3 * sizeof(uint64_t);

}  // namespace

std::string EncodeChunk(const StoredChunk& chunk) {
  const std::array<uint64_t, 3> numbers = {chunk.file_bytes, chunk.index, chunk.hash};
  return std::string(reinterpret_cast<const char*>(numbers.data()), kNumbersBytes) + chunk.file;
}

std::optional<StoredChunk> ParseChunk(std::string_view bytes) {
  if (bytes.size() <= kNumbersBytes || bytes.size() > kStoredChunkTextMax) return std::nullopt;
  std::array<uint64_t, 3> numbers{};
  std::memcpy(numbers.data(), bytes.data(), kNumbersBytes);
  StoredChunk chunk{.file = std::string(bytes.substr(kNumbersBytes)),
                    .file_bytes = numbers[0],
                    .index = numbers[1],
                    .hash = numbers[2]};
  if (chunk.file_bytes == 0 || chunk.file_bytes > kStoredFileBytesMax ||
      chunk.index > (chunk.file_bytes - 1) / kStoredChunkBytes) {
    return std::nullopt;
  }
  return chunk;
}

}  // namespace paceline

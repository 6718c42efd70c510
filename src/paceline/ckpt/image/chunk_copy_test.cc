#include "paceline/ckpt/image/chunk_copy.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/ckpt/image/test_memory.h"

namespace paceline::ckpt {
namespace {

std::vector<std::byte> RandomBytes(size_t size, Prng* prng) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng->Next());
  return bytes;
}

// Copies `source` in pieces of at most `piece_max`; compares image and hashes with the library's.
void CopyAndCompare(const std::vector<std::byte>& source, size_t piece_max, Prng* prng) {
  const AlignedBytes image = MakeAligned(source.size(), 64);
  ChunkCopier copier(image.get(), source.size());
  while (copier.appended() < source.size()) {
    const size_t left = source.size() - copier.appended();
    const auto piece =
        static_cast<size_t>(prng->Between(1, static_cast<int64_t>(std::min(left, piece_max))));
    copier.Append(source.data() + copier.appended(), piece);
  }
  const std::vector<uint64_t>& hashes = copier.Finish();
  ASSERT_EQ(std::memcmp(image.get(), source.data(), source.size()), 0) << source.size();
  ASSERT_EQ(hashes.size(), (source.size() + kChunkBytes - 1) / kChunkBytes);
  for (size_t i = 0; i < hashes.size(); ++i) {
    const size_t begin = i * kChunkBytes;
    const size_t size = std::min(kChunkBytes, source.size() - begin);
    ASSERT_EQ(hashes[i], XXH3_64bits(source.data() + begin, size))
        << source.size() << " bytes, chunk " << i;
  }
}

TEST(ChunkCopier, EveryShortLengthIsTheLibrarysHash) {
  Prng prng(1);
  for (size_t size = 1; size <= 2200; ++size) CopyAndCompare(RandomBytes(size, &prng), size, &prng);
}

TEST(ChunkCopier, PiecesOfAnySizeMakeTheSameImage) {
  Prng prng(2);
  const std::vector<std::byte> source = RandomBytes(2 * kChunkBytes + 4711, &prng);
  for (const size_t piece_max : {size_t{70}, size_t{5000}, size_t{3} << 20, source.size()}) {
    CopyAndCompare(source, piece_max, &prng);
  }
}

TEST(ChunkCopier, ChunksThatEndOnABoundary) {
  Prng prng(3);
  for (const size_t size : {kChunkBytes - 1, kChunkBytes, kChunkBytes + 1, 2 * kChunkBytes}) {
    CopyAndCompare(RandomBytes(size, &prng), 1 << 20, &prng);
  }
}

TEST(ChunkCopier, AnEmptyImageHasNoChunk) {
  const AlignedBytes image = MakeAligned(1, 64);
  ChunkCopier copier(image.get(), 0);
  EXPECT_TRUE(copier.Finish().empty());
}

// Pieces of any size, alignment and number. The hash equals the library's in each case.
TEST(CopyFromChunk, PiecesArriveAndTheHashIsTheLibrarys) {
  Prng prng(4);
  const auto upto = [&](size_t most) {
    return static_cast<size_t>(prng.Between(0, static_cast<int64_t>(most)));
  };
  for (int round = 0; round < 300; ++round) {
    const size_t size = 1 + upto(round % 3 == 0 ? 600 : 100'000);
    const std::vector<std::byte> chunk = RandomBytes(size, &prng);
    std::vector<std::byte> target(size + 64);
    const size_t shift = upto(63);
    std::vector<CopyOut> pieces;
    std::vector<std::byte> wanted(size + 64);
    for (size_t at = upto(50); at < size;) {
      const size_t bytes = std::min(size - at, 1 + upto(round % 2 == 0 ? 100 : 40'000));
      pieces.push_back({at, bytes, target.data() + shift + at});
      std::memcpy(wanted.data() + shift + at, chunk.data() + at, bytes);
      at += bytes + upto(3);
    }
    ASSERT_EQ(CopyFromChunk(chunk.data(), size, pieces), XXH3_64bits(chunk.data(), size)) << size;
    ASSERT_EQ(target, wanted) << size;
  }
}

TEST(ChunkCopierDeathTest, MoreThanAnnouncedIsABug) {
  const AlignedBytes image = MakeAligned(8, 64);
  ChunkCopier copier(image.get(), 8);
  EXPECT_DEATH(copier.Append("123456789", 9), "no more than was announced");
}

}  // namespace
}  // namespace paceline::ckpt

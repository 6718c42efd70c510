#include "paceline/ckpt/storage/tensor_contents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/ckpt/format/tiling.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::ckpt {
namespace {

std::vector<std::byte> Random(size_t size, uint64_t seed) {
  Prng prng(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.Next());
  return bytes;
}

// Hashes of consecutive tensors that begin `gap` bytes after the start of a file.
std::vector<uint64_t> HashesOf(const std::vector<std::vector<std::byte>>& tensors, size_t gap,
                               bool is_whole = true) {
  std::vector<std::byte> file(gap);
  std::vector<TensorBox> boxes;
  for (const auto& tensor : tensors) {
    boxes.push_back({.key = "t", .begin = file.size(), .bytes = tensor.size()});
    file.insert(file.end(), tensor.begin(), tensor.end());
  }
  MemorySource source(file);
  TensorContents contents(&source, boxes);
  const size_t chunks = ChunkCount(file.size());
  for (size_t i = 0; i < chunks; ++i) {
    if (i == chunks - 1 && !is_whole) break;
    const auto chunk = contents.Chunk(i);
    EXPECT_TRUE(chunk.ok());
    // A repeated read changes nothing.
    EXPECT_TRUE(contents.Chunk(i / 2).ok());
  }
  return contents.Finish();
}

TEST(TensorContentsTest, ATensorHasTheSameHashWhereverItLies) {
  std::vector<std::vector<std::byte>> tensors;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{65537},
                            kChunkBytes, 2 * kChunkBytes + 99, size_t{0}, size_t{7}, size_t{0}}) {
    tensors.push_back(Random(size, size));
  }
  const std::vector<uint64_t> hashes = HashesOf(tensors, 4096);
  ASSERT_EQ(hashes.size(), tensors.size());
  EXPECT_EQ(std::count(hashes.begin(), hashes.end(), 0), 0);
  for (const size_t gap : {size_t{1}, size_t{65536}, kChunkBytes - 1, kChunkBytes}) {
    EXPECT_EQ(HashesOf(tensors, gap), hashes) << gap;
  }
  EXPECT_EQ(std::set<uint64_t>(hashes.begin(), hashes.end()).size(), tensors.size() - 2);
  EXPECT_EQ(HashesOf({}, 4096), std::vector<uint64_t>());
}

TEST(TensorContentsTest, AnyOtherByteIsAnotherHash) {
  std::vector<std::byte> tensor = Random(200'000, 3);
  const std::vector<uint64_t> before = HashesOf({tensor}, 10);
  Prng prng(4);
  for (int i = 0; i < 100; ++i) {
    const auto at = static_cast<size_t>(prng.Between(0, static_cast<int64_t>(tensor.size()) - 1));
    tensor[at] ^= std::byte{1};
    EXPECT_NE(HashesOf({tensor}, 10), before);
    tensor[at] ^= std::byte{1};
  }
  EXPECT_EQ(HashesOf({tensor}, 10), before);
}

TEST(TensorContentsTest, WhatWasNotWrittenHasNoHashes) {
  EXPECT_EQ(HashesOf({Random(2 * kChunkBytes, 1)}, 10, false), std::vector<uint64_t>());
}

TEST(TensorContentsTest, TilingNamesWhatDiffers) {
  const auto box = [](const char* key, uint64_t offset, uint64_t content) {
    return TensorBox{
        .key = key, .dtype = DType::kU8, .shape = {4}, .offset = {offset}, .content = content};
  };
  const auto names = CheckTiling(
      {box("same", 0, 5), box("same", 0, 5), box("other", 0, 5), box("other", 0, 6),
       box("other", 0, 5), box("cut", 0, 1), box("cut", 4, 2), box("part", 0, 1), box("part", 4, 2),
       box("part", 4, 3), box("unknown", 0, 0), box("unknown", 0, 3)},
      OtherShapes::kRefused);
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, (std::vector<std::string>{"other", "part"}));
}

TEST(TensorContentsTest, TilingTakesWholesOfOtherShapesForTheRanksOwn) {
  const auto box = [](const char* key, std::vector<uint64_t> offset, std::vector<uint64_t> shape) {
    return TensorBox{.key = key, .dtype = DType::kU8, .shape = shape, .offset = offset};
  };
  const std::vector<TensorBox> stages = {box("stage", {0, 0}, {4, 2}), box("stage", {0, 0}, {4, 3}),
                                         box("norm", {0}, {4}),        box("norm", {0, 0}, {4, 1}),
                                         box("same", {0}, {4}),        box("same", {0}, {4})};
  EXPECT_FALSE(CheckTiling(stages, OtherShapes::kRefused).ok());
  const auto names = CheckTiling(stages, OtherShapes::kOwn);
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, (std::vector<std::string>{"norm", "stage"}));
  // Shards are still compared, and an empty one says nothing.
  const auto shards = [&](std::vector<uint64_t> offset, std::vector<uint64_t> shape) {
    return CheckTiling({box("x", {0}, {4}), box("x", {0}, {0}), box("x", offset, shape)},
                       OtherShapes::kOwn);
  };
  EXPECT_TRUE(shards({4}, {4})->empty());
  EXPECT_FALSE(shards({3}, {4}).ok());
  EXPECT_FALSE(shards({5}, {4}).ok());
}

}  // namespace
}  // namespace paceline::ckpt

#include "paceline/ckpt/image/restore.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/base/test_dir.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/image/save.h"

namespace paceline::ckpt {
namespace {

// Verifies bytes in memory.
Result<void> Verify(std::span<const std::byte> bytes, std::span<const uint64_t> hashes) {
  MemorySource source(bytes);
  return ckpt::Verify(&source, hashes);
}
Result<Image> ReadHead(std::span<const std::byte> bytes, std::span<const uint64_t> hashes) {
  MemorySource source(bytes);
  return ckpt::ReadHead(&source, hashes);
}
Result<void> Restore(std::span<const std::byte> bytes, std::span<const uint64_t> hashes,
                     std::vector<Target> targets) {
  MemorySource source(bytes);
  return ckpt::Restore(&source, hashes, std::move(targets));
}

class RestoreTest : public testing::Test {
 protected:
  RestoreTest() {
    Prng prng(5);
    std::vector<TensorBox> boxes;
    for (const uint64_t size : {uint64_t{1}, uint64_t{63}, uint64_t{0}, 2 * kChunkBytes + 17,
                                uint64_t{4096}, kChunkBytes - 5, uint64_t{999}}) {
      boxes.push_back(
          {.key = "t" + std::to_string(boxes.size()), .dtype = DType::kU8, .shape = {size}});
      std::vector<std::byte> bytes(size);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.Next());
      tensors_.push_back(std::move(bytes));
    }
    layout_ = *LayOut(std::move(boxes), {});
    arena_ = *Arena::OpenOrMake(dir_.path() + "/a", {"job", "boot", 0}, {layout_.size, 2});
    for (const uint32_t slot : {0, 1}) EXPECT_TRUE(arena_->Reserve(slot).ok());
    for (const auto& tensor : tensors_) sources_.push_back(tensor.data());
    EXPECT_TRUE(Save(arena_.get(), layout_, sources_, {.saved = {1, 7}}).ok());
    image_ = arena_->Sealed().front();
    hashes_ = arena_->FileHashesOf(image_);
  }

  std::vector<Target> Targets(std::vector<std::vector<std::byte>>* memory) const {
    std::vector<Target> targets;
    memory->clear();
    for (const auto& tensor : tensors_) memory->emplace_back(tensor.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      targets.push_back({layout_.boxes[i], (*memory)[i]});
    }
    return targets;
  }

  const TestDir dir_{TestDir::InMemory()};
  std::vector<std::vector<std::byte>> tensors_;
  Image layout_;
  std::unique_ptr<Arena> arena_;
  std::vector<const void*> sources_;
  ArenaImage image_;
  std::vector<uint64_t> hashes_;
};

TEST_F(RestoreTest, WhatWasSavedComesBack) {
  const auto bytes = arena_->FileOf(image_);
  ASSERT_EQ(bytes.size(), layout_.size);
  EXPECT_TRUE(Verify(bytes, hashes_).ok());
  const auto head = ReadHead(bytes, hashes_);
  ASSERT_TRUE(head.ok()) << head.failure().message;
  EXPECT_EQ(head->boxes, layout_.boxes);
  std::vector<std::vector<std::byte>> memory;
  ASSERT_TRUE(Restore(bytes, hashes_, Targets(&memory)).ok());
  EXPECT_EQ(memory, tensors_);
}

TEST_F(RestoreTest, ATensorAloneNeedsItsOwnChunksOnly) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<Target> targets = Targets(&memory);
  const auto bytes = arena_->FileOf(image_);
  auto* damaged = const_cast<std::byte*>(bytes.data()) + layout_.size - 1;
  *damaged ^= std::byte{1};
  EXPECT_TRUE(Restore(bytes, hashes_, {targets.front()}).ok()) << "the last chunk is not its";
  EXPECT_EQ(memory.front(), tensors_.front());
  EXPECT_EQ(Restore(bytes, hashes_, targets).failure().kind, FailureKind::kDamaged);
}

TEST_F(RestoreTest, APartOfATensorNeedsItsChunksOnlyAndIsVerified) {
  // t3 has two chunks and 17 bytes; its last 20 bytes are behind the second chunk.
  const uint64_t size = tensors_[3].size();
  const auto bytes = arena_->FileOf(image_);
  std::vector<std::byte> memory(30, std::byte{7});
  const Region part{.from = {size - 20}, .extent = {20}, .shape = {30}, .to = {4}};
  const Target target{layout_.boxes[3], memory, part};
  auto* writable = const_cast<std::byte*>(bytes.data());
  writable[layout_.boxes[3].begin] ^= std::byte{1};  // in another chunk
  ASSERT_TRUE(Restore(bytes, hashes_, {target}).ok());
  EXPECT_TRUE(std::equal(memory.begin() + 4, memory.begin() + 24, tensors_[3].end() - 20));
  EXPECT_EQ(memory[3], std::byte{7});
  EXPECT_EQ(memory[24], std::byte{7});
  writable[layout_.boxes[3].begin + size - 1] ^= std::byte{1};
  EXPECT_EQ(Restore(bytes, hashes_, {target}).failure().kind, FailureKind::kDamaged);
  const Region outside{.from = {size - 10}, .extent = {20}, .shape = {30}, .to = {4}};
  EXPECT_EQ(Restore(bytes, hashes_, {{layout_.boxes[3], memory, outside}}).failure().kind,
            FailureKind::kInvalid);
}

// A caller with a wrong type or shape of a tensor overwrites nothing.
TEST_F(RestoreTest, MemoryOfAnotherSizeIsNotTouched) {
  const auto bytes = arena_->FileOf(image_);
  const uint64_t size = tensors_[3].size();
  std::vector<std::byte> memory(size + 1, std::byte{7});
  const auto restore = [&](std::span<std::byte> data, std::optional<Region> part) {
    return Restore(bytes, hashes_, {{layout_.boxes[3], data, std::move(part)}});
  };
  const Region all{.from = {0}, .extent = {size}, .shape = {size}, .to = {0}};
  const std::span<std::byte> room(memory);
  for (const size_t wrong : {size - 1, size + 1, size_t{0}, size / 2}) {
    EXPECT_EQ(restore(room.first(wrong), std::nullopt).failure().kind, FailureKind::kInvalid);
    EXPECT_EQ(restore(room.first(wrong), all).failure().kind, FailureKind::kInvalid);
  }
  // More elements than the address space has.
  Region wide = all;
  wide.shape = {uint64_t{1} << 63, 2};
  EXPECT_EQ(restore(room, wide).failure().kind, FailureKind::kInvalid);
  EXPECT_EQ(restore({static_cast<std::byte*>(nullptr), size}, all).failure().kind,
            FailureKind::kInvalid);
  EXPECT_EQ(memory, std::vector<std::byte>(size + 1, std::byte{7}));
  EXPECT_TRUE(restore(room.first(size), all).ok());
}

// Each flipped bit is found; 2,000 are tried.
TEST_F(RestoreTest, NoFlippedBitGetsThrough) {
  const auto bytes = arena_->FileOf(image_);
  auto* writable = const_cast<std::byte*>(bytes.data());
  Prng prng(6);
  for (int i = 0; i < 2'000; ++i) {
    const auto at = static_cast<size_t>(prng.Between(0, static_cast<int64_t>(bytes.size()) - 1));
    const auto bit = static_cast<std::byte>(1 << prng.Between(0, 7));
    const size_t chunk = at / kChunkBytes;
    const auto part = bytes.subspan(chunk * kChunkBytes,
                                    std::min(kChunkBytes, bytes.size() - chunk * kChunkBytes));
    writable[at] ^= bit;
    ASSERT_NE(HashOf(part.data(), part.size()), hashes_[chunk]) << at;
    writable[at] ^= bit;
  }
  EXPECT_TRUE(Verify(bytes, hashes_).ok());
  writable[0] ^= std::byte{1};
  EXPECT_EQ(ReadHead(bytes, hashes_).failure().kind, FailureKind::kDamaged);
}

TEST_F(RestoreTest, AShorterImageIsNotTheImage) {
  const auto bytes = arena_->FileOf(image_);
  EXPECT_FALSE(Verify(bytes.first(kChunkBytes), hashes_).ok());
  EXPECT_FALSE(Verify({}, hashes_).ok());
  std::vector<std::vector<std::byte>> memory;
  EXPECT_FALSE(Restore(bytes.first(bytes.size() - kChunkBytes), hashes_, Targets(&memory)).ok());
}

TEST_F(RestoreTest, ASaveThatCannotBeSaysSo) {
  Image large = layout_;
  large.size = arena_->image_bytes_max() + 1;
  EXPECT_EQ(Save(arena_.get(), large, sources_, {}).failure().kind, FailureKind::kTooLarge);
  ASSERT_TRUE(Save(arena_.get(), layout_, sources_, {.saved = {1, 8}}).ok());
  const auto images = arena_->Sealed();
  ASSERT_TRUE(arena_->BeginRead(images[1]));
  EXPECT_EQ(Save(arena_.get(), layout_, sources_, {.saved = {1, 9}}).failure().kind,
            FailureKind::kBusy);
}

}  // namespace
}  // namespace paceline::ckpt

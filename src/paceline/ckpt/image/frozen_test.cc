// Frozen tensors have a file of their own, to which later checkpoints link.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/test_dir.h"
#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/storage/image_files.h"
#include "paceline/ckpt/storage/saved_ranks.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::ckpt {
namespace {

constexpr size_t kFrozenBytes = 4'500'000;

// Counts written bytes. Links are allowed or not.
class CountingDisk final : public Disk {
 public:
  int64_t Write(int fd, const void* data, uint64_t bytes, uint64_t at) override {
    written += bytes;
    return Disk::Write(fd, data, bytes, at);
  }
  int Link(const std::string& from, const std::string& to) override {
    return link_error == 0 ? Disk::Link(from, to) : -link_error;
  }
  std::unique_ptr<WriteQueue> MakeQueue(uint32_t) override { return nullptr; }

  uint64_t written = 0;
  int link_error = 0;
};

class FrozenTest : public testing::Test {
 protected:
  FrozenTest() { ::mkdir(storage_.c_str(), 0700); }

  // The number of bytes that the save of that step wrote.
  uint64_t Save(int64_t step) {
    const uint64_t before = disk_.written;
    const Result<void> saved = ranks_.SaveWhole(store_.get(), step);
    EXPECT_TRUE(saved.ok()) << saved.failure().message;
    return disk_.written - before;
  }
  std::string FrozenPath(int64_t step) const {
    return storage_ + "/" + SavedRanks::NameOf(step) + "/" + FrozenNameOf(0);
  }
  struct stat Stat(int64_t step) const {
    struct stat found {};
    EXPECT_EQ(::stat(FrozenPath(step).c_str(), &found), 0);
    return found;
  }
  // Checks every byte of the save; the frozen tensor must have `value` in each byte.
  void ExpectWhole(int64_t step, char value) {
    const std::string name = SavedRanks::NameOf(step);
    EXPECT_EQ(VerifyCheckpoint(store_.get(), name), std::vector<std::string>());
    const Manifest manifest = *ReadManifest(store_.get(), name);
    auto opened = OpenImage(store_.get(), name, manifest, 0);
    ASSERT_TRUE(opened.ok()) << opened.failure().message;
    const Image head = *ReadHead(opened->source.get(), opened->hashes);
    ASSERT_EQ(head.boxes.size(), 2u);
    std::vector<char> back(kFrozenBytes);
    std::vector<Target> targets = {{head.boxes[1], std::as_writable_bytes(std::span(back))}};
    ASSERT_TRUE(Restore(opened->source.get(), opened->hashes, targets).ok());
    EXPECT_EQ(back, std::vector<char>(kFrozenBytes, value));
  }

  const TestDir dir_{TestDir::InMemory()};
  const std::string storage_ = dir_.path() + "/storage";
  CountingDisk disk_;
  const std::unique_ptr<Store> store_ = MakePosixStore(storage_, &disk_);
  SavedRanks ranks_{kFrozenBytes};
};

TEST(FrozenLayout, AnImageOfTwoFilesIsTwoFiles) {
  const std::vector<TensorBox> boxes = {
      {.key = "b", .dtype = DType::kU8, .shape = {5}},
      {.key = "a", .dtype = DType::kF32, .shape = {3}, .is_frozen = true},
      {.key = "c", .dtype = DType::kF32, .shape = {2, 2}},
      {.key = "d", .dtype = DType::kU8, .shape = {7}, .is_frozen = true}};
  const Result<Image> image = LayOut(boxes, {{"by", "a test"}});
  ASSERT_TRUE(image.ok()) << image.failure().message;
  EXPECT_EQ(image->second_at, kChunkBytes);
  std::string bytes = image->head + std::string(21, 'x') + image->second_head;
  EXPECT_EQ(bytes.size() % kAlignment, 0u);
  bytes += std::string(19, 'y');
  ASSERT_EQ(bytes.size(), image->size);
  // Each file alone, as safetensors reads it.
  const Result<Image> first = ParseHead(bytes, image->second_at);
  ASSERT_TRUE(first.ok()) << first.failure().message;
  EXPECT_EQ(first->boxes.size(), 2u);
  EXPECT_EQ(first->second_at, 0u);
  const std::string rest = bytes.substr(image->second_at);
  const Result<Image> second = ParseHead(rest, rest.size());
  ASSERT_TRUE(second.ok()) << second.failure().message;
  EXPECT_EQ(second->metadata.at("by"), "a test");
  // Both files together, as the image in memory.
  std::vector<std::byte> aligned(bytes.size());
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const std::vector<uint64_t> hashes = {
      HashOf(aligned.data(), kChunkBytes),
      HashOf(aligned.data() + kChunkBytes, aligned.size() - kChunkBytes)};
  MemorySource source(aligned);
  const Result<Image> both = ReadHead(&source, hashes);
  ASSERT_TRUE(both.ok()) << both.failure().message;
  EXPECT_EQ(both->boxes, image->boxes);
  EXPECT_EQ(both->second_at, image->second_at);
}

TEST(FrozenLayout, WithoutFrozenTensorsNothingIsPadded) {
  const Image image = *LayOut({{.key = "b", .dtype = DType::kU8, .shape = {5}}}, {});
  EXPECT_EQ(image.second_at, 0u);
  EXPECT_EQ(image.size, kAlignment + 5);
}

TEST(FrozenLayout, OneNameInBothFilesIsRefused) {
  EXPECT_FALSE(LayOut({{.key = "b", .dtype = DType::kU8, .shape = {5}},
                       {.key = "b", .dtype = DType::kU8, .shape = {5}, .is_frozen = true}},
                      {})
                   .ok());
}

TEST_F(FrozenTest, WhatHasNotChangedIsNotWrittenAgain) {
  EXPECT_GT(Save(1), kFrozenBytes);
  EXPECT_LT(Save(2), kChunkBytes + 100'000) << "the other file, its padding, and small ones";
  EXPECT_EQ(Stat(1).st_ino, Stat(2).st_ino);
  EXPECT_EQ(Stat(2).st_nlink, 2u);
  ExpectWhole(1, 99);
  ExpectWhole(2, 99);
}

TEST_F(FrozenTest, WhatHasChangedIsWritten) {
  Save(1);
  ranks_.Thaw();
  EXPECT_GT(Save(2), kFrozenBytes);
  EXPECT_NE(Stat(1).st_ino, Stat(2).st_ino);
  ExpectWhole(1, 99);
  ExpectWhole(2, 98);
}

TEST_F(FrozenTest, RetentionAndRemovalLeaveTheNewerReadable) {
  for (int64_t step = 1; step <= 4; ++step) Save(step);
  EXPECT_EQ(Stat(4).st_nlink, 4u);
  ASSERT_TRUE(Prune(store_.get(), 2).ok());
  EXPECT_EQ(Stat(4).st_nlink, 2u);
  ExpectWhole(3, 99);
  ExpectWhole(4, 99);
  ASSERT_TRUE(Remove(store_.get(), SavedRanks::NameOf(4)).ok());
  ExpectWhole(3, 99);
  EXPECT_LT(Save(5), kFrozenBytes) << "and the next one links to what is left";
  ExpectWhole(5, 99);
}

TEST_F(FrozenTest, WhereThereAreNoLinksItIsWritten) {
  disk_.link_error = EPERM;
  Save(1);
  EXPECT_GT(Save(2), kFrozenBytes);
  EXPECT_EQ(Stat(2).st_nlink, 1u);
  ExpectWhole(2, 99);
}

TEST_F(FrozenTest, AFileThatWasCutOffIsNotLinkedTo) {
  Save(1);
  ASSERT_EQ(::truncate(FrozenPath(1).c_str(), 1000), 0);
  EXPECT_GT(Save(2), kFrozenBytes);
  ExpectWhole(2, 99);
}

TEST_F(FrozenTest, WhatWasBegunAndNotCommittedIsWrittenAnew) {
  Save(1);
  ranks_.Save(0, 2, 0, 10);
  ranks_.Save(1, 2, 10, 10);
  for (int attempt = 0; attempt < 2; ++attempt) {
    ASSERT_TRUE(ranks_.Write(store_.get(), 0, 2, 0).ok());
  }
  ASSERT_TRUE(ranks_.Write(store_.get(), 1, 2, 1).ok());
  ASSERT_TRUE(Commit(store_.get(), SavedRanks::Place(2)).ok());
  ExpectWhole(2, 99);
  EXPECT_EQ(Stat(2).st_nlink, 2u);
}

TEST_F(FrozenTest, DamageIsFoundInEveryCheckpointThatSharesIt) {
  Save(1);
  Save(2);
  const int fd = ::open(FrozenPath(1).c_str(), O_RDWR);
  ASSERT_EQ(::pwrite(fd, "!", 1, 4'400'000), 1);
  ::close(fd);
  for (const int64_t step : {1, 2}) {
    EXPECT_EQ(VerifyCheckpoint(store_.get(), SavedRanks::NameOf(step)).size(), 1u) << step;
  }
}

}  // namespace
}  // namespace paceline::ckpt

#include "paceline/ckpt/image/drain.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/base/test_dir.h"
#include "paceline/base/test_tmpfs.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/image/test_memory.h"

namespace paceline::ckpt {
namespace {

class DrainTest : public testing::Test {
 protected:
  explicit DrainTest(size_t size = 2 * kChunkBytes + 12'345) {
    Prng prng(9);
    std::vector<std::byte> source(size);
    for (std::byte& byte : source) byte = static_cast<std::byte>(prng.Next());
    memory_ = MakeAligned(size, 4096);
    ChunkCopier copier(memory_.get(), size);
    copier.Append(source.data(), size);
    hashes_ = copier.Finish();
    image_ = {memory_.get(), size};
    source_ = std::make_unique<MemorySource>(image_);
  }

  std::string Path() const { return folder_ + "/file"; }
  bool IsThere() const { return std::filesystem::exists(Path()); }
  bool HoldsTheImage() const {
    std::ifstream file(Path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    return std::string_view(bytes.data(), bytes.size()) ==
           std::string_view(reinterpret_cast<const char*>(image_.data()), image_.size());
  }

  const TestDir dir_;  // a real file system, because some kernels' tmpfs has no O_DIRECT
  const std::string folder_ = dir_.path();
  AlignedBytes memory_;
  std::span<const std::byte> image_;
  std::unique_ptr<MemorySource> source_;
  std::vector<uint64_t> hashes_;
};

TEST_F(DrainTest, EachWayWritesTheSameFile) {
  for (const DrainOptions& options :
       {DrainOptions{}, DrainOptions{.depth = 1}, DrainOptions{.may_use_uring = false},
        DrainOptions{.may_use_uring = false, .may_bypass_cache = false},
        DrainOptions{.verify = false}}) {
    const auto report = Drain(source_.get(), hashes_, Path(), options);
    ASSERT_TRUE(report.ok()) << report.failure().message;
    EXPECT_TRUE(HoldsTheImage()) << report->way;
    EXPECT_TRUE(options.may_use_uring || report->way.find("io_uring") == std::string::npos);
    std::filesystem::remove(Path());
  }
}

TEST_F(DrainTest, AnExistingFileIsLeftAlone) {
  std::ofstream(Path()) << "mine";
  EXPECT_EQ(Drain(source_.get(), hashes_, Path(), {}).failure().kind, FailureKind::kExists);
  std::string text;
  std::ifstream(Path()) >> text;
  EXPECT_EQ(text, "mine");
}

TEST_F(DrainTest, WhatTheMemoryLostIsNotWritten) {
  memory_[kChunkBytes + 1] ^= std::byte{4};
  for (const bool may_use_uring : {true, false}) {
    EXPECT_EQ(
        Drain(source_.get(), hashes_, Path(), {.may_use_uring = may_use_uring}).failure().kind,
        FailureKind::kDamaged);
    EXPECT_FALSE(IsThere());
  }
}

TEST_F(DrainTest, AFullDiskLeavesNothing) {
  const SmallTmpfs tmpfs(folder_, "5m");
  if (!tmpfs.is_there()) {
    GTEST_SKIP() << "FULL DISK NOT TESTED: needs root";
  }
  for (const bool may_bypass_cache : {true, false}) {
    const auto report =
        Drain(source_.get(), hashes_, Path(), {.may_bypass_cache = may_bypass_cache});
    EXPECT_EQ(report.failure().kind, FailureKind::kFull) << report.failure().message;
    EXPECT_FALSE(IsThere());
  }
}

TEST_F(DrainTest, ADirectoryThatIsGoneIsAnError) {
  EXPECT_EQ(Drain(source_.get(), hashes_, folder_ + "/none/file", {}).failure().kind,
            FailureKind::kNotFound);
}

TEST_F(DrainTest, AFileIsCopiedPastTheCacheToo) {
  ASSERT_TRUE(Drain(source_.get(), hashes_, Path() + ".first", {}).ok());
  auto file = FileSource::Open(Path() + ".first", image_.size());
  ASSERT_TRUE(file.ok());
  const auto report = Drain(file->get(), hashes_, Path(), {});
  ASSERT_TRUE(report.ok()) << report.failure().message;
  EXPECT_TRUE(HoldsTheImage()) << report->way;
}

TEST_F(DrainTest, APacerIsAskedBeforeEachChunk) {
  int64_t now = 0;
  Pacer pacer({.now_ns = [&] { return now; }, .sleep_ns = [&](int64_t ns) { now += ns; }});
  pacer.SetRate(uint64_t{8} << 20);
  ASSERT_TRUE(Drain(source_.get(), hashes_, Path(), {.pacer = &pacer}).ok());
  EXPECT_EQ(now, 1'000'000'000) << "two chunks of 4 MiB are paid for when the rest begins";
}

TEST_F(DrainTest, AnEmptyImageIsAnEmptyFile) {
  MemorySource none({});
  ASSERT_TRUE(Drain(&none, {}, Path(), {}).ok());
  EXPECT_EQ(std::filesystem::file_size(Path()), 0u);
  EXPECT_FALSE(Drain(&none, hashes_, Path() + "2", {}).ok());
}

}  // namespace
}  // namespace paceline::ckpt

#include "paceline/client/saver.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/test_dir.h"

namespace paceline::client {
namespace {

constexpr uint64_t kSaverImage = 8 << 20;

class SaverTest : public testing::Test {
 protected:
  static ckpt::TensorBox Box() {
    return {.key = "x",
            .dtype = ckpt::DType::kU8,
            .shape = {1 << 20},
            .offset = {0},
            .is_frozen = false};
  }
  SaverTest() : layout_(*ckpt::LayOut({Box()}, {})) {}

  std::unique_ptr<Saver> Open() {
    auto saver = Saver::Open(path_, {"job", "boot", 0}, {kSaverImage, 3});
    EXPECT_TRUE(saver.ok()) << saver.failure().message;
    return *std::move(saver);
  }
  Result<bool> Save(Saver& saver, int64_t step) {
    const std::vector<const void*> sources = {bytes_.data()};
    return saver.Save(layout_, sources, {.saved = {1, step}, .world_size = 1});
  }
  uint64_t Blocks() const {
    struct stat found {};
    return ::stat(path_.c_str(), &found) == 0 ? static_cast<uint64_t>(found.st_blocks) : 0;
  }

  const TestDir dir_;
  const std::string path_ = dir_.path() + "/arena";
  const ckpt::Image layout_;
  const std::vector<char> bytes_ = std::vector<char>(1 << 20);
};

TEST_F(SaverTest, ASaveTakesOverFromTheThreadThatFills) {
  const auto saver = Open();
  std::atomic<bool> may_go = false;
  std::thread filling([&] {
    // The thread stands still after the first slot, as one of low priority on busy cores does.
    EXPECT_TRUE(saver
                    ->Reserve([&](uint32_t slot) -> Result<void> {
                      while (slot == 0 && !may_go) std::this_thread::yield();
                      return {};
                    })
                    .ok());
  });
  for (int64_t step = 0; step < 3; ++step) {
    const Result<bool> is_saved = Save(*saver, step);
    ASSERT_TRUE(is_saved.ok()) << is_saved.failure().message;
    EXPECT_TRUE(*is_saved);
  }
  may_go = true;
  filling.join();
  EXPECT_EQ(saver->reserved_slots(), 3U);
  EXPECT_FALSE(saver->GiveBackUnused(/*removes=*/true)) << "it has images";
}

TEST_F(SaverTest, WhatWasNeverSavedIntoIsGivenBack) {
  const auto saver = Open();
  EXPECT_TRUE(saver->is_new());
  const uint64_t empty = Blocks();
  ASSERT_TRUE(saver->Reserve().ok());
  EXPECT_GE(Blocks() * 512, 3 * kSaverImage);
  EXPECT_TRUE(saver->GiveBackUnused(/*removes=*/false));
  // A file system may keep some blocks for its own map of a file that was large once.
  EXPECT_LE(Blocks() * 512, empty * 512 + (size_t{64} << 10));
  EXPECT_TRUE(saver->GiveBackUnused(/*removes=*/true));
  EXPECT_EQ(::access(path_.c_str(), F_OK), -1);
}

TEST_F(SaverTest, AnArenaOfAnEarlierProcessStays) {
  {
    const auto first = Open();
    ASSERT_TRUE(Save(*first, 1).ok());
  }
  const auto saver = Open();
  EXPECT_FALSE(saver->is_new());
  EXPECT_FALSE(saver->GiveBackUnused(/*removes=*/true));
  EXPECT_EQ(::access(path_.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace paceline::client

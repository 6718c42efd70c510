// Two threads use the tier. The tests call one from inside the other, at the worst moment: when a
// file is opened in the storage that the first one reads or writes.

#include "paceline/agent/memory/local_tier.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/ckpt/disk/disk.h"
#include "paceline/ckpt/storage/saved_ranks.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::agent {
namespace {

class InterruptedDisk final : public ckpt::Disk {
 public:
  int Open(const std::string& path, int flags) override {
    if (path.find("/shard-00000") != std::string::npos && then) std::exchange(then, nullptr)();
    return Disk::Open(path, flags);
  }

  std::function<void()> then;  // at the first shard of rank 0
};

class LocalTierTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& path : {tier_path_, storage_}) {
      ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    }
  }
  void SaveWhole(int64_t step) { ASSERT_TRUE(ranks_.SaveWhole(store_.get(), step).ok()); }
  void KeepImage(int64_t step) {
    ranks_.Save(0, step, 0, 10);
    ASSERT_TRUE(ranks_.Write(here_.get(), 0, step, 0).ok());
  }
  bool Keeps(int64_t step) const {
    return *here_->Has(Concat(ckpt::SavedRanks::NameOf(step), "/rank-00000.json"));
  }

  const TestDir dir_;
  const std::string tier_path_ = dir_.path() + "/tier";
  const std::string storage_ = dir_.path() + "/storage";
  InterruptedDisk disk_;
  const std::unique_ptr<ckpt::Store> store_ = ckpt::MakePosixStore(storage_, &disk_);
  const std::unique_ptr<ckpt::Store> here_ = ckpt::MakePosixStore(tier_path_);
  ckpt::SavedRanks ranks_;
  LocalTier tier_{tier_path_, "n", "job"};
};

// A node was lost while its images were on the way to storage, and the new world restored an older
// step. The fetched files vanished, and a good checkpoint was recorded as damaged.
TEST_F(LocalTierTest, WhatIsBeingFetchedIsNotRemoved) {
  for (const int64_t step : {100, 200}) SaveWhole(step);
  KeepImage(150);
  disk_.then = [this] { ASSERT_TRUE(tier_.Fetch(store_.get(), "step-200-g1", {}).ok()); };
  ASSERT_TRUE(tier_.Fetch(store_.get(), "step-100-g1", {}).ok());
  EXPECT_TRUE(ckpt::VerifyCheckpoint(here_.get(), "step-100-g1").empty());
  EXPECT_TRUE(ckpt::VerifyCheckpoint(here_.get(), "step-200-g1").empty());
  EXPECT_TRUE(Keeps(150)) << "the newest of the others";
}

TEST_F(LocalTierTest, WhatIsBeingSentIsNotRemoved) {
  SaveWhole(200);
  for (const int64_t step : {100, 150}) KeepImage(step);
  disk_.then = [this] { ASSERT_TRUE(tier_.Fetch(store_.get(), "step-200-g1", {}).ok()); };
  ASSERT_TRUE(
      tier_.Send(store_.get(), {.name = "step-100-g1", .job_id = "job", .saved = {1, 100}}, nullptr)
          .ok());
  EXPECT_TRUE(Keeps(100));
  EXPECT_TRUE(Keeps(150));
}

TEST_F(LocalTierTest, OlderStepsMakeRoomForTheNext) {
  SaveWhole(200);
  for (const int64_t step : {100, 150}) KeepImage(step);
  ASSERT_TRUE(tier_.Fetch(store_.get(), "step-200-g1", {}).ok());
  EXPECT_FALSE(Keeps(100));
  EXPECT_TRUE(Keeps(150));
}

}  // namespace
}  // namespace paceline::agent

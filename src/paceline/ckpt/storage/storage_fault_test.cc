// Each call of a save, a commit, retention and a removal fails in turn and in every way. Afterwards
// every found checkpoint is complete, success is only reported if it happened, and a retry works.

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/test_dir.h"
#include "paceline/ckpt/disk/faulty_disk.h"
#include "paceline/ckpt/storage/saved_ranks.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::ckpt {
namespace {

namespace fs = std::filesystem;

constexpr int kErrors[] = {EIO, ENOSPC, EDQUOT, 0};  // 0: a short read or write

class StorageFaultTest : public testing::Test {
 protected:
  // Runs `work` on a store that has step 1, with a fault at each of its calls in turn. `allowed`:
  // the steps that may be the newest after a failure, and after a success.
  void FailEachCall(const std::function<Result<void>(Store*)>& prepare,
                    const std::function<Result<void>(Store*)>& work,
                    const std::set<int64_t>& after_failure, int64_t after_success) {
    uint64_t calls = 0;
    for (const bool is_lasting : {false, true}) {
      for (const int error : kErrors) {
        // Only EIO lasts: a dead disk stays dead, other faults may pass.
        if (is_lasting && error != EIO) continue;
        // Each error begins at another call, so together they hit more calls than one stride does.
        const uint64_t stride = FaultStride();
        for (uint64_t call = static_cast<uint64_t>(error) % stride;; call += stride) {
          Begin(prepare);
          FaultyDisk disk({.error = error, .call = call, .is_lasting = is_lasting});
          const Result<void> done = work(MakePosixStore(root_, &disk).get());
          if (disk.calls() <= call) break;  // no fault was hit: all calls have been tried
          ++calls;
          const auto healed = MakePosixStore(root_);
          const int64_t newest = SavedRanks::WholeNewest(healed.get());
          const std::string where = "call " + std::to_string(call) + ", error " +
                                    std::to_string(error) + (is_lasting ? ", lasting" : "");
          if (done.ok()) {
            EXPECT_EQ(newest, after_success) << where;
          } else {
            EXPECT_TRUE(after_failure.contains(newest)) << where << ": newest " << newest;
            if (error == ENOSPC || error == EDQUOT) {
              EXPECT_EQ(done.failure().kind, FailureKind::kFull) << where;
            }
          }
          EXPECT_TRUE(done.ok() || error != 0) << where << ": half is continued";
          EXPECT_EQ(ranks_.SaveWhole(healed.get(), 60).ok(), true) << where;
          EXPECT_EQ(SavedRanks::WholeNewest(healed.get()), 60) << where;
          if (HasNonfatalFailure()) return;
        }
      }
    }
    EXPECT_GT(calls, 20u / FaultStride());
  }

  void Begin(const std::function<Result<void>(Store*)>& prepare) {
    fs::remove_all(root_);
    fs::create_directory(root_);
    const Result<void> prepared = prepare(MakePosixStore(root_).get());
    ASSERT_TRUE(prepared.ok()) << prepared.failure().message;
  }

  // In memory, because there are thousands of syncs and the faults are simulated.
  const TestDir dir_{TestDir::InMemory()};
  const std::string root_ = dir_.path() + "/storage";
  SavedRanks ranks_;
};

TEST_F(StorageFaultTest, EachCallOfASaveAndItsCommit) {
  FailEachCall([this](Store* store) { return ranks_.SaveWhole(store, 1); },
               [this](Store* store) { return ranks_.SaveWhole(store, 2); }, {1, 2}, 2);
}

TEST_F(StorageFaultTest, EachCallOfRetention) {
  const auto prepare = [this](Store* store) -> Result<void> {
    RETURN_IF_ERROR(ranks_.SaveWhole(store, 1));
    RETURN_IF_ERROR(ranks_.SaveWhole(store, 2));
    return ranks_.SaveWhole(store, 3);
  };
  FailEachCall(
      prepare, [](Store* store) { return Prune(store, 1); }, {3}, 3);
}

TEST_F(StorageFaultTest, EachCallOfARemoval) {
  const auto prepare = [this](Store* store) -> Result<void> {
    RETURN_IF_ERROR(ranks_.SaveWhole(store, 1));
    return ranks_.SaveWhole(store, 2);
  };
  FailEachCall(
      prepare, [](Store* store) { return Remove(store, "step-2-g1"); }, {1, 2}, 1);
}

// A read error of one file must not hide the other checkpoints.
TEST_F(StorageFaultTest, EachCallOfALook) {
  const auto prepare = [this](Store* store) -> Result<void> {
    RETURN_IF_ERROR(ranks_.SaveWhole(store, 1));
    return ranks_.SaveWhole(store, 2);
  };
  Begin(prepare);
  for (const int error : {EIO, ETIMEDOUT, EMFILE}) {
    for (uint64_t call = 0;; ++call) {
      FaultyDisk disk({.error = error, .call = call});
      const auto newest = Newest(MakePosixStore(root_, &disk).get());
      if (disk.calls() <= call) break;
      if (error == EIO) {
        ASSERT_TRUE(newest.ok());
        EXPECT_TRUE(newest->has_value()) << "call " << call;
      } else {
        EXPECT_EQ(newest.ok(), false) << "call " << call << ": away is not empty";
      }
    }
  }
}

// Without rights nothing is known about a checkpoint, so none may replace it.
TEST_F(StorageFaultTest, WithoutRightsNoOlderOneIsTaken) {
  const auto prepare = [this](Store* store) -> Result<void> {
    RETURN_IF_ERROR(ranks_.SaveWhole(store, 1));
    return ranks_.SaveWhole(store, 2);
  };
  for (const bool has_latest : {true, false}) {
    Begin(prepare);
    if (!has_latest) fs::remove(fs::path(root_) / "LATEST");
    uint64_t denied = 0;
    for (uint64_t call = 0;; ++call) {
      FaultyDisk disk({.error = EACCES, .call = call});
      const auto newest = Newest(MakePosixStore(root_, &disk).get());
      if (disk.calls() <= call) break;
      if (newest.ok()) {
        ASSERT_TRUE(newest->has_value()) << "call " << call;
        EXPECT_EQ((*newest)->saved.step, 2) << "call " << call;
        continue;
      }
      EXPECT_TRUE(IsDenied(newest.failure())) << newest.failure().message;
      ++denied;
    }
    EXPECT_GE(denied, has_latest ? 1u : 2u) << "the directory and the newest manifest";
  }
}

// The same with a real file system that runs full, in a file on a loop device.
TEST_F(StorageFaultTest, ADiskThatRunsFullKeepsTheOldOne) {
  const std::string image = dir_.path() + "/disk";
  const std::string folder = dir_.path() + "/mount";
  fs::create_directory(folder);
  const std::string make = "truncate -s 3M " + image + " && mkfs.ext4 -q -O ^has_journal " + image +
                           " && mount -o loop " + image + " " + folder + " 2>/dev/null";
  if (::geteuid() != 0 || std::system(make.c_str()) != 0) {
    GTEST_SKIP() << "A REAL FULL DISK WAS NOT TESTED: needs root and a loop device";
  }
  struct Mounted {
    const std::string& folder;
    ~Mounted() { ::umount2(folder.c_str(), MNT_DETACH); }
  } const mounted{folder};
  const auto store = MakePosixStore(folder);
  ASSERT_TRUE(ranks_.SaveWhole(store.get(), 1).ok());
  // With less and less room, down to none.
  int64_t step = 2;
  bool has_failed = false;
  for (int i = 0; i < 400 && !has_failed; ++i, ++step) {
    const Result<void> saved = ranks_.SaveWhole(store.get(), step);
    has_failed = !saved.ok();
    if (has_failed) {
      EXPECT_EQ(saved.failure().kind, FailureKind::kFull);
    }
    const auto newest = Newest(store.get());
    ASSERT_TRUE(newest.ok() && newest->has_value());
    EXPECT_EQ((*newest)->saved.step, has_failed ? step - 1 : step);
  }
  EXPECT_TRUE(has_failed);
  EXPECT_EQ(SavedRanks::WholeNewest(store.get()), step - 2) << "step has gone on by one";
  EXPECT_TRUE(Prune(store.get(), 1).ok()) << "removing needs no room";
  EXPECT_TRUE(ranks_.SaveWhole(store.get(), step).ok());
  EXPECT_EQ(SavedRanks::WholeNewest(store.get()), step);
}

}  // namespace
}  // namespace paceline::ckpt

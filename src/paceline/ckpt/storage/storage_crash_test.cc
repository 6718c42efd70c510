// A crash after every call of a save, a commit, retention and a removal, with every choice of
// operations that reached the disk. Afterwards one step's complete checkpoint is found, and saving
// works.

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/base/test_dir.h"
#include "paceline/ckpt/disk/recorded_disk.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/storage/saved_ranks.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::ckpt {
namespace {

namespace fs = std::filesystem;

// With up to so many operations that may be lost, every subset is tried.
constexpr size_t kAllChoicesMax = 5;
constexpr int kSomeChoices = 8;

// Subsets of `pending` that reached the disk: none, all, each alone, all but each, each prefix, and
// some random ones.
std::vector<std::set<size_t>> Choices(const std::vector<size_t>& pending, Prng* prng) {
  std::vector<std::set<size_t>> choices;
  const auto add = [&](const std::function<bool(size_t)>& takes) {
    std::set<size_t> kept;
    for (size_t i = 0; i < pending.size(); ++i) {
      if (takes(i)) kept.insert(pending[i]);
    }
    choices.push_back(std::move(kept));
  };
  if (pending.size() <= kAllChoicesMax) {
    for (uint64_t bits = 0; bits < uint64_t{1} << pending.size(); ++bits) {
      add([&](size_t i) { return (bits >> i & 1) != 0; });
    }
    return choices;
  }
  for (size_t one = 0; one <= pending.size(); ++one) {
    add([&](size_t i) { return i < one; });
    add([&](size_t i) { return i == one; });
    add([&](size_t i) { return i != one; });
  }
  for (int n = 0; n < kSomeChoices; ++n) {
    const uint64_t bits = prng->Next();
    add([&](size_t i) { return (bits >> (i % 64) & 1) != 0; });
  }
  return choices;
}

void Make(const RecordedDisk::Tree& tree, const std::string& root) {
  fs::remove_all(root);
  fs::create_directory(root);
  for (const std::string& folder : tree.folders) fs::create_directory(root + "/" + folder);
  for (const auto& [name, bytes] : tree.files) {
    std::ofstream(root + "/" + name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

class StorageCrashTest : public testing::Test {
 protected:
  StorageCrashTest() { ::mkdir(recorded_root_.c_str(), 0700); }

  // Tries every crash from call `begin` on. `allowed(mark)`: the steps that may be the newest if
  // `mark` was the last one reported to the caller. `thin`: only every n-th state is made, for
  // files so large that each takes milliseconds.
  void PlayBack(const RecordedDisk& disk, size_t begin,
                const std::function<std::set<int64_t>(int)>& allowed, size_t thin = 1) {
    Prng prng(17);
    std::set<std::pair<int, uint64_t>> seen;
    int mark = 0;
    size_t turn = 0;
    for (size_t count = 0; count <= disk.operations().size(); ++count) {
      if (count > 0) {
        const DiskOperation& last = disk.operations()[count - 1];
        if (last.kind == DiskOperation::Kind::kMark) mark = last.mark;
      }
      if (count < begin) continue;
      for (const std::set<size_t>& kept : Choices(disk.PendingOf(count), &prng)) {
        if (turn++ % thin != 0) continue;
        RecordedDisk::Tree tree = disk.After(count, kept);
        if (!seen.insert({mark, HashOfTree(tree)}).second || seen.size() % FaultStride() != 0)
          continue;
        Make(tree, played_root_);
        Look(allowed(mark), count);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
      }
    }
    states_ = seen.size();
    RecordProperty("states", static_cast<int>(states_));
  }

  static uint64_t HashOfTree(const RecordedDisk::Tree& tree) {
    std::string words;
    for (const std::string& folder : tree.folders) words += folder + "\n";
    for (const auto& [path, bytes] : tree.files) {
      words += path + " " + std::to_string(HashOf(bytes.data(), bytes.size())) + "\n";
    }
    return HashOf(words.data(), words.size());
  }

  void Look(const std::set<int64_t>& allowed, size_t count) {
    const auto store = MakePosixStore(played_root_);
    const int64_t newest = SavedRanks::WholeNewest(store.get());
    EXPECT_TRUE(allowed.contains(newest)) << "newest " << newest << " after " << count << " calls";
    const auto all = List(store.get());
    ASSERT_TRUE(all.ok());
    for (const Listed& one : *all) {
      EXPECT_LE(one.manifest.step, newest) << "it is whole, after " << count << " calls";
    }
    // The next job can save, whatever is left over.
    const Result<void> saved = ranks_.SaveWhole(store.get(), 50);
    ASSERT_TRUE(saved.ok()) << saved.failure().message << " after " << count << " calls";
    const Result<void> pruned = Prune(store.get(), 1);
    EXPECT_TRUE(pruned.ok()) << pruned.failure().message;
    EXPECT_EQ(SavedRanks::WholeNewest(store.get()), 50);
  }

  const TestDir dir_{TestDir::InMemory()};
  const std::string recorded_root_ = dir_.path() + "/recorded";
  const std::string played_root_ = dir_.path() + "/played";
  SavedRanks ranks_;
  size_t states_ = 0;
};

TEST_F(StorageCrashTest, ASaveIsThereOrNotThereAndTheOneBeforeStays) {
  RecordedDisk disk(recorded_root_);
  const auto store = MakePosixStore(recorded_root_, &disk);
  ASSERT_TRUE(ranks_.SaveWhole(store.get(), 1).ok());
  disk.Mark(1);
  ASSERT_TRUE(ranks_.SaveWhole(store.get(), 2).ok());
  disk.Mark(2);
  PlayBack(disk, 0, [](int mark) {
    if (mark == 2) return std::set<int64_t>{2};
    return mark == 1 ? std::set<int64_t>{1, 2} : std::set<int64_t>{-1, 1};
  });
  EXPECT_GT(states_, 200u);
}

TEST_F(StorageCrashTest, ALinkedFileIsNeverHalfOfACheckpoint) {
  RecordedDisk disk(recorded_root_);
  const auto store = MakePosixStore(recorded_root_, &disk);
  SavedRanks ranks(50'000);
  ASSERT_TRUE(ranks.SaveWhole(store.get(), 1).ok());
  disk.Mark(1);
  const size_t begin = disk.operations().size();
  ASSERT_TRUE(ranks.SaveWhole(store.get(), 2).ok());
  disk.Mark(2);
  ASSERT_TRUE(Prune(store.get(), 1).ok());
  const size_t thin = FaultStride() == 1 ? 1 : 31;
  const auto allowed = [](int mark) {
    return mark == 2 ? std::set<int64_t>{2} : std::set<int64_t>{1, 2};
  };
  PlayBack(disk, begin, allowed, thin);
  EXPECT_GT(states_, 10u);
}

TEST_F(StorageCrashTest, RetentionNeverLeavesAHalf) {
  RecordedDisk disk(recorded_root_);
  const auto store = MakePosixStore(recorded_root_, &disk);
  ASSERT_TRUE(ranks_.SaveWhole(store.get(), 1).ok());
  ASSERT_TRUE(ranks_.SaveWhole(store.get(), 2).ok());
  ranks_.Save(0, 3, 0, 10);
  ASSERT_TRUE(ranks_.Write(store.get(), 0, 3, 0).ok());  // left unfinished
  ASSERT_TRUE(ranks_.SaveWhole(store.get(), 4).ok());
  const size_t begin = disk.operations().size();
  disk.Mark(1);
  ASSERT_TRUE(Prune(store.get(), 1).ok());
  ASSERT_GT(disk.operations().size(), begin + 10);
  PlayBack(disk, begin + 1, [](int) { return std::set<int64_t>{4}; });
}

TEST_F(StorageCrashTest, ARemovedCheckpointIsWholeOrGone) {
  RecordedDisk disk(recorded_root_);
  const auto store = MakePosixStore(recorded_root_, &disk);
  ASSERT_TRUE(ranks_.SaveWhole(store.get(), 1).ok());
  ASSERT_TRUE(ranks_.SaveWhole(store.get(), 2).ok());
  const size_t begin = disk.operations().size();
  disk.Mark(1);
  ASSERT_TRUE(Remove(store.get(), "step-2-g1").ok());
  disk.Mark(2);
  PlayBack(disk, begin + 1, [](int mark) {
    return mark == 2 ? std::set<int64_t>{1} : std::set<int64_t>{1, 2};
  });
}

// Proves that these tests find errors: a disk that drops syncs must fail.
TEST_F(StorageCrashTest, WithoutSyncsTheseTestsFail) {
  class Forgetful final : public Disk {
   public:
    explicit Forgetful(RecordedDisk* disk) : disk_(disk) {}
    int Open(const std::string& path, int flags) override { return disk_->Open(path, flags); }
    void Close(int fd) override { disk_->Close(fd); }
    int64_t Write(int fd, const void* data, uint64_t bytes, uint64_t at) override {
      return disk_->Write(fd, data, bytes, at);
    }
    int Reserve(int fd, uint64_t bytes) override { return disk_->Reserve(fd, bytes); }
    int Truncate(int fd, uint64_t bytes) override { return disk_->Truncate(fd, bytes); }
    int Sync(int) override { return 0; }
    int Rename(const std::string& from, const std::string& to) override {
      return disk_->Rename(from, to);
    }
    int Link(const std::string& from, const std::string& to) override {
      return disk_->Link(from, to);
    }
    int Unlink(const std::string& path) override { return disk_->Unlink(path); }
    int MakeFolder(const std::string& path) override { return disk_->MakeFolder(path); }
    int RemoveFolder(const std::string& path) override { return disk_->RemoveFolder(path); }
    std::unique_ptr<WriteQueue> MakeQueue(uint32_t) override { return nullptr; }

   private:
    RecordedDisk* const disk_;
  };
  RecordedDisk disk(recorded_root_);
  Forgetful forgetful(&disk);
  const auto store = MakePosixStore(recorded_root_, &forgetful);
  ASSERT_TRUE(ranks_.SaveWhole(store.get(), 1).ok());
  Prng prng(1);
  bool is_found = false;
  const size_t count = disk.operations().size();
  for (const std::set<size_t>& kept : Choices(disk.PendingOf(count), &prng)) {
    Make(disk.After(count, kept), played_root_);
    is_found = is_found || SavedRanks::WholeNewest(MakePosixStore(played_root_).get()) == -2;
  }
  EXPECT_TRUE(is_found);
}

}  // namespace
}  // namespace paceline::ckpt

#include "paceline/ckpt/storage/storage.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "paceline/base/test_dir.h"
#include "paceline/ckpt/storage/saved_ranks.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::ckpt {
namespace {

class StorageTest : public testing::Test {
 protected:
  static std::string NameOf(int64_t step, uint64_t branch = 0) {
    return SavedRanks::NameOf(step, branch);
  }
  static CommitPlace Place(int64_t step, bool is_shared) {
    return SavedRanks::Place(step, is_shared);
  }
  Result<void> Write(uint32_t rank, int64_t step, uint32_t file_of) {
    return ranks_.Write(store_.get(), rank, step, file_of);
  }
  void SaveWhole(int64_t step) {
    const Result<void> saved = ranks_.SaveWhole(store_.get(), step);
    ASSERT_TRUE(saved.ok()) << saved.failure().message;
  }

  std::string Folder(int64_t step) const { return storage_ + "/" + NameOf(step); }

  static void Flip(const std::string& path, off_t at) {
    const int fd = ::open(path.c_str(), O_RDWR);
    char byte = 0;
    ASSERT_EQ(::pread(fd, &byte, 1, at), 1);
    byte = static_cast<char>(byte ^ 1);
    ASSERT_EQ(::pwrite(fd, &byte, 1, at), 1);
    ::close(fd);
  }

  const TestDir dir_;
  const std::string storage_ = [this] {
    const std::string path = dir_.path() + "/storage";
    ::mkdir(path.c_str(), 0700);
    return path;
  }();
  const std::unique_ptr<Store> store_ = MakePosixStore(storage_);
  SavedRanks ranks_;
};

// Happened in real crashes: an agent was killed between manifest and LATEST, and every later world
// restored the checkpoint before.
TEST_F(StorageTest, ACommitThatWasCutOffBeforeLatestCounts) {
  for (const int64_t step : {1, 2, 3}) SaveWhole(step);
  std::ofstream(storage_ + "/LATEST") << NameOf(1) << "\n";
  EXPECT_EQ((*Newest(store_.get()))->saved, (SavedStep{1, 3}));
  EXPECT_EQ(List(store_.get())->front().name, NameOf(3));
  EXPECT_EQ((*Newest(store_.get(), {NameOf(3)}))->saved, (SavedStep{1, 2})) << "when it is damaged";
  ASSERT_TRUE(Prune(store_.get(), 1).ok());
  EXPECT_EQ((*Newest(store_.get()))->saved, (SavedStep{1, 3})) << "retention keeps it";
  // A save in progress is not a checkpoint yet.
  ASSERT_TRUE(Write(0, 9, 0).ok());
  EXPECT_EQ((*Newest(store_.get()))->saved, (SavedStep{1, 3}));
}

// A script that goes back to an earlier step, or counts its steps anew in each epoch.
TEST_F(StorageTest, TheNewestIsWhatWasSavedLastWhateverItsStep) {
  for (const int64_t step : {5, 6}) SaveWhole(step);
  ASSERT_TRUE(ranks_.SaveWhole(store_.get(), 4, 1).ok());
  ASSERT_TRUE(ranks_.SaveWhole(store_.get(), 5, 1).ok()) << "beside step 5 of branch 0";
  EXPECT_EQ((*Newest(store_.get()))->saved, (SavedStep{1, 5, 1}));
  EXPECT_EQ((*Newest(store_.get(), {NameOf(5, 1)}))->saved, (SavedStep{1, 4, 1}));
  EXPECT_EQ(Commit(store_.get(), Place(6, false)).failure().kind, FailureKind::kFenced)
      << "a commit that was carried out late";
  std::ofstream(storage_ + "/LATEST") << NameOf(6) << "\n";  // the last commits were cut off
  EXPECT_EQ((*Newest(store_.get()))->saved, (SavedStep{1, 5, 1}));
  ASSERT_TRUE(Prune(store_.get(), 2).ok());
  const std::vector<Listed> left = *List(store_.get());
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].name, "step-5-g1-b1");
  EXPECT_EQ(left[1].name, "step-4-g1-b1");
  EXPECT_TRUE(VerifyCheckpoint(store_.get(), left[0].name).empty());
}

TEST_F(StorageTest, WhatWasCommittedIsFoundAndHolds) {
  SaveWhole(7);
  const auto newest = *Newest(store_.get());
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->saved, (SavedStep{1, 7}));
  EXPECT_EQ(newest->world_size, 2u);
  EXPECT_TRUE(VerifyCheckpoint(store_.get(), NameOf(7)).empty());
  const Result<Manifest> manifest = ReadManifest(Folder(7));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->files.size(), 4u);
  EXPECT_EQ(manifest->Of(1)->file, "shard-00001.safetensors");
  EXPECT_EQ(*Commit(store_.get(), Place(7, false)), *manifest) << "again: the same answer";
  EXPECT_EQ(Write(0, 7, 0).failure().kind, FailureKind::kExists) << "never in place";
}

TEST_F(StorageTest, NothingGoesOnBesideOneOfANewerVersion) {
  SaveWhole(7);
  const std::string key = NameOf(7) + "/" + kManifestName;
  std::string text = *store_->Get(key, 1 << 20);
  const std::string schema = "paceline.checkpoint/1";
  text.replace(text.find(schema), schema.size(), "paceline.checkpoint/2");
  ASSERT_TRUE(Put(store_.get(), key, text, Store::PutMode::kReplace).ok());
  const auto is_refused = [&] {
    const auto newest = Newest(store_.get());
    return !newest.ok() && IsNewer(newest.failure()) &&
           newest.failure().message.find("step-7-g1: a newer version of paceline wrote") == 0;
  };
  EXPECT_TRUE(is_refused()) << "nobody may begin anew beside it";
  EXPECT_EQ(Folders(store_.get())->front().state, FolderState::kNewer);
  EXPECT_FALSE((*Newest(store_.get(), {NameOf(7)})).has_value());
  // The job must not continue from an older readable checkpoint either, whatever LATEST says.
  Flip(storage_ + "/LATEST", 5);
  SaveWhole(3);
  EXPECT_TRUE(is_refused());
  std::ofstream(storage_ + "/LATEST") << NameOf(3) << "\n";
  EXPECT_TRUE(is_refused());
  SaveWhole(8);
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 8) << "what was saved later is the newest";
  // An unknown schema counts as damage.
  text.replace(text.find("paceline.checkpoint/2"), schema.size(), "paceline.checkpoint/x");
  ASSERT_TRUE(Put(store_.get(), key, text, Store::PutMode::kReplace).ok());
  EXPECT_EQ(Folders(store_.get())->at(1).state, FolderState::kDamaged);
}

TEST_F(StorageTest, AStepFolderThatIsALinkIsReadAndNeverRemoved) {
  for (const int64_t step : {1, 2, 3}) SaveWhole(step);
  const std::string moved = dir_.path() + "/moved";
  ASSERT_EQ(::rename(Folder(3).c_str(), moved.c_str()), 0);
  ASSERT_EQ(::symlink(moved.c_str(), Folder(3).c_str()), 0);
  ASSERT_EQ(::symlink(moved.c_str(), (storage_ + "/.removing-step-9-g1").c_str()), 0);
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 3);
  EXPECT_EQ(List(store_.get())->front().name, NameOf(3));
  EXPECT_TRUE(VerifyCheckpoint(store_.get(), NameOf(3)).empty());
  ASSERT_TRUE(Prune(store_.get(), 1).ok());
  EXPECT_EQ(List(store_.get())->size(), 2u) << "and not counted";
  EXPECT_FALSE(Remove(store_.get(), NameOf(3)).ok());
  EXPECT_TRUE(VerifyCheckpoint(store_.get(), NameOf(3)).empty());
  // As if its disk were not mounted.
  ASSERT_EQ(::rename(moved.c_str(), (moved + "-away").c_str()), 0);
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 2);
  const auto passed = PassedOverFor(store_.get(), NameOf(2));
  ASSERT_EQ(passed->size(), 1u);
}

TEST_F(StorageTest, OddFilesAndLinksThatLeaveAreNotOpened) {
  SaveWhole(1);
  const std::string shard = Folder(1) + "/" + FileNameOf(0);
  const std::string elsewhere = dir_.path() + "/elsewhere";
  ASSERT_EQ(::rename(shard.c_str(), elsewhere.c_str()), 0);
  const auto wrong = [&] { return VerifyCheckpoint(store_.get(), NameOf(1)).front(); };
  ASSERT_EQ(::mkfifo(shard.c_str(), 0600), 0);
  EXPECT_EQ(wrong(), shard + " is no regular file");
  ASSERT_EQ(::unlink(shard.c_str()), 0);
  ASSERT_EQ(::symlink("/dev/zero", shard.c_str()), 0);
  EXPECT_EQ(wrong(), shard + " is no regular file");
  ASSERT_EQ(::unlink(shard.c_str()), 0);
  ASSERT_EQ(::symlink(elsewhere.c_str(), shard.c_str()), 0);
  EXPECT_EQ(wrong(), shard + " is a link that leaves its folder");
  ASSERT_EQ(::rename(elsewhere.c_str(), (Folder(1) + "/larger").c_str()), 0);
  ASSERT_EQ(::unlink(shard.c_str()), 0);
  ASSERT_EQ(::symlink("larger", shard.c_str()), 0);
  EXPECT_TRUE(VerifyCheckpoint(store_.get(), NameOf(1)).empty()) << "within the folder it may be";
  const std::string manifest = Folder(1) + "/" + kManifestName;
  ASSERT_EQ(::unlink(manifest.c_str()), 0);
  ASSERT_EQ(::mkfifo(manifest.c_str(), 0600), 0);
  EXPECT_EQ(wrong(), manifest + " is no regular file");
  EXPECT_TRUE(Newest(store_.get()).ok());
}

TEST_F(StorageTest, AFolderWithAnotherNameThanItsManifestIsDamaged) {
  for (const int64_t step : {1, 2}) SaveWhole(step);
  ASSERT_EQ(::rename(Folder(2).c_str(), Folder(77).c_str()), 0);
  std::ofstream(storage_ + "/LATEST") << NameOf(77) << "\n";
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 1);
  EXPECT_EQ(VerifyCheckpoint(store_.get(), NameOf(77)).front(),
            "the manifest is that of step-2-g1");
}

TEST_F(StorageTest, WithoutAManifestThereIsNoCheckpoint) {
  ranks_.Save(0, 3, 0, 10);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  EXPECT_FALSE(Newest(store_.get())->has_value());
  EXPECT_EQ(Commit(store_.get(), Place(3, false)).failure().kind, FailureKind::kNotFound)
      << "rank 1 is missing";
  EXPECT_FALSE(Newest(store_.get())->has_value());
}

TEST_F(StorageTest, APartOfATensorThatIsMissingIsNoticed) {
  ranks_.Save(0, 3, 0, 10);
  ranks_.Save(1, 3, 11, 9);  // no rank saves row 10
  ASSERT_TRUE(Write(0, 3, 0).ok());
  ASSERT_TRUE(Write(1, 3, 1).ok());
  EXPECT_EQ(Commit(store_.get(), Place(3, false)).failure().kind, FailureKind::kInvalid);
}

TEST_F(StorageTest, RanksThatDisagreeAboutWhoHasWhatAreNoticed) {
  ranks_.Save(0, 3, 0, 10);
  ranks_.Save(1, 3, 9, 11);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  ASSERT_TRUE(Write(1, 3, 1).ok());
  EXPECT_EQ(Commit(store_.get(), Place(3, false)).failure().kind, FailureKind::kInvalid);
}

TEST_F(StorageTest, EqualFilesAreWrittenOnce) {
  ranks_.Save(0, 3, 0, 10);
  ranks_.Save(1, 3, 0, 10);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  ASSERT_TRUE(Write(1, 3, 0).ok());
  ASSERT_TRUE(Commit(store_.get(), Place(3, true)).ok());
  EXPECT_NE(::access((Folder(3) + "/shard-00001.safetensors").c_str(), F_OK), 0);
  EXPECT_TRUE(VerifyCheckpoint(store_.get(), NameOf(3)).empty());
}

TEST_F(StorageTest, AFailedAttemptIsWrittenAnew) {
  ranks_.Save(0, 3, 0, 10);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  Flip(Folder(3) + "/shard-00000.safetensors", 5000);
  ranks_.Save(1, 3, 10, 10);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  ASSERT_TRUE(Write(1, 3, 1).ok());
  ASSERT_TRUE(Commit(store_.get(), Place(3, false)).ok());
  EXPECT_TRUE(VerifyCheckpoint(store_.get(), NameOf(3)).empty());
}

TEST_F(StorageTest, EveryFlippedByteOfEveryFileIsFound) {
  SaveWhole(7);
  for (const char* name : {"/MANIFEST.json", "/shard-00000.safetensors", "/shard-00001.safetensors",
                           "/rank-00000.json", "/rank-00001.json"}) {
    const std::string path = Folder(7) + name;
    struct stat found {};
    ASSERT_EQ(::stat(path.c_str(), &found), 0);
    for (off_t at = 0; at < found.st_size; at += 1 + found.st_size / 97) {
      Flip(path, at);
      // White space between the words of a manifest carries no information.
      const bool may_hold = std::string(name) == "/MANIFEST.json";
      const bool is_found = !VerifyCheckpoint(store_.get(), NameOf(7)).empty();
      EXPECT_TRUE(is_found || may_hold) << name << " at " << at;
      if (!is_found) {
        EXPECT_TRUE(ReadManifest(Folder(7)).ok());
      }
      Flip(path, at);
    }
  }
  EXPECT_TRUE(VerifyCheckpoint(store_.get(), NameOf(7)).empty());
}

TEST_F(StorageTest, ATruncatedFileIsFound) {
  SaveWhole(7);
  ASSERT_EQ(::truncate((Folder(7) + "/shard-00001.safetensors").c_str(), 5000), 0);
  EXPECT_FALSE(VerifyCheckpoint(store_.get(), NameOf(7)).empty());
}

TEST_F(StorageTest, RetentionKeepsTheNewestAndNeverTheLastOneGoes) {
  for (int64_t step = 1; step <= 5; ++step) SaveWhole(step);
  ASSERT_EQ(::mkdir((storage_ + "/mine").c_str(), 0700), 0);
  ASSERT_TRUE(Prune(store_.get(), 2).ok());
  const std::vector<Listed> left = *List(store_.get());
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].manifest.step, 5);
  EXPECT_EQ(left[1].manifest.step, 4);
  EXPECT_EQ(::access((storage_ + "/mine").c_str(), F_OK), 0) << "not ours";
  ASSERT_TRUE(Prune(store_.get(), 0).ok());
  EXPECT_EQ(List(store_.get())->size(), 1u);
}

TEST_F(StorageTest, ADamagedNewestOneGivesWayToTheOneBefore) {
  SaveWhole(1);
  SaveWhole(2);
  ASSERT_EQ(::truncate((Folder(2) + "/MANIFEST.json").c_str(), 10), 0);
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 1);
  EXPECT_EQ((*Newest(store_.get(), {"step-1-g1"}))->saved.step, 2) << "then its damage is told";
  EXPECT_FALSE((*Newest(store_.get(), {"step-1-g1", "step-2-g1"})).has_value());
  ASSERT_EQ(::truncate((storage_ + "/LATEST").c_str(), 0), 0);
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 1);
}

TEST_F(StorageTest, WithoutLatestADamagedOneIsToldToo) {
  for (const int64_t step : {1, 2}) {
    SaveWhole(step);
    ASSERT_EQ(::truncate((Folder(step) + "/MANIFEST.json").c_str(), 10), 0);
  }
  ASSERT_EQ(::unlink((storage_ + "/LATEST").c_str()), 0);
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 2);
  EXPECT_EQ((*Newest(store_.get(), {NameOf(2)}))->saved.step, 1);
  EXPECT_FALSE((*Newest(store_.get(), {NameOf(1), NameOf(2)})).has_value());
  // All moved to another disk, which is not mounted.
  for (const int64_t step : {1, 2}) {
    std::filesystem::remove_all(Folder(step));
    ASSERT_EQ(::symlink("/not/mounted", Folder(step).c_str()), 0);
  }
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 2);
}

TEST_F(StorageTest, RemovingTheNewestMakesTheNextOneTheNewest) {
  SaveWhole(1);
  SaveWhole(2);
  ASSERT_TRUE(Remove(store_.get(), "step-2-g1").ok());
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 1);
  EXPECT_FALSE(Remove(store_.get(), "../storage/step-1-g1").ok());
  ASSERT_TRUE(Remove(store_.get(), "step-1-g1").ok());
  EXPECT_FALSE(Newest(store_.get())->has_value());
}

TEST_F(StorageTest, ACommitOfThePastDoesNotHideWhatIsNewer) {
  SaveWhole(1);
  ranks_.Save(0, 2, 0, 10);
  ranks_.Save(1, 2, 10, 10);
  ASSERT_TRUE(Write(0, 2, 0).ok());
  ASSERT_TRUE(Write(1, 2, 1).ok());
  SaveWhole(3);
  EXPECT_EQ(Commit(store_.get(), Place(2, false)).failure().kind, FailureKind::kFenced);
  EXPECT_EQ(Commit(store_.get(), Place(1, false)).failure().kind, FailureKind::kFenced);
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 3);
}

TEST_F(StorageTest, OfTwoThatCommitTheSameStepDifferentlyOneDoes) {
  ranks_.Save(0, 3, 0, 10);
  ranks_.Save(1, 3, 10, 10);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  ASSERT_TRUE(Write(1, 3, 1).ok());
  CommitPlace other = Place(3, false);
  other.job_id = "a master that was cut off";
  ASSERT_TRUE(Commit(store_.get(), Place(3, false)).ok());
  const std::string folder = Folder(3);
  ASSERT_TRUE(Write(0, 3, 0).failure().kind == FailureKind::kExists);
  EXPECT_EQ(
      Put(store_.get(), NameOf(3) + "/MANIFEST.json", "{}", Store::PutMode::kNew).failure().kind,
      FailureKind::kExists);
  EXPECT_EQ(ReadManifest(folder)->job_id, "job");
  EXPECT_TRUE(Commit(store_.get(), other).ok()) << "what is there is whole, whoever committed it";
  EXPECT_EQ(ReadManifest(folder)->job_id, "job");
}

// The memory limits only reject hostile texts.
TEST(Manifest, AManifestOfManyRanksAndFilesIsRead) {
  constexpr uint32_t kRanks = 20'000;
  Manifest manifest{.job_id = "j", .generation = 1, .step = 2, .world_size = kRanks};
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    manifest.files.push_back({std::to_string(rank), 10, {1}});
    manifest.ranks.push_back({rank, std::to_string(rank), std::to_string(rank)});
  }
  const Result<Manifest> read = ParseManifest(ToText(manifest));
  ASSERT_TRUE(read.ok()) << read.failure().message;
  manifest = {.job_id = "j", .generation = 1, .step = 2, .world_size = 1};
  manifest.files = {{"a", 200'000 * kChunkBytes, std::vector<uint64_t>(200'000, 1)}};
  manifest.ranks = {{0, "a", "a"}};
  EXPECT_TRUE(ParseManifest(ToText(manifest)).ok());
}

TEST(Manifest, HostileTextsAreRefused) {
  Manifest manifest{.job_id = "j", .generation = 1, .step = 2, .world_size = 1};
  manifest.files = {{"shard-00000.safetensors", 10, {1}}, {"rank-00000.json", 0, {}}};
  manifest.ranks = {{0, "shard-00000.safetensors", "rank-00000.json"}};
  const std::string text = ToText(manifest);
  const Result<Manifest> read = ParseManifest(text);
  ASSERT_TRUE(read.ok()) << read.failure().message;
  EXPECT_EQ(*read, manifest);
  const auto refused = [](Manifest one) { return !ParseManifest(ToText(one)).ok(); };
  Manifest other = manifest;
  other.files[0].name = "../../etc/passwd";
  EXPECT_TRUE(refused(other));
  other = manifest;
  other.files[0].hashes.clear();
  EXPECT_TRUE(refused(other));
  other = manifest;
  other.ranks[0].file = "shard-00009.safetensors";
  EXPECT_TRUE(refused(other));
  other = manifest;
  other.world_size = 2;
  EXPECT_TRUE(refused(other));
  other = manifest;
  other.files.push_back(other.files[0]);
  EXPECT_TRUE(refused(other));
  // Parsed, these would take 75 and 20 times their bytes.
  std::string flat = "{\"files\":[";
  for (int i = 0; i < 100'000; ++i) flat += "[],";
  for (const std::string& large : {std::string(1'000'000, '['), flat + "0]}"}) {
    EXPECT_EQ(ParseManifest(large).failure().kind, FailureKind::kTooLarge);
  }
  // Their hash would be compared for seconds.
  std::string ranks = "{\"ranks\":[";
  for (int i = 0; i <= 1 << 17; ++i) ranks += "{\"rank\":1234567890123456},";
  const Failure failure = ParseManifest(ranks + "0]}").failure();
  EXPECT_EQ(failure.kind, FailureKind::kTooLarge);
  EXPECT_NE(failure.message.find("131072 ranks"), std::string::npos) << failure.message;
  for (size_t size = 0; size < text.size() - 1; ++size) {
    EXPECT_FALSE(ParseManifest(text.substr(0, size)).ok());
  }
}

}  // namespace
}  // namespace paceline::ckpt

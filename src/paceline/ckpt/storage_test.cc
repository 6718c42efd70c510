#include "paceline/ckpt/storage.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "paceline/base/test_dir.h"
#include "paceline/ckpt/arena.h"
#include "paceline/ckpt/chunk_copy.h"
#include "paceline/ckpt/restore.h"
#include "paceline/ckpt/save.h"

namespace paceline::ckpt {
namespace {

// Ranks that save one tensor each into arenas of their own.
class StorageTest : public testing::Test {
 protected:
  // `rows` of a tensor that is cut along its first dimension, beginning at `at`.
  void SaveRank(uint32_t rank, int64_t step, uint64_t at, uint64_t rows) {
    const Image layout =
        *LayOut({{.key = "w", .dtype = DType::kU8, .shape = {rows, 1000}, .offset = {at, 0}}}, {});
    const std::vector<std::byte> bytes(rows * 1000, static_cast<std::byte>(step + 1));
    const std::vector<const void*> sources = {bytes.data()};
    const std::string notes = "{\"rank\":" + std::to_string(rank) + "}";
    auto arena = *Arena::OpenOrMake(dir_.path() + "/a" + std::to_string(rank), {"j", "b", rank},
                                    {1'000'000, 2});
    ASSERT_TRUE(Save(arena.get(), layout, sources,
                     {.generation = 1, .step = step, .world_size = 2, .notes = notes})
                    .ok());
    arenas_.resize(std::max<size_t>(arenas_.size(), rank + 1));
    arenas_[rank] = std::move(arena);
  }

  Result<void> Write(uint32_t rank, int64_t step, uint32_t file_of) {
    const Arena& arena = *arenas_[rank];
    const ArenaImage image = arena.Sealed().front();
    return WriteShard({.directory = storage_,
                       .name = NameOf(step),
                       .job_id = "job",
                       .saved = {1, step},
                       .rank = rank,
                       .file_of = file_of},
                      {.file = arena.FileOf(image),
                       .file_hashes = arena.FileHashesOf(image),
                       .notes = arena.NotesOf(image),
                       .notes_hashes = arena.NotesHashesOf(image)});
  }

  static std::string NameOf(int64_t step) { return "step-" + std::to_string(step) + "-g1"; }

  CommitPlace Place(int64_t step, bool is_shared) const {
    return {.directory = storage_,
            .order = {.saved = {1, step},
                      .world_size = 2,
                      .name = NameOf(step),
                      .shards = {{Rank(0), Rank(0)}, {Rank(1), Rank(is_shared ? 0 : 1)}}},
            .job_id = "job"};
  }

  // A whole checkpoint of two ranks with half a tensor each.
  void Store(int64_t step) {
    SaveRank(0, step, 0, 10);
    SaveRank(1, step, 10, 10);
    ASSERT_TRUE(Write(0, step, 0).ok());
    ASSERT_TRUE(Write(1, step, 1).ok());
    const Result<uint64_t> bytes = Commit(Place(step, false));
    ASSERT_TRUE(bytes.ok()) << bytes.failure().message;
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
  std::vector<std::unique_ptr<Arena>> arenas_;
};

TEST_F(StorageTest, WhatWasCommittedIsFoundAndHolds) {
  Store(7);
  const auto newest = Newest(storage_);
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->saved, (SavedStep{1, 7}));
  EXPECT_EQ(newest->world_size, 2u);
  EXPECT_TRUE(VerifyCheckpoint(Folder(7)).empty());
  const Result<Manifest> manifest = ReadManifest(Folder(7));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->files.size(), 4u);
  EXPECT_EQ(manifest->Of(1)->file, "shard-00001.safetensors");
  EXPECT_EQ(*Commit(Place(7, false)), manifest->bytes()) << "again: the same answer";
  EXPECT_EQ(Write(0, 7, 0).failure().kind, FailureKind::kExists) << "never in place";
}

TEST_F(StorageTest, WithoutAManifestThereIsNoCheckpoint) {
  SaveRank(0, 3, 0, 10);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  EXPECT_FALSE(Newest(storage_).has_value());
  EXPECT_EQ(Commit(Place(3, false)).failure().kind, FailureKind::kNotFound) << "rank 1 is missing";
  EXPECT_FALSE(Newest(storage_).has_value());
}

TEST_F(StorageTest, APartOfATensorThatIsMissingIsNoticed) {
  SaveRank(0, 3, 0, 10);
  SaveRank(1, 3, 11, 9);  // row 10 is nobody's
  ASSERT_TRUE(Write(0, 3, 0).ok());
  ASSERT_TRUE(Write(1, 3, 1).ok());
  EXPECT_EQ(Commit(Place(3, false)).failure().kind, FailureKind::kInvalid);
}

TEST_F(StorageTest, RanksThatDisagreeAboutWhoHasWhatAreNoticed) {
  SaveRank(0, 3, 0, 10);
  SaveRank(1, 3, 9, 11);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  ASSERT_TRUE(Write(1, 3, 1).ok());
  EXPECT_EQ(Commit(Place(3, false)).failure().kind, FailureKind::kInvalid);
}

TEST_F(StorageTest, EqualFilesAreWrittenOnce) {
  SaveRank(0, 3, 0, 10);
  SaveRank(1, 3, 0, 10);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  ASSERT_TRUE(Write(1, 3, 0).ok());
  ASSERT_TRUE(Commit(Place(3, true)).ok());
  EXPECT_NE(::access((Folder(3) + "/shard-00001.safetensors").c_str(), F_OK), 0);
  EXPECT_TRUE(VerifyCheckpoint(Folder(3)).empty());
}

TEST_F(StorageTest, AFailedAttemptIsWrittenAnew) {
  SaveRank(0, 3, 0, 10);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  Flip(Folder(3) + "/shard-00000.safetensors", 5000);
  SaveRank(1, 3, 10, 10);
  ASSERT_TRUE(Write(0, 3, 0).ok());
  ASSERT_TRUE(Write(1, 3, 1).ok());
  ASSERT_TRUE(Commit(Place(3, false)).ok());
  EXPECT_TRUE(VerifyCheckpoint(Folder(3)).empty());
}

TEST_F(StorageTest, EveryFlippedByteOfEveryFileIsFound) {
  Store(7);
  for (const char* name : {"/MANIFEST.json", "/shard-00000.safetensors", "/shard-00001.safetensors",
                           "/rank-00000.json", "/rank-00001.json"}) {
    const std::string path = Folder(7) + name;
    struct stat found {};
    ASSERT_EQ(::stat(path.c_str(), &found), 0);
    for (off_t at = 0; at < found.st_size; at += 1 + found.st_size / 97) {
      Flip(path, at);
      // White space between the words of a manifest is nobody's information.
      const bool may_hold = std::string(name) == "/MANIFEST.json";
      const bool is_found = !VerifyCheckpoint(Folder(7)).empty();
      EXPECT_TRUE(is_found || may_hold) << name << " at " << at;
      if (!is_found) {
        EXPECT_TRUE(ReadManifest(Folder(7)).ok());
      }
      Flip(path, at);
    }
  }
  EXPECT_TRUE(VerifyCheckpoint(Folder(7)).empty());
}

TEST_F(StorageTest, ATruncatedFileIsFound) {
  Store(7);
  ASSERT_EQ(::truncate((Folder(7) + "/shard-00001.safetensors").c_str(), 5000), 0);
  EXPECT_FALSE(VerifyCheckpoint(Folder(7)).empty());
}

TEST_F(StorageTest, RetentionKeepsTheNewestAndNeverTheLastOneGoes) {
  for (int64_t step = 1; step <= 5; ++step) Store(step);
  ASSERT_EQ(::mkdir((storage_ + "/mine").c_str(), 0700), 0);
  Prune(storage_, 2);
  const std::vector<Listed> left = List(storage_);
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].manifest.step, 5);
  EXPECT_EQ(left[1].manifest.step, 4);
  EXPECT_EQ(::access((storage_ + "/mine").c_str(), F_OK), 0) << "not ours";
  Prune(storage_, 0);
  EXPECT_EQ(List(storage_).size(), 1u);
}

TEST_F(StorageTest, ADamagedNewestOneGivesWayToTheOneBefore) {
  Store(1);
  Store(2);
  ASSERT_EQ(::truncate((Folder(2) + "/MANIFEST.json").c_str(), 10), 0);
  EXPECT_EQ(Newest(storage_)->saved.step, 1);
  EXPECT_FALSE(Newest(storage_, {"step-1-g1"}).has_value());
  ASSERT_EQ(::truncate((storage_ + "/LATEST").c_str(), 0), 0);
  EXPECT_EQ(Newest(storage_)->saved.step, 1);
}

TEST_F(StorageTest, RemovingTheNewestMakesTheNextOneTheNewest) {
  Store(1);
  Store(2);
  ASSERT_TRUE(Remove(storage_, "step-2-g1").ok());
  EXPECT_EQ(Newest(storage_)->saved.step, 1);
  EXPECT_FALSE(Remove(storage_, "../storage/step-1-g1").ok());
  ASSERT_TRUE(Remove(storage_, "step-1-g1").ok());
  EXPECT_FALSE(Newest(storage_).has_value());
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
  for (size_t size = 0; size < text.size() - 1; ++size) {
    EXPECT_FALSE(ParseManifest(text.substr(0, size)).ok());
  }
}

}  // namespace
}  // namespace paceline::ckpt

#include "paceline/ckpt/image/arena.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/base/test_dir.h"
#include "paceline/base/test_tmpfs.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::ckpt {
namespace {

constexpr uint64_t kImage = 3 * kArenaImageAlignment;

class ArenaTest : public testing::Test {
 protected:
  std::unique_ptr<Arena> OpenOrMake(uint32_t slots = 3, uint64_t bytes = kImage) const {
    auto arena = Arena::OpenOrMake(path_, identity_, {bytes, slots});
    EXPECT_TRUE(arena.ok()) << arena.failure().message;
    if (!arena.ok()) return nullptr;
    ReserveAll(arena->get());
    return *std::move(arena);
  }
  static void ReserveAll(Arena* arena) {
    for (uint32_t i = 0; i < arena->slot_count(); ++i) EXPECT_TRUE(arena->Reserve(i).ok());
  }

  const ArenaIdentity identity_{.job_id = "job-1", .boot_id = "boot-1", .rank = 4};
  const TestDir dir_{TestDir::InMemory()};
  const std::string folder_ = dir_.path();
  const std::string path_ = folder_ + "/rank0";
};

// An image of `bytes` bytes, each derived from the step.
bool Save(Arena* arena, uint64_t generation, int64_t step, uint64_t bytes) {
  const auto slot = arena->BeginWrite();
  if (!slot.has_value()) return false;
  const std::vector<std::byte> source(bytes, static_cast<std::byte>(step));
  ChunkCopier copier(arena->image(*slot), bytes);
  copier.Append(source.data(), bytes);
  const std::string text = "step " + std::to_string(step);
  ChunkCopier notes(arena->image(*slot) + NotesAt(bytes), text.size());
  notes.Append(text.data(), text.size());
  arena->Seal({.slot = *slot,
               .generation = generation,
               .step = step,
               .file_bytes = bytes,
               .notes_bytes = text.size()},
              copier.Finish(), notes.Finish());
  return true;
}

// True if every byte belongs to the same step and the hashes agree.
bool IsWhole(const Arena& arena, const ArenaImage& image) {
  const auto notes = arena.NotesOf(image);
  const std::string text(reinterpret_cast<const char*>(notes.data()), notes.size());
  if (text != "step " + std::to_string(image.step)) return false;
  if (arena.NotesHashesOf(image) != std::vector{HashOf(text.data(), text.size())}) return false;
  const auto bytes = arena.FileOf(image);
  const auto hashes = arena.FileHashesOf(image);
  for (const std::byte byte : bytes) {
    if (byte != static_cast<std::byte>(image.step)) return false;
  }
  for (size_t i = 0; i < hashes.size(); ++i) {
    const size_t begin = i * kChunkBytes;
    if (hashes[i] != HashOf(&bytes[begin], std::min(kChunkBytes, bytes.size() - begin)))
      return false;
  }
  return image.file_root == HashOf(hashes.data(), hashes.size() * sizeof(hashes[0]));
}

TEST_F(ArenaTest, WhatWasSealedIsFoundByTheNextProcess) {
  {
    const auto arena = OpenOrMake();
    EXPECT_TRUE(arena->Sealed().empty());
    ASSERT_TRUE(Save(arena.get(), 1, 7, 5'000'000));
    ASSERT_TRUE(Save(arena.get(), 1, 8, 1));
  }
  const auto found = Arena::Open(path_, identity_);
  ASSERT_TRUE(found.ok()) << found.failure().message;
  const auto images = (*found)->Sealed();
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[0].step, 8);
  EXPECT_EQ(images[1].step, 7);
  for (const ArenaImage& image : images) EXPECT_TRUE(IsWhole(**found, image));
}

TEST_F(ArenaTest, ANewerWorldsLowerStepIsNewer) {
  const auto arena = OpenOrMake();
  ASSERT_TRUE(Save(arena.get(), 1, 9, 10));
  ASSERT_TRUE(Save(arena.get(), 2, 5, 10));
  EXPECT_EQ(arena->Sealed().front().step, 5);
}

TEST_F(ArenaTest, TheNewestIsNeverOverwrittenNorWhatIsRead) {
  const auto arena = OpenOrMake(3);
  for (int64_t step = 1; step <= 20; ++step) {
    ASSERT_TRUE(Save(arena.get(), 1, step, 100));
    const ArenaImage newest = arena->Sealed().front();
    EXPECT_EQ(newest.step, step);
  }
  const auto images = arena->Sealed();  // 20, 19, 18
  ASSERT_TRUE(arena->BeginRead(images[1]));
  ASSERT_TRUE(arena->BeginRead(images[2]));
  EXPECT_FALSE(arena->BeginRead(images[2])) << "it is claimed";
  EXPECT_FALSE(Save(arena.get(), 1, 21, 100)) << "one is the newest, two are read";
  arena->EndRead(images[2]);
  EXPECT_TRUE(Save(arena.get(), 1, 21, 100));
  EXPECT_FALSE(arena->BeginRead(images[2])) << "its slot holds another image now";
  EXPECT_TRUE(IsWhole(*arena, images[1]));
}

TEST_F(ArenaTest, WhatTheWorldHasInCommonIsKept) {
  const auto arena = OpenOrMake(3);
  for (int64_t step = 1; step <= 3; ++step) ASSERT_TRUE(Save(arena.get(), 1, step, 10));
  const auto slot = arena->BeginWrite(/*keep=*/SavedStep{1, 1});
  ASSERT_TRUE(slot);
  arena->GiveUp(*slot);
  const auto images = arena->Sealed();
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[0].step, 3);
  EXPECT_EQ(images[1].step, 1);
}

TEST_F(ArenaTest, TheOrderToHoldASaveIsReadAsItWasWritten) {
  const auto arena = OpenOrMake(2);
  EXPECT_FALSE(arena->hold().has_value());
  for (const SavedStep from : {SavedStep{1, 0}, SavedStep{3, 40, 2}, SavedStep{3, 4, 9}}) {
    arena->SetHold(from);
    EXPECT_EQ(arena->hold(), from);
  }
  arena->SetHold(std::nullopt);
  EXPECT_FALSE(arena->hold().has_value());
}

TEST(HeldStep, ABranchComesAfterTheHeldStepOfTheBranchBefore) {
  HeldStep held;
  const SavedStep from{1, 100};
  EXPECT_FALSE(held.Keep(from).has_value());
  held.Saved({1, 99});
  EXPECT_FALSE(held.Keep(from).has_value());
  held.Saved({1, 5, 1});
  held.Saved({1, 6, 1});
  EXPECT_EQ(held.Keep(from), (SavedStep{1, 5, 1}));
  EXPECT_FALSE(held.Keep(SavedStep{1, 100, 1}).has_value()) << "another order";
}

TEST_F(ArenaTest, ClaimsOfTheDeadAreTakenBack) {
  const auto arena = OpenOrMake(2);
  ASSERT_TRUE(Save(arena.get(), 1, 1, 10));
  ASSERT_TRUE(arena->BeginRead(arena->Sealed().front()));
  ASSERT_TRUE(arena->BeginWrite());
  EXPECT_FALSE(arena->BeginWrite());
  arena->ForgetUnfinished();
  arena->ForgetReaders();
  EXPECT_TRUE(Save(arena.get(), 1, 2, 10));
  EXPECT_TRUE(arena->BeginRead(arena->Sealed().front()));
}

TEST_F(ArenaTest, StrangersAreRefused) {
  { const auto arena = OpenOrMake(); }
  ArenaIdentity other_job = identity_;
  other_job.job_id = "job-2";
  ArenaIdentity other_boot = identity_;
  other_boot.boot_id = "boot-2";
  ArenaIdentity other_rank = identity_;
  other_rank.rank = 5;
  for (const ArenaIdentity& identity : {other_job, other_boot, other_rank}) {
    EXPECT_EQ(Arena::Open(path_, identity).failure().kind, FailureKind::kNotOurs);
    EXPECT_EQ(Arena::OpenOrMake(path_, identity, {kImage, 3}).failure().kind,
              FailureKind::kNotOurs);
  }
  EXPECT_EQ(Arena::Open(folder_ + "/none", identity_).failure().kind, FailureKind::kNotFound);
}

TEST_F(ArenaTest, ALargerOneReplacesASmallerOne) {
  {
    const auto arena = OpenOrMake(2, 10);
    ASSERT_TRUE(Save(arena.get(), 1, 1, 10));
  }
  const auto arena = OpenOrMake(2, 2 * kImage);
  EXPECT_TRUE(arena->Sealed().empty());
  EXPECT_GE(arena->image_bytes_max(), 2 * kImage);
}

// Each byte of header and control is flipped: the image is found complete or not at all.
TEST_F(ArenaTest, AFlippedByteIsNeverBelieved) {
  {
    const auto arena = OpenOrMake(2, 10);
    ASSERT_TRUE(Save(arena.get(), 1, 1, 10));
  }
  const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  for (off_t at = 0; at < static_cast<off_t>(kArenaPage + sizeof(ArenaSlot)); ++at) {
    char byte = 0;
    ASSERT_EQ(::pread(fd, &byte, 1, at), 1);
    const char flipped = static_cast<char>(byte ^ 0x10);
    ASSERT_EQ(::pwrite(fd, &flipped, 1, at), 1);
    if (const auto arena = Arena::Open(path_, identity_); arena.ok()) {
      for (const ArenaImage& image : (*arena)->Sealed()) {
        EXPECT_TRUE(image.step == 1 && IsWhole(**arena, image)) << "byte " << at;
      }
    }
    ASSERT_EQ(::pwrite(fd, &byte, 1, at), 1);
  }
  ::close(fd);
}

TEST_F(ArenaTest, AFullFileSystemIsAnErrorAndNoSignal) {
  const SmallTmpfs tmpfs(folder_, "4m");
  if (!tmpfs.is_there()) {
    GTEST_SKIP() << "FULL TMPFS NOT TESTED: needs root";
  }
  const auto arena = Arena::OpenOrMake(path_, identity_, {kImage, 3});
  EXPECT_EQ(arena.failure().kind, FailureKind::kFull) << arena.failure().message;
  std::ifstream left(path_);
  EXPECT_FALSE(left.is_open());
}

// Others may take the room between the making of the file and the last slot.
TEST_F(ArenaTest, ASlotThatGetsNoMemoryIsNotUsed) {
  const SmallTmpfs tmpfs(folder_, "24m");
  if (!tmpfs.is_there()) {
    GTEST_SKIP() << "FULL TMPFS NOT TESTED: needs root";
  }
  {
    const auto arena = Arena::OpenOrMake(path_, identity_, {kImage, 3});
    ASSERT_TRUE(arena.ok()) << arena.failure().message;
    EXPECT_FALSE((*arena)->BeginWrite()) << "no slot has memory";
    ASSERT_TRUE((*arena)->Reserve(0).ok());
    ASSERT_TRUE((*arena)->Reserve(1).ok());
    const int other = ::open((folder_ + "/other").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(::posix_fallocate(other, 0, 8 << 20), 0);
    EXPECT_EQ((*arena)->Reserve(2).failure().kind, FailureKind::kFull);
    EXPECT_FALSE((*arena)->IsReserved(2));
    EXPECT_EQ(::posix_fallocate(other, 8 << 20, 2 << 20), 0) << "what it had taken is given back";
    ::close(other);
    for (int64_t step = 1; step <= 5; ++step) ASSERT_TRUE(Save(arena->get(), 1, step, kImage / 2));
    ASSERT_EQ(::unlink((folder_ + "/other").c_str()), 0);
  }
  const auto again = OpenOrMake();
  EXPECT_EQ(again->Sealed().size(), 2u);
  EXPECT_TRUE(again->IsReserved(2)) << "the next process finds the memory that there is now";
}

TEST_F(ArenaTest, ASlotIsReservedPieceByPieceAndGivenBack) {
  const auto arena = Arena::OpenOrMake(path_, identity_, {kImage, 2});
  ASSERT_TRUE(arena.ok());
  struct stat empty {};
  ASSERT_EQ(::stat(path_.c_str(), &empty), 0);
  uint64_t done = 0;
  while (done + (2 << 20) < (*arena)->image_bytes_max()) {
    const uint64_t before = done;
    ASSERT_FALSE(*(*arena)->ReservePiece(0, &done));
    ASSERT_GT(done, before);
  }
  EXPECT_FALSE((*arena)->IsReserved(0)) << "a part is missing";
  EXPECT_TRUE(*(*arena)->ReservePiece(0, &done));
  EXPECT_TRUE((*arena)->IsReserved(0));
  EXPECT_TRUE(*(*arena)->ReservePiece(0, &done)) << "nothing is left to do";
  (*arena)->GiveBack(0);
  EXPECT_FALSE((*arena)->IsReserved(0));
  struct stat given_back {};
  ASSERT_EQ(::stat(path_.c_str(), &given_back), 0);
  EXPECT_EQ(given_back.st_blocks, empty.st_blocks);
}

TEST_F(ArenaTest, AFileThatWasCutOffIsReplaced) {
  {
    const auto arena = OpenOrMake();
    ASSERT_TRUE(Save(arena.get(), 1, 1, 10));
  }
  ASSERT_EQ(::truncate(path_.c_str(), 3 * kArenaPage), 0);
  EXPECT_EQ(Arena::Open(path_, identity_).failure().kind, FailureKind::kDamaged);
  EXPECT_TRUE(OpenOrMake()->Sealed().empty());
}

// A writer is killed at any point. The next process finds complete images; at most the one that was
// being written is missing.
TEST_F(ArenaTest, AWriterMayBeKilledAtAnyInstruction) {
  Prng prng(11);
  int64_t step = 1;
  { const auto arena = OpenOrMake(3, 1 << 20); }
  for (int round = 0; round < 60; ++round) {
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    const pid_t writer = ::fork();
    if (writer == 0) {
      const auto arena = Arena::Open(path_, identity_);
      if (!arena.ok()) ::_exit(1);
      (*arena)->ForgetUnfinished();
      for (int64_t at = step;; ++at) {
        if (!Save(arena->get(), 1, at, (1 << 20) - 77)) ::_exit(2);
        if (::write(told[1], &at, sizeof(at)) != sizeof(at)) ::_exit(3);
      }
    }
    ::close(told[1]);
    int64_t sealed = step - 1;
    ASSERT_EQ(::read(told[0], &sealed, sizeof(sealed)), ssize_t{sizeof(sealed)});
    ::usleep(static_cast<useconds_t>(prng.Between(0, 8'000)));
    ::kill(writer, SIGKILL);
    int status = 0;
    ::waitpid(writer, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    for (int64_t at = 0; ::read(told[0], &at, sizeof(at)) == sizeof(at);) sealed = at;
    ::close(told[0]);
    const auto arena = Arena::Open(path_, identity_);
    ASSERT_TRUE(arena.ok()) << arena.failure().message;
    const auto images = (*arena)->Sealed();
    for (const ArenaImage& image : images) ASSERT_TRUE(IsWhole(**arena, image)) << image.step;
    const int64_t newest = images.empty() ? 0 : images.front().step;
    ASSERT_TRUE(newest == sealed || newest == sealed + 1) << newest << " after " << sealed;
    step = newest + 1;
  }
  EXPECT_GT(step, 60) << "the writers did get somewhere";
}

}  // namespace
}  // namespace paceline::ckpt

// The tests that every backend must pass. S3 is tested against a real server process: moto, which
// tools/setup.sh installs. PACELINE_TEST_S3=s3://bucket/prefix uses another server, which the
// standard AWS variables configure.

#include "paceline/ckpt/store/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "paceline/base/file_text.h"
#include "paceline/base/prng.h"
#include "paceline/base/test_dir.h"
#include "paceline/ckpt/disk/aligned_buffer.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/storage/saved_ranks.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"
#include "paceline/ckpt/store/stores.h"

extern char** environ;

namespace paceline::ckpt {
namespace {

// A Python for tests; "" if it lacks the needed packages.
std::string TestPython() {
  const char* named = std::getenv("PACELINE_TEST_PYTHON");
  const std::string python = named != nullptr ? named : PACELINE_SOURCE_DIR "/.venv/bin/python";
  return ::access(python.c_str(), X_OK) == 0 ? python : "";
}

pid_t Spawn(std::vector<std::string> argv) {
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  pid_t pid = 0;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const int error = ::posix_spawn(&pid, words[0], &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -1;
}

// An S3 server for one test.
class S3Server {
 public:
  // Its bucket is "paceline-test". place() is "" if no server can be started.
  S3Server() {
    if (const char* named = std::getenv("PACELINE_TEST_S3"); named != nullptr) {
      place_ = named;
      return;
    }
    const std::string python = TestPython();
    if (python.empty()) return;
    // The server chooses its port, so that no other process can take it before. The file with the
    // port appears when the bucket exists.
    const std::string script =
        "import os, signal, sys\n"
        "from moto.server import ThreadedMotoServer\n"
        "import boto3\n"
        "server = ThreadedMotoServer('127.0.0.1', 0, verbose=False)\n"
        "server.start()\n"
        "place = 'http://127.0.0.1:%d' % server.get_host_and_port()[1]\n"
        "boto3.client('s3', endpoint_url=place).create_bucket(Bucket='paceline-test')\n"
        "with open(sys.argv[1] + '.new', 'w') as file:\n"
        "    file.write(place)\n"
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        "signal.pause()\n";
    ::setenv("AWS_ACCESS_KEY_ID", "test", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "test", 1);
    ::setenv("AWS_DEFAULT_REGION", "us-east-1", 1);
    ::setenv("PYTHONPATH", PACELINE_SOURCE_DIR "/python", 1);
    const std::string ready = dir_.path() + "/ready";
    pid_ = Spawn({python, "-c", script, ready});
    while (pid_ > 0 && ::access(ready.c_str(), F_OK) != 0) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) pid_ = -1;  // moto is missing
      ::usleep(20'000);
    }
    if (pid_ <= 0) return;
    ::setenv("AWS_ENDPOINT_URL_S3", ReadText(ready, 100).c_str(), 1);
    place_ = "s3://paceline-test";
  }
  ~S3Server() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  const std::string& place() const { return place_; }

 private:
  const TestDir dir_;
  pid_t pid_ = -1;
  std::string place_;
};

class StoreTest : public testing::TestWithParam<std::string> {
 protected:
  static void TearDownTestSuite() { server_.reset(); }

  void SetUp() override {
    if (GetParam() == "posix") {
      place_ = dir_.path();
    } else {
      if (server_ == nullptr) server_ = std::make_unique<S3Server>();
      if (server_->place().empty()) GTEST_SKIP() << "S3 WAS NOT TESTED: no Python with moto";
      const std::string name = dir_.path().substr(dir_.path().rfind('/') + 1);
      place_ = server_->place() + "/" + name;
    }
    store_ = Another();
  }

  std::unique_ptr<Store> Another() const {
    auto store = OpenStore(place_, {.python = TestPython()});
    EXPECT_TRUE(store.ok());
    return *std::move(store);
  }

  // Random bytes with their hashes, aligned as in a slot.
  std::span<const std::byte> Fill(size_t size) {
    Prng prng(size);
    std::vector<std::byte> source(size);
    for (std::byte& byte : source) byte = static_cast<std::byte>(prng.Next());
    std::byte* const image = buffer_.Get(std::max<size_t>(size, 1));
    ChunkCopier copier(image, size);
    copier.Append(source.data(), size);
    hashes_ = copier.Finish();
    return {image, size};
  }
  Result<void> WriteImage(const std::string& key, size_t size) {
    MemorySource source(Fill(size));
    return store_->WriteImage(key, &source, hashes_, nullptr);
  }
  std::vector<std::string> Names(const std::string& folder) {
    std::vector<std::string> names;
    const auto entries = store_->List(folder);
    EXPECT_TRUE(entries.ok());
    for (const StoreEntry& one : *entries) names.push_back(one.name + (one.is_folder ? "/" : ""));
    return names;
  }

  static std::unique_ptr<S3Server> server_;
  const TestDir dir_;
  std::string place_;
  std::unique_ptr<Store> store_;
  AlignedBuffer buffer_;
  std::vector<uint64_t> hashes_;
};
std::unique_ptr<S3Server> StoreTest::server_;

TEST_P(StoreTest, SmallFilesAreReplacedWholeAndReadBack) {
  ASSERT_TRUE(store_->MakeFolder("a").ok());
  ASSERT_TRUE(store_->MakeFolder("a").ok()) << "again";
  for (const std::string text : {"one", "", "three"}) {
    ASSERT_TRUE(Put(store_.get(), "a/x", text, Store::PutMode::kReplace).ok());
    EXPECT_EQ(*store_->Get("a/x", 100), text);
  }
  EXPECT_EQ(store_->Get("a/x", 4).failure().kind, FailureKind::kTooLarge);
  EXPECT_EQ(store_->Get("a/y", 4).failure().kind, FailureKind::kNotFound);
  EXPECT_EQ(*store_->GetAll({}, 4), std::vector<std::string>());
  EXPECT_EQ(store_->GetAll({"a/x", "a/y"}, 100).failure().kind, FailureKind::kNotFound);
  EXPECT_EQ(store_->GetAll({"a/x"}, 4).failure().kind, FailureKind::kTooLarge);
  EXPECT_TRUE(*store_->Has("a/x"));
  EXPECT_FALSE(*store_->Has("a/y"));
  EXPECT_FALSE(*store_->Has("b/x"));
  EXPECT_TRUE(store_->SyncNames("a").ok());
  EXPECT_EQ(Names("a"), std::vector<std::string>{"x"}) << "and nothing temporary";
}

TEST_P(StoreTest, ASmallFileIsExchangedForWhatIsStillThereAlone) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  ASSERT_TRUE(Put(store_.get(), "x", "one", Store::PutMode::kNew).ok());
  ASSERT_TRUE(store_->Exchange("x", "one", bytes("two")).ok());
  EXPECT_EQ(*store_->Get("x", 100), "two");
  for (const std::string other : {"one", "three", "twofold", ""}) {
    EXPECT_EQ(store_->Exchange("x", other, bytes("four")).failure().kind, FailureKind::kFenced);
    EXPECT_EQ(*store_->Get("x", 100), "two");
  }
  EXPECT_FALSE(store_->Exchange("y", "one", bytes("two")).ok());
  EXPECT_EQ(Names(""), std::vector<std::string>{"x"}) << "and nothing temporary";
}

TEST_P(StoreTest, OfTwoThatPutAnewOneDoes) {
  ASSERT_TRUE(store_->MakeFolder("a").ok());
  const auto other = Another();
  ASSERT_TRUE(Put(store_.get(), "a/x", "mine", Store::PutMode::kNew).ok());
  const Result<void> second = Put(other.get(), "a/x", "theirs", Store::PutMode::kNew);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.failure().kind, FailureKind::kExists) << second.failure().message;
  EXPECT_EQ(*other->Get("a/x", 100), "mine");
  EXPECT_EQ(Names("a"), std::vector<std::string>{"x"});
}

TEST_P(StoreTest, ImagesOfAnySizeComeBackChunkByChunk) {
  ASSERT_TRUE(store_->MakeFolder("a").ok());
  // Sizes: none, less than a page, one part, several parts, more than a window.
  for (const size_t size :
       {size_t{0}, size_t{5}, kChunkBytes, 3 * kChunkBytes + 77, 6 * kChunkBytes + 4096}) {
    const Result<void> written = WriteImage("a/image", size);
    ASSERT_TRUE(written.ok()) << size << ": " << written.failure().message;
    auto source = store_->Open("a/image", size);
    ASSERT_TRUE(source.ok()) << source.failure().message;
    EXPECT_TRUE(Verify(source->get(), hashes_).ok()) << size;
    if (size > kChunkBytes) {
      const auto back = (*source)->Chunk(1);
      ASSERT_TRUE(back.ok());
      EXPECT_EQ(HashOf(back->data(), back->size()), hashes_[1]) << "in any order";
    }
    EXPECT_EQ(store_->Open("a/image", size + 1).failure().kind, FailureKind::kDamaged);
  }
  EXPECT_EQ(store_->Open("a/none", 1).failure().kind, FailureKind::kNotFound);
}

TEST_P(StoreTest, WhatTheMemoryLostIsNotWritten) {
  ASSERT_TRUE(store_->MakeFolder("a").ok());
  for (const size_t size : {size_t{100}, 4 * kChunkBytes}) {
    MemorySource source(Fill(size));
    buffer_.Get(0)[size - 1] ^= std::byte{1};
    const Result<void> written = store_->WriteImage("a/image", &source, hashes_, nullptr);
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.failure().kind, FailureKind::kDamaged) << written.failure().message;
    EXPECT_FALSE(*store_->Has("a/image"));
  }
  EXPECT_TRUE(WriteImage("a/image", 100).ok()) << "and the store goes on";
}

// The existing file may belong to a committed checkpoint.
TEST_P(StoreTest, AnImageIsReplacedWholeOrNotAtAll) {
  ASSERT_TRUE(store_->MakeFolder("a").ok());
  const size_t size = 2 * kChunkBytes + 77;
  ASSERT_TRUE(WriteImage("a/image", size).ok());
  auto before = store_->Open("a/image", size);
  ASSERT_TRUE(before.ok());
  MemorySource source(Fill(size));
  const std::vector<uint64_t> right = hashes_;
  buffer_.Get(0)[size - 1] ^= std::byte{1};
  ASSERT_FALSE(store_->WriteImage("a/image", &source, hashes_, nullptr).ok());
  EXPECT_TRUE(Verify(before->get(), right).ok()) << "who reads it goes on";
  auto after = store_->Open("a/image", size);
  ASSERT_TRUE(after.ok()) << after.failure().message;
  EXPECT_TRUE(Verify(after->get(), right).ok());
  // Write the same file twice.
  ASSERT_TRUE(WriteImage("a/image", size).ok());
  EXPECT_EQ(Names("a"), std::vector<std::string>{"image"});
  ASSERT_TRUE(store_->MakeFolder("b").ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(store_->Link("a/image", "b/image").ok());
  EXPECT_EQ(Names("b"), std::vector<std::string>{"image"});
}

TEST_P(StoreTest, ALinkStaysWhenWhatItCameFromGoes) {
  ASSERT_TRUE(store_->MakeFolder("a").ok());
  ASSERT_TRUE(store_->MakeFolder("b").ok());
  const size_t size = 2 * kChunkBytes + 77;
  ASSERT_TRUE(WriteImage("a/image", size).ok());
  ASSERT_TRUE(Put(store_.get(), "b/image", "what was there", Store::PutMode::kReplace).ok());
  const Result<void> linked = store_->Link("a/image", "b/image");
  ASSERT_TRUE(linked.ok()) << linked.failure().message;
  EXPECT_TRUE(store_->SyncNames("b").ok());
  ASSERT_TRUE(store_->Remove("a/image").ok());
  auto source = store_->Open("b/image", size);
  ASSERT_TRUE(source.ok()) << source.failure().message;
  EXPECT_TRUE(Verify(source->get(), hashes_).ok());
  EXPECT_EQ(store_->Link("a/none", "b/none").failure().kind, FailureKind::kNotFound);
  EXPECT_FALSE(*store_->Has("b/none"));
}

TEST_P(StoreTest, AFrozenFileIsSharedByCheckpoints) {
  SavedRanks ranks(3'000'000);
  ASSERT_TRUE(ranks.SaveWhole(store_.get(), 1).ok());
  ASSERT_TRUE(ranks.SaveWhole(store_.get(), 2).ok());
  ASSERT_TRUE(Prune(store_.get(), 1).ok());
  EXPECT_EQ(SavedRanks::WholeNewest(store_.get()), 2);
  EXPECT_TRUE(*store_->Has("step-2-g1/shard-00000-frozen.safetensors"));
}

TEST_P(StoreTest, ACommitRemovesWhatKilledWritersLeft) {
  SavedRanks ranks;
  const std::string folder = SavedRanks::NameOf(1);
  ASSERT_TRUE(store_->MakeFolder(folder).ok());
  const std::string left = folder + "/shard-00001.safetensors.new-77";
  if (store_->traits().has_paths) {
    ASSERT_TRUE(Put(store_.get(), left, "half a shard", Store::PutMode::kReplace).ok());
  }
  ASSERT_TRUE(ranks.SaveWhole(store_.get(), 1).ok());
  for (const std::string& name : Names(folder)) {
    EXPECT_TRUE(name == "MANIFEST.json" || name.ends_with(".safetensors") ||
                (name.starts_with("rank-") && !name.ends_with(".part.json")))
        << name;
  }
  EXPECT_EQ(SavedRanks::WholeNewest(store_.get()), 1);
}

TEST_P(StoreTest, ListsTellFilesFromFolders) {
  ASSERT_TRUE(store_->MakeFolder("b").ok());
  ASSERT_TRUE(store_->MakeFolder("a").ok());
  ASSERT_TRUE(Put(store_.get(), "a/2", "22", Store::PutMode::kReplace).ok());
  ASSERT_TRUE(Put(store_.get(), "a/1", "1", Store::PutMode::kReplace).ok());
  ASSERT_TRUE(Put(store_.get(), "b/1", "1", Store::PutMode::kReplace).ok());
  ASSERT_TRUE(Put(store_.get(), "LATEST", "x", Store::PutMode::kReplace).ok());
  EXPECT_EQ(Names(""), (std::vector<std::string>{"LATEST", "a/", "b/"}));
  EXPECT_EQ(Names("a"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(Names("none"), std::vector<std::string>{});
  const auto entries = store_->List("a");
  EXPECT_EQ((*entries)[1].bytes, 2u);
  EXPECT_GT((*entries)[1].changed_ns, 0);
}

TEST_P(StoreTest, WhatIsRemovedIsGoneAndAgainIsNoError) {
  ASSERT_TRUE(store_->MakeFolder("a").ok());
  ASSERT_TRUE(Put(store_.get(), "a/1", "1", Store::PutMode::kReplace).ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(store_->Remove("a/1").ok());
    EXPECT_TRUE(store_->RemoveFolder("a").ok());
  }
  EXPECT_EQ(Names(""), std::vector<std::string>{});
  EXPECT_EQ(store_->RenameFolder("a", "b").ok(), false);
}

TEST_P(StoreTest, CheckpointsAreSavedFoundPrunedAndRemoved) {
  SavedRanks ranks;
  for (int64_t step = 1; step <= 4; ++step) {
    const Result<void> saved = ranks.SaveWhole(store_.get(), step);
    ASSERT_TRUE(saved.ok()) << saved.failure().message;
    EXPECT_EQ(SavedRanks::WholeNewest(Another().get()), step);
  }
  EXPECT_EQ(ranks.Write(store_.get(), 0, 4, 0).failure().kind, FailureKind::kExists);
  EXPECT_TRUE(Commit(store_.get(), SavedRanks::Place(4)).ok()) << "again: the same answer";
  EXPECT_EQ(Commit(store_.get(), SavedRanks::Place(2)).failure().kind, FailureKind::kFenced);
  ASSERT_TRUE(Prune(store_.get(), 2).ok());
  EXPECT_EQ(Names(""), (std::vector<std::string>{"LATEST", "step-3-g1/", "step-4-g1/"}));
  ASSERT_TRUE(Remove(store_.get(), "step-4-g1").ok());
  EXPECT_EQ(SavedRanks::WholeNewest(store_.get()), 3);
  ASSERT_TRUE(Remove(store_.get(), "step-3-g1").ok());
  EXPECT_EQ(Names(""), std::vector<std::string>{});
}

TEST_P(StoreTest, DamageIsFoundWhereverItIs) {
  SavedRanks ranks;
  ASSERT_TRUE(ranks.SaveWhole(store_.get(), 1).ok());
  ASSERT_TRUE(ranks.SaveWhole(store_.get(), 2).ok());
  const Result<Manifest> manifest = ReadManifest(store_.get(), "step-2-g1");
  ASSERT_TRUE(manifest.ok());
  std::string text = *store_->Get("step-2-g1/rank-00001.json", 1000);
  text[2] ^= 1;
  ASSERT_TRUE(Put(store_.get(), "step-2-g1/rank-00001.json", text, Store::PutMode::kReplace).ok());
  EXPECT_EQ(VerifyCheckpoint(store_.get(), "step-2-g1").size(), 1u);
  EXPECT_TRUE(VerifyCheckpoint(store_.get(), "step-1-g1").empty());
  ASSERT_TRUE(Put(store_.get(), "step-2-g1/MANIFEST.json", "{}", Store::PutMode::kReplace).ok());
  EXPECT_EQ((*Newest(store_.get()))->saved.step, 1);
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const StoreBackend& backend : StoreBackends()) names.emplace_back(backend.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, StoreTest, testing::ValuesIn(BackendNames()),
                         [](const auto& info) { return info.param; });

TEST(Stores, APlaceThatIsNoneIsRefused) {
  for (const char* place : {"s3://", "s3://B?", "s3://bucket/../x", "s3://bucket//x", "s3://ab",
                            "s3://My_Bucket", "gs://bucket", "file:///runs", "S3://bucket"}) {
    EXPECT_FALSE(OpenStore(place, {.python = "/usr/bin/python3"}).ok()) << place;
  }
  EXPECT_FALSE(OpenStore("s3://bucket", {}).ok()) << "nobody speaks S3 here";
  EXPECT_TRUE(OpenStore("s3:/bucket/runs/", {.python = "/usr/bin/python3"}).ok());
}

// Reports another device number than the real one.
class MountedElsewhere : public Disk {
 public:
  int Stat(const std::string& path, DiskEntry* entry) override {
    const int status = Disk::Stat(path, entry);
    entry->device = device;
    return status;
  }
  uint64_t device = 1;
};

TEST(Stores, WhatIsLeftOfAnUnmountedDirectoryIsNotWrittenInto) {
  const TestDir dir;
  MountedElsewhere disk;
  const auto store = MakePosixStore(dir.path(), &disk);
  SavedRanks ranks;
  ASSERT_TRUE(ranks.SaveWhole(store.get(), 1).ok());
  // After the next mount the device number is often another one, with all files there.
  disk.device = 2;
  EXPECT_TRUE(store->MakeFolder("step-3-g1").ok());
  // Emptying the directory in place is allowed.
  std::filesystem::rename(dir.path() + "/LATEST", dir.path() + "/aside");
  EXPECT_TRUE(store->MakeFolder("step-4-g1").ok());
  disk.device = 1;
  const Result<void> bare = store->MakeFolder("step-5-g1");
  ASSERT_FALSE(bare.ok());
  EXPECT_EQ(bare.failure().kind, FailureKind::kBusy);
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/step-5-g1"));
  std::filesystem::rename(dir.path() + "/aside", dir.path() + "/LATEST");
  EXPECT_TRUE(store->MakeFolder("step-5-g1").ok());
  // A store that never saw a checkpoint accepts any directory.
  std::filesystem::remove(dir.path() + "/LATEST");
  EXPECT_TRUE(MakePosixStore(dir.path(), &disk)->MakeFolder("step-6-g1").ok());
}

// An unreachable server is not an empty store: no job may start anew because of it.
TEST(Stores, AStoreThatIsAwayIsNotEmpty) {
  auto store = OpenStore("s3://bucket", {.python = "/bin/false"});
  ASSERT_TRUE(store.ok());
  const auto newest = Newest(store->get());
  ASSERT_FALSE(newest.ok());
  EXPECT_EQ(newest.failure().kind, FailureKind::kBusy);
  EXPECT_EQ(List(store->get()).failure().kind, FailureKind::kBusy);
  EXPECT_EQ(Prune(store->get(), 1).failure().kind, FailureKind::kBusy);
}

}  // namespace
}  // namespace paceline::ckpt

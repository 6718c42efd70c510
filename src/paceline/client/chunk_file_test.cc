// A file read in chunks over a socket. The test plays the agent.

#include "paceline/client/chunk_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "paceline/base/test_dir.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::client {
namespace {

constexpr uint64_t kFileBytes = 19 * kStoredChunkBytes + 77;
constexpr size_t kChunks = 20;
constexpr char kKey[] = "step-7-g1/shard-00000.safetensors";

class ChunkFileTest : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < kChunks; ++i) {
      const std::string bytes = BytesOf(i);
      hashes_.push_back(ckpt::HashOf(bytes.data(), bytes.size()));
    }
    listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    ASSERT_EQ(0, ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)));
    ASSERT_EQ(0, ::listen(listener_.get(), 64));
    threads_.emplace_back([this] {
      for (;;) {
        const int fd = ::accept(listener_.get(), nullptr, nullptr);
        if (fd < 0) return;
        {
          const std::lock_guard lock(mutex_);
          ++connections_;
        }
        changed_.notify_all();
        threads_.emplace_back([this, fd] { Serve(Fd(fd)); });
      }
    });
  }
  void TearDown() override {
    ::shutdown(listener_.get(), SHUT_RDWR);
    threads_.front().join();
    for (auto it = std::next(threads_.begin()); it != threads_.end(); ++it) it->join();
  }

  static std::string BytesOf(size_t index) {
    const size_t last = kFileBytes - index * kStoredChunkBytes;
    return std::string(std::min<size_t>(kStoredChunkBytes, last), static_cast<char>('a' + index));
  }
  void Serve(const Fd& fd) {
    uint32_t size = 0;
    while (::recv(fd.get(), &size, sizeof(size), MSG_WAITALL) == sizeof(size)) {
      std::string text(size, '\0');
      ::recv(fd.get(), text.data(), text.size(), MSG_WAITALL);
      const auto chunk = ParseChunk(text);
      ASSERT_TRUE(chunk.has_value());
      EXPECT_EQ(chunk->file, kKey);
      EXPECT_EQ(chunk->hash, hashes_[chunk->index]);
      ++asked_;
      AwaitConnections();
      if (chunk->index == silent_at_) {
        char none = 0;
        (void)::recv(fd.get(), &none, 1, 0);  // until the other side closes
        return;
      }
      if (chunk->index == gone_at_) return;
      const bool fails = chunk->index == fails_at_;
      const std::string bytes = fails ? "for a reason" : BytesOf(chunk->index);
      const uint32_t head[2] = {static_cast<uint32_t>(fails ? end_ : ChunkEnd::kHere),
                                static_cast<uint32_t>(bytes.size())};
      ::send(fd.get(), head, sizeof(head), MSG_NOSIGNAL);
      for (size_t done = 0; done < bytes.size();) {
        const ssize_t sent =
            ::send(fd.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
        if (sent <= 0) return;
        done += static_cast<size_t>(sent);
      }
    }
  }
  // Holds the answers back until there are that many connections.
  void AwaitConnections() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60),
                                  [this] { return connections_ >= connections_awaited_; }));
  }
  void ExpectChunk(ChunkFile* file, size_t index) {
    const auto got = file->Chunk(index);
    ASSERT_TRUE(got.ok()) << index << ": " << got.failure().message;
    const std::string bytes = BytesOf(index);
    ASSERT_EQ(got->size(), bytes.size());
    EXPECT_EQ(0, std::memcmp(got->data(), bytes.data(), bytes.size())) << index;
  }

  const TestDir dir_;
  const std::string path_ = dir_.path() + "/chunks";
  std::vector<uint64_t> hashes_;
  Fd listener_;
  std::list<std::thread> threads_;  // the first one starts the others
  std::atomic<int> asked_ = 0;
  std::mutex mutex_;  // guards connections_
  std::condition_variable changed_;
  int connections_ = 0;
  std::atomic<int> connections_awaited_ = 0;
  std::atomic<size_t> silent_at_ = SIZE_MAX;
  std::atomic<size_t> gone_at_ = SIZE_MAX;
  std::atomic<size_t> fails_at_ = SIZE_MAX;
  ChunkEnd end_ = ChunkEnd::kDamaged;
};

TEST_F(ChunkFileTest, GivesWhatIsAskedForAndTheSameAgainWithoutAsking) {
  ChunkFile file(path_, kKey, kFileBytes, hashes_);
  EXPECT_EQ(file.size(), kFileBytes);
  ExpectChunk(&file, 19);
  ExpectChunk(&file, 0);
  ExpectChunk(&file, 0);
  EXPECT_EQ(asked_, 2);
  EXPECT_EQ(file.bytes_read(), BytesOf(19).size() + BytesOf(0).size());
}

TEST_F(ChunkFileTest, ManyAreOnTheirWayWhenTheOrderIsKnown) {
  ChunkFile file(path_, kKey, kFileBytes, hashes_);
  ExpectChunk(&file, 0);  // a header
  const std::vector<size_t> order = {0, 1, 2, 3, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 18, 19};
  connections_awaited_ = 3;
  file.Expect(order);
  for (const size_t index : order) ExpectChunk(&file, index);
  // Chunk 0 was in memory but was requested ahead again.
  EXPECT_LE(asked_, 17);
  // A chunk that was not expected, and another order.
  ExpectChunk(&file, 4);
  file.Expect(std::vector<size_t>{10});
  ExpectChunk(&file, 10);
}

TEST_F(ChunkFileTest, WhatWasExpectedAndIsNotWantedHoldsUpNobody) {
  silent_at_ = 5;
  ChunkFile file(path_, kKey, kFileBytes, hashes_);
  std::vector<size_t> order;
  for (size_t i = 0; i < kChunks; ++i) order.push_back(i);
  file.Expect(order);
  for (size_t i = 0; i < 5; ++i) ExpectChunk(&file, i);
}  // the end of the scope returns, though the agent never answers

TEST_F(ChunkFileTest, AFailureSaysWhatItIs) {
  fails_at_ = 3;
  for (const auto& [end, kind] : {std::pair(ChunkEnd::kDamaged, FailureKind::kDamaged),
                                  std::pair(ChunkEnd::kGone, FailureKind::kNotFound),
                                  std::pair(ChunkEnd::kFailed, FailureKind::kSystem),
                                  std::pair(ChunkEnd::kAway, FailureKind::kBusy)}) {
    end_ = end;
    for (const bool is_expected : {false, true}) {
      ChunkFile file(path_, kKey, kFileBytes, hashes_);
      if (is_expected) file.Expect(std::vector<size_t>{2, 3, 4});
      const auto got = file.Chunk(3);
      ASSERT_FALSE(got.ok());
      EXPECT_EQ(got.failure().kind, kind);
      EXPECT_EQ(got.failure().message, "for a reason");
      ExpectChunk(&file, 4);
    }
  }
}

TEST_F(ChunkFileTest, AnAgentThatGoesIsAwayAndMayComeBack) {
  gone_at_ = 2;
  ChunkFile file(path_, kKey, kFileBytes, hashes_);
  ExpectChunk(&file, 1);
  const auto got = file.Chunk(2);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.failure().kind, FailureKind::kBusy);
  EXPECT_NE(got.failure().error_number, 0) << "what is away is waited for";
  gone_at_ = SIZE_MAX;
  ExpectChunk(&file, 2);
  ChunkFile nowhere(dir_.path() + "/none", kKey, kFileBytes, hashes_);
  EXPECT_EQ(nowhere.Chunk(0).failure().kind, FailureKind::kBusy);
}

}  // namespace
}  // namespace paceline::client

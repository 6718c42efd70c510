// Hosts that share the reading of a checkpoint in storage, over loopback.

#include "paceline/agent/memory/shared_reading.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "paceline/agent/memory/chunk_server.h"
#include "paceline/agent/memory/peer_memory.h"
#include "paceline/base/prng.h"
#include "paceline/base/test_dir.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::agent {
namespace {

constexpr char kFile[] = "step-7-g1/shard-00000.safetensors";
constexpr uint64_t kFileBytes = 9 * kStoredChunkBytes + 12'345;

class SharedReadingTest : public testing::Test {
 protected:
  struct Host {
    Host(SharedReadingTest* fixture, std::string node_name)
        : test(fixture),
          name(std::move(node_name)),
          shelf({dir.path() + "/user/job"}, "job", "boot-" + name) {
      test->OnLoop([&] {
        auto made = PeerMemory::Start(*test->reactor_, &shelf,
                                      {name, "127.0.0.1", test->credentials_}, [] {});
        ASSERT_TRUE(made.ok()) << made.status();
        memory = *std::move(made);
      });
      address = memory->address();
    }
    ~Host() { End(); }
    void End() {
      test->OnLoop([&] { memory.reset(); });
      test->OnLoop([] {});
    }
    Result<HeldChunk> Fetch(uint64_t index) { return memory->reading().Fetch(test->Chunk(index)); }

    SharedReadingTest* const test;
    const std::string name;
    std::string address;
    const TestDir dir{TestDir::InMemory()};
    ArenaShelf shelf;
    std::unique_ptr<PeerMemory> memory;
  };

  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    reactor_ = *Reactor::Create();
    credentials_.token = wire::MakeToken();
    loop_ = std::thread([this] { reactor_->Run(); });
    bytes_.resize(kFileBytes);
    Prng prng(7);
    for (size_t i = 0; i + 8 <= bytes_.size(); i += 8) {
      const uint64_t number = prng.Next();
      std::memcpy(bytes_.data() + i, &number, 8);
    }
    std::filesystem::create_directories(storage_.path() + "/step-7-g1");
    Write(bytes_);
  }
  void TearDown() override {
    hosts_.clear();
    reactor_->Post([this] { reactor_->Stop(); });
    loop_.join();
  }
  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    reactor_->Post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  void Write(const std::vector<char>& bytes) {
    std::ofstream(storage_.path() + "/" + kFile, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  void Make(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      hosts_.push_back(std::make_unique<Host>(this, "n" + std::to_string(i)));
      readers_.push_back({hosts_[i]->name, hosts_[i]->address});
    }
  }
  void Share(Host* host) {
    OnLoop([&] { host->memory->reading().Set(readers_, storage_.path()); });
  }
  void ShareAll() {
    for (const auto& host : hosts_) Share(host.get());
  }
  StoredChunk Chunk(uint64_t index) const {
    StoredChunk chunk{kFile, kFileBytes, index, 0};
    chunk.hash = ckpt::HashOf(bytes_.data() + index * kStoredChunkBytes, chunk.bytes());
    return chunk;
  }
  static constexpr uint64_t kChunks = kFileBytes / kStoredChunkBytes + 1;

  void ExpectWhole(uint64_t index, const Result<HeldChunk>& got) {
    ASSERT_TRUE(got.ok()) << got.failure().message;
    ASSERT_EQ((*got)->size, Chunk(index).bytes());
    EXPECT_EQ(0, std::memcmp((*got)->data.get(), bytes_.data() + index * kStoredChunkBytes,
                             (*got)->size));
  }
  // Each host begins at another place and has two ranks that read at once.
  void FetchAll() {
    std::vector<std::thread> ranks;
    for (size_t i = 0; i < 2 * hosts_.size(); ++i) {
      ranks.emplace_back([this, i] {
        Host* const host = hosts_[i / 2].get();
        if (host->memory == nullptr) return;
        for (uint64_t n = 0; n < kChunks; ++n) {
          const uint64_t index = (n + i) % kChunks;
          ExpectWhole(index, host->Fetch(index));
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
  uint64_t BytesRead() {
    uint64_t sum = 0;
    for (const auto& host : hosts_) {
      if (host->memory != nullptr) sum += host->memory->reading().read_bytes();
    }
    return sum;
  }

  std::unique_ptr<Reactor> reactor_;
  wire::Credentials credentials_;
  std::thread loop_;
  const TestDir storage_;
  std::vector<char> bytes_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<StorageReader> readers_;
};

TEST_F(SharedReadingTest, EachChunkIsReadByOneHostForAll) {
  Make(3);
  ShareAll();
  FetchAll();
  EXPECT_EQ(BytesRead(), kFileBytes);
  for (const auto& host : hosts_) EXPECT_LT(host->memory->reading().read_bytes(), kFileBytes);
}

TEST_F(SharedReadingTest, AReaderThatHearsOfItLateIsWaitedFor) {
  Make(2);
  Share(hosts_[0].get());
  std::thread late([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    Share(hosts_[1].get());
  });
  for (uint64_t index = 0; index < kChunks; ++index) ExpectWhole(index, hosts_[0]->Fetch(index));
  late.join();
  EXPECT_EQ(BytesRead(), kFileBytes);
}

TEST_F(SharedReadingTest, WhatAReaderThatIsGoneHadIsReadByOthers) {
  Make(3);
  ShareAll();
  hosts_[1]->End();
  FetchAll();
  EXPECT_GT(BytesRead(), kFileBytes) << "both that are left read its share";
  EXPECT_LT(BytesRead(), 2 * kFileBytes);
}

// Two hosts that take each other for the reader of every chunk.
TEST_F(SharedReadingTest, HostsThatDisagreeDoNotWaitForEachOther) {
  Make(2);
  for (const size_t i : {0, 1}) {
    const StorageReader other = readers_[1 - i];
    OnLoop([&] { hosts_[i]->memory->reading().Set({other}, storage_.path()); });
  }
  FetchAll();
  EXPECT_LE(BytesRead(), 2 * kFileBytes);
}

TEST_F(SharedReadingTest, ADamagedChunkIsOneForEverybody) {
  Make(2);
  ShareAll();
  std::vector<char> damaged = bytes_;
  damaged[3 * kStoredChunkBytes + 17] ^= 1;
  Write(damaged);
  for (const auto& host : hosts_) {
    const Result<HeldChunk> got = host->Fetch(3);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.failure().kind, FailureKind::kDamaged) << got.failure().message;
    ExpectWhole(2, host->Fetch(2));
  }
  // The disk works again: the failure is not remembered.
  Write(bytes_);
  for (const auto& host : hosts_) ExpectWhole(3, host->Fetch(3));
}

TEST_F(SharedReadingTest, WhatIsNotThereOrLeadsElsewhereIsNotGiven) {
  Make(2);
  ShareAll();
  const auto kind = [&](const std::string& file) {
    StoredChunk chunk = Chunk(0);
    chunk.file = file;
    const Result<HeldChunk> got = hosts_[0]->memory->reading().Fetch(chunk);
    return got.ok() ? FailureKind::kExists : got.failure().kind;
  };
  EXPECT_EQ(kind("step-8-g1/shard-00000.safetensors"), FailureKind::kNotFound);
  std::ofstream(storage_.path() + "/secret") << "x";
  for (const char* file : {"secret", "step-7-g1/../secret", "../secret", "/etc/passwd",
                           "step-7-g1/", "/", "step-7-g1/a/b", "other/secret"}) {
    EXPECT_EQ(kind(file), FailureKind::kInvalid) << file;
  }
}

TEST_F(SharedReadingTest, WhoeverStillAsksWhenNobodySharesGetsItFromStorage) {
  Make(2);
  ShareAll();
  ExpectWhole(0, hosts_[0]->Fetch(0));
  OnLoop([&] { hosts_[0]->memory->reading().Set({}, storage_.path()); });
  for (uint64_t index = 0; index < kChunks; ++index) ExpectWhole(index, hosts_[0]->Fetch(index));
}

// ---- the socket for ranks ----

class ChunkServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = ChunkServer::Listen(path_, [](const StoredChunk& chunk) -> Result<HeldChunk> {
      if (chunk.index == 1) return Failure{FailureKind::kDamaged, "it is damaged"};
      auto bytes = std::make_shared<ChunkBytes>(chunk.bytes());
      std::memset(bytes->data.get(), 'x', bytes->size);
      return HeldChunk(std::move(bytes));
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  Fd Dial() const {
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    EXPECT_EQ(0, ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
    return fd;
  }
  static void Say(const Fd& fd, const std::string& text) {
    const auto size = static_cast<uint32_t>(text.size());
    std::string all(reinterpret_cast<const char*>(&size), sizeof(size));
    all += text;
    ::send(fd.get(), all.data(), all.size(), MSG_NOSIGNAL);
  }
  // The end and what follows it; none: the connection was cut.
  static std::string Hear(const Fd& fd, uint32_t* end) {
    uint32_t head[2] = {99, 0};
    if (::recv(fd.get(), head, sizeof(head), MSG_WAITALL) != sizeof(head)) return "";
    *end = head[0];
    std::string text(head[1], '\0');
    ::recv(fd.get(), text.data(), text.size(), MSG_WAITALL);
    return text;
  }

  const TestDir dir_;
  const std::string path_ = dir_.path() + "/chunks";
  std::unique_ptr<ChunkServer> server_;
};

TEST_F(ChunkServerTest, AnswersOneRequestAfterTheOther) {
  const Fd fd = Dial();
  uint32_t end = 99;
  Say(fd, EncodeChunk({"a/b", 5'000'000, 0, 1}));
  EXPECT_EQ(Hear(fd, &end), std::string(kStoredChunkBytes, 'x'));
  EXPECT_EQ(end, 0u);
  Say(fd, EncodeChunk({"a/b", 5'000'000, 1, 1}));
  EXPECT_EQ(Hear(fd, &end), "it is damaged");
  EXPECT_EQ(end, static_cast<uint32_t>(ChunkEnd::kDamaged));
  Say(fd, EncodeChunk({"a/b", 7, 0, 1}));
  EXPECT_EQ(Hear(fd, &end), "xxxxxxx");
}

TEST_F(ChunkServerTest, WhatIsNoRequestEndsItsConnectionAlone) {
  const Fd well = Dial();
  for (const std::string& bad : {std::string(), std::string("short"), std::string(400, 'a'),
                                 EncodeChunk({"a/b", 0, 0, 1}), EncodeChunk({"a/b", 7, 1, 1})}) {
    const Fd fd = Dial();
    Say(fd, bad);
    uint32_t end = 99;
    EXPECT_EQ(Hear(fd, &end), "");
    EXPECT_EQ(end, 99u);
  }
  uint32_t end = 99;
  Say(well, EncodeChunk({"a/b", 7, 0, 1}));
  EXPECT_EQ(Hear(well, &end), "xxxxxxx");
}

TEST_F(ChunkServerTest, EndsWithConnectionsOpen) {
  const Fd idle = Dial();
  const Fd busy = Dial();
  Say(busy, EncodeChunk({"a/b", 5'000'000, 0, 1}));  // and it never reads
  server_.reset();
  EXPECT_NE(0, ::access(path_.c_str(), F_OK));
}

// ---- the cache ----

Result<HeldChunk> Make(size_t bytes) { return HeldChunk(std::make_shared<ChunkBytes>(bytes)); }

TEST(ChunkCache, OneBringsItForAllWhoWait) {
  ChunkCache cache;
  cache.SetBudget(100);
  std::atomic<int> loads = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto got = cache.Get({"a", 10, 0, 1}, ChunkCache::Way::kStorage, [&] {
        ++loads;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return Make(10);
      });
      EXPECT_TRUE(got.ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loads, 1);
}

TEST(ChunkCache, TheLongestUnaskedGoesAndFailuresAreForgotten) {
  ChunkCache cache;
  cache.SetBudget(20);
  int loads = 0;
  const auto get = [&](uint64_t index) {
    return cache.Get({"a", 100'000'000, index, 1}, ChunkCache::Way::kPeer, [&] {
      ++loads;
      return Make(10);
    });
  };
  EXPECT_TRUE(get(0).ok() && get(1).ok() && get(0).ok() && get(2).ok());
  EXPECT_EQ(loads, 3);
  EXPECT_TRUE(get(0).ok());
  EXPECT_EQ(loads, 3) << "it was asked for later than the one that went";
  EXPECT_TRUE(get(1).ok());
  EXPECT_EQ(loads, 4);
  EXPECT_EQ(cache.bytes(), 20u);
  const StoredChunk other{"b", 10, 0, 1};
  const auto fails = [] { return Result<HeldChunk>(Failure{FailureKind::kBusy, "away"}); };
  EXPECT_FALSE(cache.Get(other, ChunkCache::Way::kStorage, fails).ok());
  EXPECT_TRUE(cache.Get(other, ChunkCache::Way::kStorage, [] { return Make(1); }).ok());
  cache.Clear();
  EXPECT_EQ(cache.bytes(), 0u);
}

}  // namespace
}  // namespace paceline::agent

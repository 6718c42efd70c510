// The bulk channel over loopback: transfers and refusals.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/prng.h"
#include "paceline/base/status_macros.h"
#include "paceline/wire/bulk/bulk_client.h"
#include "paceline/wire/bulk/bulk_server.h"

namespace paceline::wire {
namespace {

constexpr Duration kPatience = Duration::Seconds(20);

class BulkTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    token_ = MakeToken();
    const ServerCredentials job =
        GetParam() ? *MakeServerCredentials("job", token_) : ServerCredentials{.token = token_};
    ours_ = *MakeClientCredentials(job, {"a"});
    theirs_ = *MakeClientCredentials(job, {"b"});
    facts_ = {.world_size = 2,
              .file_bytes = 2 * kBulkChunkBytes + 12345,
              .head_bytes = 100,
              .notes_bytes = 777,
              .root = 99,
              .flags = 1,
              .hashes = {1, 2, 3, 4}};
    // As in an arena: the file, then the notes on a new page.
    notes_at_ = (facts_.file_bytes + 4095) / 4096 * 4096;
    bytes_.resize(notes_at_ + facts_.notes_bytes);
    Prng prng(7);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(prng.Below(256));
  }

  void Serve() {
    auto server = BulkServer::Start("127.0.0.1:0", ours_,
                                    [this](const BulkRequest& request) { return Give(request); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = "127.0.0.1:" + std::to_string(server_->port());
  }

  virtual BulkImage Give(const BulkRequest& request) {
    BulkImage image;
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(request);
    }
    if (request.rank == Rank(1)) image.answer.kind = BulkAnswer::Kind::kLater;
    image.answer.why = "for a reason";
    if (request.rank != Rank(0)) return image;
    image.answer.kind = BulkAnswer::Kind::kImage;
    image.answer.why.clear();
    image.answer.facts = facts_;
    image.file = std::span(bytes_).first(facts_.file_bytes);
    image.notes = std::span(bytes_).subspan(notes_at_);
    image.await = await_;
    image.keep = keep_;
    return image;
  }

  absl::StatusOr<std::unique_ptr<BulkClient>> Dial(const Credentials& credentials,
                                                   const std::string& node = "a") {
    auto tls = BulkTls::Make(credentials);
    if (!tls.ok()) return tls.status();
    return BulkClient::Dial({address_, node}, credentials, **tls, kPatience);
  }

  // The image's bytes from that chunk on, or the error.
  absl::StatusOr<std::string> Fetch(BulkClient* client, uint64_t first_chunk = 0) {
    ASSIGN_OR_RETURN(
        const BulkAnswer answer,
        client->Ask({.rank = Rank(0), .place = "a", .saved = {3, 7}, .first_chunk = first_chunk}));
    EXPECT_EQ(answer.facts, facts_);
    std::string text;
    for (size_t chunk = first_chunk; chunk < facts_.hashes.size(); ++chunk) {
      std::string piece(facts_.BytesOf(chunk), '\0');
      RETURN_IF_ERROR(
          client->Read(reinterpret_cast<std::byte*>(piece.data()), piece.size(), kPatience));
      text += piece;
    }
    return text;
  }
  std::string Expected(uint64_t first_chunk = 0) const {
    const auto* from = reinterpret_cast<const char*>(bytes_.data());
    const std::string all =
        std::string(from, facts_.file_bytes) + std::string(from + notes_at_, facts_.notes_bytes);
    return all.substr(std::min(first_chunk * kBulkChunkBytes, facts_.file_bytes));
  }

  std::string token_;
  Credentials ours_;
  Credentials theirs_;
  BulkFacts facts_;
  uint64_t notes_at_ = 0;
  std::vector<std::byte> bytes_;
  std::function<bool(size_t)> await_;
  std::shared_ptr<int> keep_ = std::make_shared<int>(0);
  std::mutex mutex_;  // guards asked_
  std::vector<BulkRequest> asked_;
  std::string address_;
  std::unique_ptr<BulkServer> server_;
};

INSTANTIATE_TEST_SUITE_P(PlainAndTls, BulkTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Tls" : "Plain");
});

TEST_P(BulkTest, AnImageArrivesAsItIs) {
  Serve();
  const auto client = Dial(theirs_);
  ASSERT_TRUE(client.ok()) << client.status();
  for (int i = 0; i < 2; ++i) {
    const auto text = Fetch(client->get());
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_TRUE(*text == Expected()) << "byte for byte";
  }
  EXPECT_EQ(asked_.front().saved, (SavedStep{3, 7}));
  EXPECT_EQ(asked_.front().place, "a");
}

TEST_P(BulkTest, ItGoesOnAtAChunk) {
  Serve();
  const auto client = Dial(theirs_);
  ASSERT_TRUE(client.ok()) << client.status();
  for (const uint64_t first : {1, 2, 3}) {
    const auto text = Fetch(client->get(), first);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_TRUE(*text == Expected(first)) << first;
  }
}

TEST_P(BulkTest, WhatIsNotThereIsSaidWithItsReason) {
  Serve();
  const auto client = Dial(theirs_);
  ASSERT_TRUE(client.ok()) << client.status();
  auto answer = (*client)->Ask({.rank = Rank(2), .place = "a", .saved = {3, 7}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->kind, BulkAnswer::Kind::kNotHere);
  EXPECT_EQ(answer->why, "for a reason");
  answer = (*client)->Ask({.rank = Rank(1), .place = "a", .saved = {3, 7}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->kind, BulkAnswer::Kind::kLater);
  EXPECT_TRUE(Fetch(client->get()).ok()) << "the connection lives on";
}

TEST_P(BulkTest, AnImageThatStopsComingBreaksTheConnection) {
  await_ = [](size_t chunk) { return chunk < 1; };
  Serve();
  const auto client = Dial(theirs_);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(absl::IsUnavailable(Fetch(client->get()).status()));
}

TEST_P(BulkTest, TheImageIsGivenBackWhenItIsSent) {
  Serve();
  auto client = Dial(theirs_);
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(Fetch(client->get()).ok());
  // The server's thread may be slower; its next answer comes after it.
  ASSERT_TRUE((*client)->Ask({.rank = Rank(2), .place = "a", .saved = {3, 7}}).ok());
  EXPECT_EQ(keep_.use_count(), 1);
}

TEST_P(BulkTest, AWrongTokenIsRefusedOnBothSides) {
  Serve();
  Credentials wrong = theirs_;
  wrong.token = MakeToken();
  EXPECT_TRUE(absl::IsPermissionDenied(Dial(wrong).status())) << Dial(wrong).status();
  EXPECT_TRUE(asked_.empty());
  EXPECT_TRUE(Dial(theirs_).ok());
}

TEST_P(BulkTest, NobodyIsAskedBeforeTheProof) {
  Serve();
  // A request instead of the proof, and then random bytes.
  Prng prng(3);
  for (int i = 0; i < 50; ++i) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    auto fd = DialTcp(address_, until);
    ASSERT_TRUE(fd.ok()) << fd.status();
    std::string noise = EncodeBulk(BulkRequest{.rank = Rank(0), .place = "a", .saved = {3, 7}});
    noise.resize(200 + prng.Below(3000), '\xff');
    [[maybe_unused]] const ssize_t sent =
        ::send(fd->get(), noise.data(), noise.size(), MSG_NOSIGNAL);
  }
  EXPECT_TRUE(Dial(theirs_).ok());
  EXPECT_TRUE(asked_.empty());
}

TEST_P(BulkTest, HalfOpenConnectionsDoNotLockTheJobOut) {
  Serve();
  std::vector<Fd> silent;
  for (size_t i = 0; i < 3 * BulkServer::kConnectionsMax; ++i) {
    auto fd = DialTcp(address_, std::chrono::steady_clock::now() + std::chrono::seconds(20));
    ASSERT_TRUE(fd.ok()) << fd.status();
    silent.push_back(*std::move(fd));
  }
  const auto client = Dial(theirs_);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(Fetch(client->get()).ok());
}

TEST_P(BulkTest, TheServerEndsWhileItSends) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_sending = false;
  await_ = [&](size_t) {
    const std::lock_guard lock(mutex);
    is_sending = true;
    changed.notify_all();
    return true;
  };
  Serve();
  const auto client = Dial(theirs_);
  ASSERT_TRUE(client.ok()) << client.status();
  std::thread asking([&] {
    // Requests and does not read, so the server blocks.
    (void)(*client)->Ask({.rank = Rank(0), .place = "a", .saved = {3, 7}});
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_sending; });
  }
  asking.join();
  server_.reset();
  std::string rest(1 << 20, '\0');
  absl::Status read;
  for (int i = 0; i < 64 && read.ok(); ++i) {
    read = (*client)->Read(reinterpret_cast<std::byte*>(rest.data()), rest.size(), kPatience);
  }
  EXPECT_TRUE(absl::IsUnavailable(read)) << read;
}

TEST_P(BulkTest, ACancelledReadEnds) {
  std::promise<void> is_begun;
  std::promise<void> is_cancelled;
  await_ = [&](size_t chunk) {
    if (chunk == 1) {
      is_begun.set_value();
      is_cancelled.get_future().wait();
    }
    return true;
  };
  Serve();
  const auto client = Dial(theirs_);
  ASSERT_TRUE(client.ok()) << client.status();
  std::thread cancelling([&] {
    is_begun.get_future().wait();
    (*client)->Cancel();
    is_cancelled.set_value();
  });
  EXPECT_FALSE(Fetch(client->get()).ok());
  cancelling.join();
  server_.reset();  // uses the promises
}

TEST(Bulk, WithTlsTheCertificateNamesTheNode) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::string token = MakeToken();
  const ServerCredentials job = *MakeServerCredentials("job", token);
  const ServerCredentials other = *MakeServerCredentials("other", token);
  const Credentials a = *MakeClientCredentials(job, {"a"});
  const Credentials b = *MakeClientCredentials(job, {"b", "c"});
  const Credentials stranger = *MakeClientCredentials(other, {"a"});
  auto server = BulkServer::Start("127.0.0.1:0", b, [](const BulkRequest&) { return BulkImage(); });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = "127.0.0.1:" + std::to_string((*server)->port());
  const auto dial = [&](const Credentials& who, const std::string& node) {
    const auto tls = BulkTls::Make(who);
    return BulkClient::Dial({address, node}, who, **tls, kPatience).status();
  };
  EXPECT_TRUE(dial(a, "b").ok());
  EXPECT_TRUE(dial(a, "c").ok());
  EXPECT_TRUE(absl::IsPermissionDenied(dial(a, "a"))) << "another node answers there";
  EXPECT_FALSE(dial(stranger, "b").ok()) << "of another job";
  // Plain TCP to a TLS server, and TLS to a plain one.
  EXPECT_FALSE(dial(Credentials{.token = token}, "b").ok());
}

TEST(Bulk, WithoutCertificatesOnlyLoopbackIsServed) {
  const Credentials plain{.token = MakeToken()};
  const auto open =
      BulkServer::Start("0.0.0.0:0", plain, [](const BulkRequest&) { return BulkImage(); });
  EXPECT_TRUE(absl::IsFailedPrecondition(open.status())) << open.status();
}

TEST(BulkFormat, WhatIsWrittenIsRead) {
  const BulkRequest request{Rank(5), "node-1", true, {9, 1000}, 77, 12};
  const auto again = ParseBulkRequest(EncodeBulk(request).substr(4));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, request);
  BulkRequest chunk;
  chunk.stored = StoredChunk{"step-7-g1/shard-00003.safetensors", 9'000'000, 2, 77};
  const auto asked = ParseBulkRequest(EncodeBulk(chunk).substr(4));
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(*asked, chunk);
  const BulkAnswer answer{BulkAnswer::Kind::kImage, "", {4, 5'000'000, 100, 10, 1, 2, {1, 2, 3}}};
  const auto test = ParseBulkRequest(EncodeBulk(BulkRequest{.is_test = true}).substr(4));
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(*test, BulkRequest{.is_test = true});
  const auto read = ParseBulkAnswer(EncodeBulk(answer).substr(4));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, answer);
}

TEST(BulkFormat, GoldenBytes) {
  const BulkRequest request{Rank(3), "n1", true, {2, 7, 4}, 0x0102030405060708, 1};
  const std::string bytes = EncodeBulk(request);
  const unsigned char expected[] = {50,  0,  0, 0,              // length of what follows
                                    3,   0,  0, 0, 1, 0, 0, 0,  // rank, copy
                                    2,   0,  0, 0, 0, 0, 0, 0,  // generation
                                    7,   0,  0, 0, 0, 0, 0, 0,  // step
                                    4,   0,  0, 0, 0, 0, 0, 0,  // branch
                                    8,   7,  6, 5, 4, 3, 2, 1,  // root
                                    1,   0,  0, 0, 0, 0, 0, 0,  // first chunk
                                    'n', '1'};
  EXPECT_EQ(bytes, std::string(reinterpret_cast<const char*>(expected), sizeof(expected)));
}

TEST(BulkFormat, HostileSizesAreRefusedBeforeAnythingIsAllocated) {
  BulkAnswer answer{BulkAnswer::Kind::kImage, "", {4, 5'000'000, 100, 10, 1, 2, {1, 2, 3}}};
  const auto refused = [](const BulkAnswer& one) {
    return !ParseBulkAnswer(EncodeBulk(one).substr(4)).ok();
  };
  EXPECT_FALSE(refused(answer));
  for (const uint64_t bytes : {UINT64_MAX, UINT64_MAX / 2, kBulkImageBytesMax, uint64_t{0}}) {
    BulkAnswer one = answer;
    one.facts.file_bytes = bytes;
    EXPECT_TRUE(refused(one)) << bytes;
    one = answer;
    one.facts.notes_bytes = bytes;
    EXPECT_TRUE(refused(one)) << bytes;
  }
  answer.facts.head_bytes = answer.facts.file_bytes + 1;
  EXPECT_TRUE(refused(answer));
  for (const char* place : {"", ".", "..", "a/b", "a\n", ".hidden"}) {
    const BulkRequest request{Rank(5), place, true, {9, 1000}, 77, 12};
    EXPECT_FALSE(ParseBulkRequest(EncodeBulk(request).substr(4)).ok()) << place;
  }
  // A chunk beyond the file's size; a file without a name, or with too long a name.
  for (const StoredChunk& chunk :
       {StoredChunk{"a/b", 0, 0, 1}, StoredChunk{"a/b", 4 << 20, 1, 1},
        StoredChunk{"a/b", UINT64_MAX, 0, 1}, StoredChunk{"a/b", 1, UINT64_MAX, 1},
        StoredChunk{"", 1, 0, 1}, StoredChunk{std::string(400, 'a'), 1, 0, 1}}) {
    BulkRequest request;
    request.stored = chunk;
    EXPECT_FALSE(ParseBulkRequest(EncodeBulk(request).substr(4)).ok()) << chunk.file;
  }
}

}  // namespace
}  // namespace paceline::wire

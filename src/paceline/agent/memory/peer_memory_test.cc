// Hosts that exchange images over loopback. A host here is a shelf in its own folder, so no host
// can read another one's arenas.

#include "paceline/agent/memory/peer_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/base/test_dir.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/image/save.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::agent {
namespace {

constexpr uint64_t kTensorBytes = 2 * ckpt::kChunkBytes + 1'000'003;
constexpr int64_t kPatienceNs = 60'000'000'000;

class PeerMemoryTest : public testing::Test {
 protected:
  struct Host {
    Host(PeerMemoryTest* fixture, std::string node_name)
        : test(fixture),
          name(std::move(node_name)),
          shelf({dir.path() + "/user/job"}, "job", "boot-" + name) {
      test->OnLoop([&] {
        auto made = PeerMemory::Start(*test->reactor_, &shelf,
                                      {name, "127.0.0.1", test->credentials_}, [] {});
        EXPECT_TRUE(made.ok()) << made.status();
        memory = *std::move(made);
      });
    }
    ~Host() { End(); }
    FetchOrder::Source AsSaver() const { return {name, memory->address(), name, false}; }
    FetchOrder::Source AsHolder() const { return {name, memory->address(), name, true}; }
    void Take(const std::vector<FetchOrder>& orders, bool drop_others = false,
              const std::string& directory = "") {
      test->OnLoop([&] { memory->Take(orders, drop_others, directory); });
    }
    bool Has(uint32_t rank, int64_t step) {
      bool has = false;
      test->OnLoop([&] { has = memory->Has(Rank(rank), {1, step}); });
      return has;
    }
    std::vector<FetchFailure> Failures() {
      std::vector<FetchFailure> failures;
      test->OnLoop([&] { failures = memory->Failures(); });
      return failures;
    }
    void End() {
      test->OnLoop([&] { memory.reset(); });
      test->OnLoop([] {});  // runs what its threads had posted
    }

    PeerMemoryTest* const test;
    const std::string name;
    const TestDir dir{TestDir::InMemory()};
    ArenaShelf shelf;
    std::unique_ptr<PeerMemory> memory;
  };

  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    reactor_ = *Reactor::Create();
    credentials_.token = wire::MakeToken();
    loop_ = std::thread([this] { reactor_->Run(); });
  }
  void TearDown() override {
    reactor_->Post([this] { reactor_->Stop(); });
    loop_.join();
  }

  // Runs `work` on the loop's thread, as an agent would, and waits for it.
  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    reactor_->Post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  // A rank of that host saves. Each step has other bytes.
  void Save(Host* host, uint32_t rank, int64_t step) {
    const ckpt::Image layout = *ckpt::LayOut(
        {{.key = "w", .dtype = ckpt::DType::kU8, .shape = {kTensorBytes}, .offset = {0}}}, {});
    std::vector<std::byte> bytes(kTensorBytes);
    Prng prng(static_cast<uint64_t>(step) * 100 + rank);
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      const uint64_t number = prng.Next();
      std::memcpy(bytes.data() + i, &number, 8);
    }
    const std::vector<const void*> sources = {bytes.data()};
    const ArenaShelf::Place place{host->name, rank, false};
    ASSERT_TRUE(host->shelf.Prepare(place).ok());
    auto arena =
        ckpt::Arena::OpenOrMake(host->shelf.PathOf(place), {"job", "boot-" + host->name, rank},
                                {kTensorBytes + (1 << 20), 3});
    ASSERT_TRUE(arena.ok()) << arena.failure().message;
    for (const uint32_t slot : {0, 1, 2}) ASSERT_TRUE((*arena)->Reserve(slot).ok());
    const std::string notes = "{\"step\":" + std::to_string(step) + "}";
    ASSERT_TRUE(ckpt::Save(arena->get(), layout, sources,
                           {.saved = {1, step}, .world_size = 2, .notes = notes})
                    .ok());
    OnLoop([&] { host->shelf.Refresh(); });
  }

  MemoryImage ImageOf(const Host& host, uint32_t rank, int64_t step, bool is_copy) const {
    for (const MemoryImage& image : host.shelf.Images()) {
      if (image.rank == Rank(rank) && image.saved.step == step && image.is_copy == is_copy) {
        return image;
      }
    }
    return {};
  }
  FetchOrder OrderFor(const Host& saver, uint32_t rank, int64_t step,
                      std::vector<FetchOrder::Source> sources) const {
    return {.rank = Rank(rank),
            .saved = {1, step},
            .root = ImageOf(saver, rank, step, false).root,
            .name = "",
            .sources = std::move(sources),
            .is_urgent = true};
  }

  void RunUntil(const std::function<bool()>& holds) {
    const int64_t end = MonotonicNs() + kPatienceNs;
    while (!holds()) {
      ASSERT_LT(MonotonicNs(), end);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  // The copy must equal the saved image byte for byte.
  static void ExpectEqual(const Host& a, bool a_is_copy, const Host& b, uint32_t rank,
                          int64_t step) {
    const auto find = [&](const Host& host, bool is_copy) {
      const auto arena = host.shelf.Find({host.name, rank, is_copy});
      EXPECT_NE(arena, nullptr);
      for (const ArenaImage& image : arena->Sealed()) {
        if (image.step != step) continue;
        const auto file = arena->FileOf(image);
        const auto notes = arena->NotesOf(image);
        return std::pair(std::vector<std::byte>(file.begin(), file.end()),
                         std::vector<std::byte>(notes.begin(), notes.end()));
      }
      ADD_FAILURE() << "step " << step << " is not at " << host.name;
      return std::pair<std::vector<std::byte>, std::vector<std::byte>>();
    };
    EXPECT_TRUE(find(a, a_is_copy) == find(b, true));
  }

  std::unique_ptr<Reactor> reactor_;
  wire::Credentials credentials_;
  std::thread loop_;
};

// Sends an image of `host` up to a chunk and then hangs. Records the requests.
class BreakingServer {
 public:
  BreakingServer(const wire::Credentials& credentials, std::shared_ptr<const ImageClaim> claim,
                 size_t chunks)
      : claim_(std::move(claim)), chunks_(chunks) {
    server_ = *wire::BulkServer::Start(
        "127.0.0.1:0", credentials,
        [this](const wire::BulkRequest& request) { return Give(request); });
  }
  FetchOrder::Source Source() const {
    return {"breaking", "127.0.0.1:" + std::to_string(server_->port()), "breaking", false};
  }
  int asked() const { return asked_; }

 private:
  wire::BulkImage Give(const wire::BulkRequest& request) {
    ++asked_;
    const ckpt::Arena& arena = *claim_->arena;
    const ArenaImage& image = claim_->image;
    wire::BulkImage given;
    given.answer.kind = wire::BulkAnswer::Kind::kImage;
    given.answer.facts = {.world_size = image.world_size,
                          .file_bytes = image.file_bytes,
                          .head_bytes = image.head_bytes,
                          .notes_bytes = image.notes_bytes,
                          .root = image.root,
                          .flags = image.flags,
                          .hashes = arena.FileHashesOf(image)};
    for (const uint64_t hash : arena.NotesHashesOf(image)) {
      given.answer.facts.hashes.push_back(hash);
    }
    given.file = arena.FileOf(image);
    given.notes = arena.NotesOf(image);
    given.await = [end = request.first_chunk + chunks_](size_t chunk) { return chunk < end; };
    return given;
  }

  const std::shared_ptr<const ImageClaim> claim_;
  const size_t chunks_;
  std::atomic<int> asked_ = 0;
  std::unique_ptr<wire::BulkServer> server_;
};

TEST_F(PeerMemoryTest, AnImageIsFetchedAsItWasSaved) {
  Host a(this, "a");
  Host b(this, "b");
  Save(&a, 3, 7);
  b.Take({OrderFor(a, 3, 7, {a.AsSaver()})});
  RunUntil([&] { return b.Has(3, 7); });
  ExpectEqual(a, false, b, 3, 7);
  const MemoryImage copy = ImageOf(b, 3, 7, true);
  EXPECT_EQ(copy.root, ImageOf(a, 3, 7, false).root);
  EXPECT_EQ(copy.place, "b");
  EXPECT_EQ(copy.world_size, 2u);
  EXPECT_TRUE(b.Failures().empty());
}

TEST_F(PeerMemoryTest, ACopyIsGivenOn) {
  Host a(this, "a");
  Host b(this, "b");
  Host c(this, "c");
  Save(&a, 3, 7);
  const FetchOrder order = OrderFor(a, 3, 7, {a.AsSaver()});
  // c must take it from b, which is still fetching, and gets each chunk as b has it.
  FetchOrder second = order;
  second.sources = {b.AsHolder()};
  b.Take({order});
  c.Take({second});
  RunUntil([&] { return c.Has(3, 7); });
  ExpectEqual(a, false, c, 3, 7);
}

// The source dies during a fetch. The next source continues at that chunk.
TEST_F(PeerMemoryTest, AnotherSourceGoesOnWhereTheFirstBrokeOff) {
  Host a(this, "a");
  Host b(this, "b");
  Save(&a, 3, 7);
  const auto claim = a.shelf.Claim({"a", 3, false}, {1, 7});
  BreakingServer first(credentials_, claim, 1);
  BreakingServer second(credentials_, claim, 1);
  b.Take({OrderFor(a, 3, 7, {first.Source(), second.Source()})});
  RunUntil([&] { return b.Has(3, 7); });
  ExpectEqual(a, false, b, 3, 7);
  EXPECT_GE(first.asked() + second.asked(), 4) << "a chunk from each in turn";
}

TEST_F(PeerMemoryTest, ADamagedChunkComesFromAnotherSource) {
  Host a(this, "a");
  Host b(this, "b");
  Host c(this, "c");
  Save(&a, 3, 7);
  const FetchOrder order = OrderFor(a, 3, 7, {a.AsSaver()});
  b.Take({order});
  RunUntil([&] { return b.Has(3, 7); });
  // Flips a bit in a's memory.
  const auto arena = a.shelf.Find({"a", 3, false});
  arena->image(arena->Sealed().front().slot)[ckpt::kChunkBytes + 5] ^= std::byte{4};
  FetchOrder both = order;
  both.sources = {a.AsSaver(), b.AsHolder()};
  c.Take({both});
  RunUntil([&] { return c.Has(3, 7); });
  ExpectEqual(b, true, c, 3, 7);
  // From a alone the fetch fails, and nothing of it becomes visible.
  Host d(this, "d");
  d.Take({order});
  RunUntil([&] { return !d.Failures().empty(); });
  EXPECT_FALSE(d.Has(3, 7));
  EXPECT_NE(d.Failures()[0].problem.find("came damaged"), std::string::npos);
}

// The fetching host dies. The copy before stays.
TEST_F(PeerMemoryTest, AFetchThatBreaksOffLeavesTheCopyBeforeIt) {
  Host a(this, "a");
  Host b(this, "b");
  Save(&a, 3, 7);
  b.Take({OrderFor(a, 3, 7, {a.AsSaver()})});
  RunUntil([&] { return b.Has(3, 7); });
  Save(&a, 3, 8);
  BreakingServer breaking(credentials_, a.shelf.Claim({"a", 3, false}, {1, 8}), 0);
  b.Take({OrderFor(a, 3, 8, {breaking.Source()})});
  RunUntil([&] { return !b.Failures().empty(); });
  EXPECT_FALSE(b.Has(3, 8));
  ExpectEqual(a, false, b, 3, 7);
  // A later fetch works, and a third step replaces the first.
  b.Take({OrderFor(a, 3, 8, {a.AsSaver()})});
  RunUntil([&] { return b.Has(3, 8); });
  EXPECT_TRUE(b.Has(3, 7)) << "two slots";
  Save(&a, 3, 9);
  b.Take({OrderFor(a, 3, 9, {a.AsSaver()})});
  RunUntil([&] { return b.Has(3, 9); });
  EXPECT_FALSE(b.Has(3, 7));
  ExpectEqual(a, false, b, 3, 8);
}

TEST_F(PeerMemoryTest, WhatIsGivenIsNotOverwrittenMeanwhile) {
  Host a(this, "a");
  Save(&a, 3, 7);
  const auto first = a.shelf.Claim({"a", 3, false}, {1, 7});
  const auto second = a.shelf.Claim({"a", 3, false}, {1, 7});
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr) << "several may read it";
  for (int64_t step = 8; step < 14; ++step) Save(&a, 3, step);
  EXPECT_EQ(ImageOf(a, 3, 7, false).saved.step, 7);
  EXPECT_EQ(a.shelf.Claim({"a", 3, false}, {1, 9}), nullptr) << "that one is gone";
}

TEST_F(PeerMemoryTest, CopiesThatNobodyWantsGo) {
  Host a(this, "a");
  Host b(this, "b");
  Save(&a, 3, 7);
  Save(&a, 4, 7);
  b.Take({OrderFor(a, 3, 7, {a.AsSaver()}), OrderFor(a, 4, 7, {a.AsSaver()})});
  RunUntil([&] { return b.Has(3, 7) && b.Has(4, 7); });
  b.Take({});
  EXPECT_TRUE(b.Has(3, 7)) << "nobody said that it may go";
  b.Take({OrderFor(a, 4, 7, {a.AsSaver()})}, true);
  EXPECT_FALSE(b.Has(3, 7));
  EXPECT_TRUE(b.Has(4, 7));
}

TEST_F(PeerMemoryTest, OneHostReadsStorageForTheOther) {
  Host a(this, "a");
  Host b(this, "b");
  Host c(this, "c");
  Save(&a, 0, 7);
  const TestDir storage;
  const auto claim = a.shelf.Claim({"a", 0, false}, {1, 7});
  const ckpt::Arena& arena = *claim->arena;
  const std::unique_ptr<ckpt::Store> store = ckpt::MakePosixStore(storage.path());
  ckpt::MemorySource file(arena.FileOf(claim->image));
  ckpt::MemorySource notes(arena.NotesOf(claim->image));
  ASSERT_TRUE(ckpt::WriteShard(
                  store.get(),
                  {.name = "step-7-g1", .job_id = "job", .saved = {1, 7}, .rank = 0, .file_of = 0},
                  {.file = &file,
                   .file_hashes = arena.FileHashesOf(claim->image),
                   .notes = &notes,
                   .notes_hashes = arena.NotesHashesOf(claim->image)},
                  nullptr)
                  .ok());
  ASSERT_TRUE(ckpt::Commit(store.get(), {.order = {.saved = {1, 7},
                                                   .world_size = 1,
                                                   .name = "step-7-g1",
                                                   .shards = {{Rank(0), Rank(0)}}},
                                         .job_id = "job"})
                  .ok());
  FetchOrder order{.rank = Rank(0),
                   .saved = {1, 7},
                   .root = 0,
                   .name = "step-7-g1",
                   .sources = {{}},
                   .is_urgent = true};
  b.Take({order}, false, storage.path());
  RunUntil([&] { return b.Has(0, 7); });
  ExpectEqual(a, false, b, 0, 7);
  // c cannot read storage.
  order.sources = {b.AsHolder(), {}};
  c.Take({order}, false, "/nowhere");
  RunUntil([&] { return c.Has(0, 7); });
  ExpectEqual(a, false, c, 0, 7);
}

TEST_F(PeerMemoryTest, AnEndInTheMiddleDoesNotWaitForAnybody) {
  Host a(this, "a");
  Host b(this, "b");
  Save(&a, 3, 7);
  // One source has no listener any more, the other one hangs.
  BreakingServer breaking(credentials_, a.shelf.Claim({"a", 3, false}, {1, 7}), 1);
  b.Take({OrderFor(a, 3, 7, {breaking.Source(), breaking.Source()})});
  const int64_t began = MonotonicNs();
  b.End();
  EXPECT_LT(MonotonicNs() - began, kPatienceNs / 2);
}

TEST_F(PeerMemoryTest, WithoutRoomNothingIsMade) {
  const TestDir dir(TestDir::InMemory());
  const FetchOrder order{.rank = Rank(0), .saved = {1, 7}};
  IncomingImage incoming({dir.path() + "/rank-0.copy",
                          {"job", "boot", 0},
                          [](uint64_t) { return std::string("there is none"); }},
                         order);
  std::vector<uint64_t> hashes = {1, 2};
  const wire::BulkFacts facts{.world_size = 1,
                              .file_bytes = 100,
                              .notes_bytes = 10,
                              .root = ckpt::HashOf(hashes.data(), 16),
                              .hashes = hashes};
  const Result<void> begun = incoming.Begin(facts);
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.failure().kind, FailureKind::kFull);
  EXPECT_EQ(begun.failure().message, "there is none");
  wire::BulkFacts wrong = facts;
  wrong.root ^= 1;
  EXPECT_EQ(incoming.Begin(wrong).failure().kind, FailureKind::kDamaged);
  EXPECT_NE(::access((dir.path() + "/rank-0.copy").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace paceline::agent

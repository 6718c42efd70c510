#include "paceline/client/lease_reader.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "paceline/base/test_dir.h"

namespace paceline::client {
namespace {

using What = LeaseReader::What;
constexpr Duration kPatience = Duration::Seconds(20);

LeaseOpen OpenOf(uint64_t ordinals) {
  return {.name = "train", .terms = "{}", .ordinals = ordinals, .lease_max = 10, .lease_first = 10};
}

std::unique_ptr<LeaseReader> Alone(LeaseOpen open) {
  auto reader = LeaseReader::Open({.open = std::move(open)});
  EXPECT_TRUE(reader.ok());
  return *std::move(reader);
}

// Takes and acknowledges until nothing is left. Returns how often each ordinal was done.
std::vector<int> Drain(LeaseReader* reader, uint64_t ordinals) {
  std::vector<int> counts(ordinals);
  for (;;) {
    const LeaseReader::Taken taken = reader->Take(kPatience, /*is_patient=*/true);
    if (taken.what != What::kLease) {
      EXPECT_EQ(taken.what, What::kComplete);
      return counts;
    }
    for (uint64_t i = taken.range.begin; i < taken.range.end; ++i) {
      if (reader->Ack(taken.lease, i + 1)) ++counts[i];
    }
  }
}

TEST(LeaseReaderTest, AloneItHasALedgerOfItsOwn) {
  const auto reader = Alone(OpenOf(100));
  EXPECT_EQ(Drain(reader.get(), 100), std::vector<int>(100, 1));
  EXPECT_EQ(reader->Flush(kPatience).what, What::kComplete);
}

TEST(LeaseReaderTest, WhoCannotWaitIsToldWhenAllIsTaken) {
  const auto reader = Alone(OpenOf(10));
  const LeaseReader::Taken first = reader->Take(kPatience, true);
  std::vector<LeaseReader::Taken> taken = {first};
  LeaseReader::Taken last;
  while ((last = reader->Take(kPatience, false)).what == What::kLease) taken.push_back(last);
  EXPECT_EQ(last.what, What::kWait);
  for (const LeaseReader::Taken& one : taken) reader->Ack(one.lease, one.range.end);
  EXPECT_EQ(reader->Take(kPatience, false).what, What::kComplete);
}

TEST(LeaseReaderTest, WhatFailsOftenIsInQuarantineAndNamed) {
  const auto reader = Alone(OpenOf(30));
  for (;;) {
    const LeaseReader::Taken taken = reader->Take(kPatience, true);
    if (taken.what == What::kComplete) {
      EXPECT_EQ(taken.text, "17");
      return;
    }
    ASSERT_EQ(taken.what, What::kLease);
    if (taken.range.begin <= 17 && 17 < taken.range.end) {
      reader->Ack(taken.lease, 17);
      reader->Fail(taken.lease, {17, 18});
    } else {
      reader->Ack(taken.lease, taken.range.end);
    }
  }
}

TEST(LeaseReaderTest, APositionIsMarkedAndReturnedToAlsoInAnotherProcess) {
  LeaseOpen open = OpenOf(100);
  open.follows_checkpoints = true;
  auto reader = Alone(open);
  LeaseReader::Taken taken = reader->Take(kPatience, true);
  reader->Ack(taken.lease, 4);
  const LeaseReader::Taken marked = reader->Mark(3, kPatience);
  ASSERT_EQ(marked.what, What::kComplete);
  const std::string ranges = reader->PositionText(marked.text);
  EXPECT_EQ(ranges, "0-3");
  reader->Ack(taken.lease, 9);
  EXPECT_EQ(reader->Rewind(marked.text, kPatience).what, What::kComplete);
  EXPECT_FALSE(reader->Ack(taken.lease, 10)) << "a lease of the past";
  EXPECT_EQ(reader->Take(kPatience, true).range.begin, 4u);

  reader = Alone(open);
  reader->AddPosition(marked.text, ranges);
  EXPECT_EQ(reader->Rewind(marked.text, kPatience).what, What::kComplete);
  const std::vector<int> counts = Drain(reader.get(), 100);
  EXPECT_EQ(counts[3], 0);
  EXPECT_EQ(counts[4], 1);
}

TEST(LeaseReaderTest, AnUnknownPositionIsRefusedInFourParts) {
  LeaseOpen open = OpenOf(100);
  open.follows_checkpoints = true;
  const auto reader = Alone(open);
  const LeaseReader::Taken refused = reader->Rewind("g9.0.s1", kPatience);
  EXPECT_EQ(refused.what, What::kRefused);
  EXPECT_NE(refused.text.find("does not know this position"), std::string::npos);
}

// Agent and master in one: a ledger behind a Unix socket that may die after any fact.
class Ledger {
 public:
  explicit Ledger(std::string path) : path_(std::move(path)) { Start(0); }
  ~Ledger() { Stop(); }

  void Stop() {
    is_ending_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // The next master has all facts but the last `lost`.
  void Restart(size_t lost) {
    Stop();
    facts_.resize(facts_.size() - std::min(lost, facts_.size()));
    Start(lost);
  }
  // The same master, for new connections.
  void Resume() {
    Stop();
    Listen();
  }
  std::vector<LeaseFact> facts() const { return facts_; }  // only while it is stopped

 private:
  void Start(size_t) {
    book_ = LeaseBook();
    for (const LeaseFact& fact : facts_) book_.Restore(fact);
    LeaseActions boot;
    book_.Boot(book_.first_lease() + 1'000, &boot);
    facts_.insert(facts_.end(), boot.facts.begin(), boot.facts.end());
    Listen();
  }
  void Listen() {
    is_ending_ = false;
    ::unlink(path_.c_str());
    listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] { Run(); });
  }
  void Run() {
    std::map<uint32_t, std::pair<Fd, std::string>> peers;
    uint32_t next = 1;
    while (!is_ending_) {
      std::vector<pollfd> waits = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
      for (const auto& [id, peer] : peers) {
        waits.push_back({.fd = peer.first.get(), .events = POLLIN, .revents = 0});
      }
      ::poll(waits.data(), waits.size(), 1);
      Fd fresh(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (fresh.is_open()) peers[next++].first = std::move(fresh);
      for (auto& [id, peer] : peers) Serve(id, &peer.first, &peer.second);
    }
  }
  void Serve(uint32_t id, Fd* fd, std::string* unread) {
    char bytes[4096];
    const ssize_t got = ::recv(fd->get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0) return;
    unread->append(bytes, static_cast<size_t>(got));
    std::vector<LeaseFrame> frames;
    unread->erase(0, TakeFrames(*unread, &frames).value_or(0));
    for (const LeaseFrame& frame : frames) {
      LeaseActions actions;
      book_.Handle(Instant(), {1, id}, frame, &actions);
      facts_.insert(facts_.end(), actions.facts.begin(), actions.facts.end());
      std::string out;
      for (const LeaseAnswer& answer : actions.answers) AppendFrame(answer.frame, &out);
      [[maybe_unused]] const ssize_t sent = ::send(fd->get(), out.data(), out.size(), MSG_NOSIGNAL);
    }
  }

  const std::string path_;
  std::vector<LeaseFact> facts_;
  LeaseBook book_;
  Fd listener_;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

TEST(LeaseReaderTest, OverManyRestartsEachOrdinalIsAcknowledgedOnce) {
  constexpr uint64_t kOrdinals = 500;
  TestDir dir;
  Ledger ledger(dir.path() + "/socket");
  auto opened = LeaseReader::Open({.open = OpenOf(kOrdinals), .socket = dir.path() + "/socket"});
  ASSERT_TRUE(opened.ok());
  LeaseReader& reader = **opened;
  int leases = 0;
  for (;;) {
    const LeaseReader::Taken taken = reader.Take(kPatience, /*is_patient=*/true);
    if (taken.what == What::kComplete) break;
    ASSERT_EQ(taken.what, What::kLease);
    for (uint64_t i = taken.range.begin; i < taken.range.end; ++i) {
      reader.Ack(taken.lease, i + 1);
      if (i % 10 == 5 && ++leases % 5 == 0) ledger.Restart(0);
    }
  }
  EXPECT_EQ(reader.Flush(kPatience).what, What::kComplete);
  ledger.Stop();
  std::vector<int> counts(kOrdinals);
  for (const LeaseFact& fact : ledger.facts()) {
    if (fact.kind != LeaseFact::Kind::kAcked) continue;
    for (uint64_t i = fact.begin; i < fact.end; ++i) ++counts[i];
  }
  EXPECT_EQ(counts, std::vector<int>(kOrdinals, 1));
  EXPECT_GT(reader.counters().resets, 3u);
  EXPECT_EQ(reader.counters().stale, 0u) << "what it held it kept";
}

LeaseOpen LiveOf() {
  LeaseOpen open = OpenOf(kSamplesMax);
  open.is_stream = true;
  return open;
}

TEST(LeaseReaderTest, ALaterRunOfAStreamIsToldThatItHasBegun) {
  TestDir dir;
  Ledger ledger(dir.path() + "/socket");
  const LeaseReaderOptions options{.open = LiveOf(), .socket = dir.path() + "/socket"};
  {
    auto first = LeaseReader::Open(options);
    ASSERT_TRUE(first.ok());
    const LeaseReader::Taken known = (*first)->Known(kPatience);
    EXPECT_EQ(known.what, What::kComplete);
    EXPECT_EQ(known.range.end, 0u);
    (*first)->Found("a", 3, 3);
    (*first)->Found("b", 0, 0);
    EXPECT_EQ((*first)->Take(kPatience, true).what, What::kLease);
    EXPECT_EQ((*first)->Known(kPatience).range.end, 0u) << "it is in the first run still";
  }
  ledger.Restart(0);
  LeaseReaderOptions later = options;
  ++later.open.incarnation;
  auto second = LeaseReader::Open(later);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->Known(kPatience).range.end, 2u);
  ledger.Stop();
}

TEST(LeaseReaderTest, AGapIsToldToTheNextMasterBeforeTheAckThatCoversIt) {
  TestDir dir;
  Ledger ledger(dir.path() + "/socket");
  auto opened = LeaseReader::Open({.open = LiveOf(), .socket = dir.path() + "/socket"});
  ASSERT_TRUE(opened.ok());
  LeaseReader& reader = **opened;
  reader.Found("a", 0, 0);
  const LeaseReader::Taken taken = reader.Take(kPatience, true);
  ASSERT_EQ(taken.what, What::kLease);
  ledger.Stop();
  reader.Gap(taken.lease, {2, 4}, /*is_refused=*/false, "eaten");
  EXPECT_TRUE(reader.Ack(taken.lease, 5));
  ledger.Restart(0);
  EXPECT_EQ(reader.Flush(kPatience).what, What::kComplete);
  ledger.Stop();
  std::vector<LeaseFact::Kind> kinds;
  for (const LeaseFact& fact : ledger.facts()) {
    if (fact.kind != LeaseFact::Kind::kGap && fact.kind != LeaseFact::Kind::kAcked) continue;
    kinds.push_back(fact.kind);
    EXPECT_EQ(fact.begin, fact.kind == LeaseFact::Kind::kGap ? 2u : 0u);
    EXPECT_EQ(fact.end, fact.kind == LeaseFact::Kind::kGap ? 4u : 5u);
  }
  EXPECT_EQ(kinds, std::vector({LeaseFact::Kind::kGap, LeaseFact::Kind::kAcked}));
}

TEST(LeaseReaderTest, ALeaseThatWasGivenBackIsReturnedAgainAfterAReconnect) {
  TestDir dir;
  Ledger ledger(dir.path() + "/socket");
  auto opened = LeaseReader::Open({.open = LiveOf(), .socket = dir.path() + "/socket", .ahead = 0});
  ASSERT_TRUE(opened.ok());
  LeaseReader& reader = **opened;
  reader.Found("a", 0, 0);
  const LeaseReader::Taken taken = reader.Take(kPatience, true);
  ASSERT_EQ(taken.what, What::kLease);
  ledger.Stop();
  EXPECT_TRUE(reader.Ack(taken.lease, 3));
  reader.GiveBack(taken.lease);
  EXPECT_FALSE(reader.Ack(taken.lease, 4)) << "another worker may count it";
  ledger.Resume();
  const LeaseReader::Taken next = reader.Take(kPatience, true);
  ASSERT_EQ(next.what, What::kLease);
  EXPECT_NE(next.lease, taken.lease);
  EXPECT_EQ(next.range.begin, 3u);
}

TEST(LeaseReaderTest, TermsThatFitInNoFrameAreRefused) {
  TestDir dir;
  const Ledger ledger(dir.path() + "/socket");
  LeaseOpen open = OpenOf(10);
  open.terms = std::string(70'000, 'a');
  auto opened = LeaseReader::Open({.open = open, .socket = dir.path() + "/socket"});
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->Take(kPatience, /*is_patient=*/true).what, What::kRefused);
}

}  // namespace
}  // namespace paceline::client

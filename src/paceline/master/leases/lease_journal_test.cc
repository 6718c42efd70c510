#include "paceline/master/leases/lease_journal.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "paceline/base/test_dir.h"
#include "paceline/master/journal/journal_file.h"
#include "paceline/master/leases/lease_host.h"
#include "paceline/wire/bulk/lease_socket.h"
#include "sqlite3.h"

namespace paceline::master {
namespace {

using Kind = LeaseFact::Kind;

LeaseFact Opened() { return {.kind = Kind::kOpened, .set = 1, .end = 100, .text = "train\n{}"}; }
LeaseFact Acked(uint64_t begin, uint64_t end, uint64_t lease = 7) {
  return {.kind = Kind::kAcked,
          .set = 1,
          .worker = {.worker = 1, .incarnation = 2},
          .lease = lease,
          .begin = begin,
          .end = end};
}

class LeaseJournalTest : public testing::Test {
 protected:
  std::unique_ptr<LeaseJournal> Open(StoredLeases* stored) {
    auto journal = LeaseJournal::Open({.path = path_,
                                       .retry_after = Duration::Milliseconds(1),
                                       .history_max = 10,
                                       .refuses = [this] { return refuses_.load(); }},
                                      stored);
    EXPECT_TRUE(journal.ok()) << journal.status();
    return *std::move(journal);
  }
  void Start(LeaseJournal* journal) {
    journal->Start({.durable =
                        [this](uint64_t count) {
                          const std::lock_guard lock(mutex_);
                          durable_ = count;
                          changed_.notify_all();
                        },
                    .failed =
                        [this](const std::string&) {
                          const std::lock_guard lock(mutex_);
                          ++failures_;
                          changed_.notify_all();
                        }});
  }
  template <class Done>
  void Await(Done done) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, done);
  }

  TestDir dir_;
  std::string path_ = dir_.path() + "/data.db";
  std::atomic<bool> refuses_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t durable_ = 0;
  uint64_t failures_ = 0;
};

TEST_F(LeaseJournalTest, FactsComeBackInOrder) {
  StoredLeases stored;
  auto journal = Open(&stored);
  ASSERT_TRUE(journal->AppendNow({Opened()}).ok());
  Start(journal.get());
  journal->Append({Acked(0, 10), Acked(10, 20)});
  Await([this] { return durable_ == 3; });
  journal.reset();
  StoredLeases again;
  journal = Open(&again);
  EXPECT_EQ(again.facts, (std::vector<LeaseFact>{Opened(), Acked(0, 10), Acked(10, 20)}));
  EXPECT_TRUE(again.summary.empty());
}

TEST_F(LeaseJournalTest, ASummaryReplacesWhatIsFoldedAndHistoryIsBounded) {
  StoredLeases stored;
  auto journal = Open(&stored);
  Start(journal.get());
  journal->Append({Opened()});
  for (uint64_t i = 0; i < 50; ++i) journal->Append({Acked(i, i + 1, i)});
  journal->Summarize({Opened(), {.kind = Kind::kDone, .set = 1, .end = 50}});
  journal->Append({Acked(50, 60)});
  journal.reset();
  StoredLeases again;
  journal = Open(&again);
  EXPECT_EQ(again.summary.size(), 2u);
  EXPECT_EQ(again.facts, (std::vector<LeaseFact>{Acked(50, 60)}));
  EXPECT_EQ(again.before.size(), 51u) << "for what may be presented";
  const LeaseBook book = FoldLeases(again);
  EXPECT_EQ(book.Views().front().done, 60u);
}

TEST_F(LeaseJournalTest, ADiskThatRefusesLosesNothing) {
  StoredLeases stored;
  auto journal = Open(&stored);
  Start(journal.get());
  refuses_ = true;
  journal->Append({Opened(), Acked(0, 10)});
  Await([this] { return failures_ >= 2; });
  EXPECT_EQ(durable_, 0u) << "nothing is promised early";
  journal->Append({Acked(10, 20)});
  refuses_ = false;
  Await([this] { return durable_ == 3; });
}

TEST_F(LeaseJournalTest, ADamagedRowIsRefused) {
  StoredLeases stored;
  auto journal = Open(&stored);
  ASSERT_TRUE(journal->AppendNow({Acked(10, 10)}).ok());  // there is no such ack
  journal.reset();
  EXPECT_EQ(LeaseJournal::Open({.path = path_}, &stored).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(LeaseJournalTest, ALaterSchemaIsRefusedByCommandsToo) {
  StoredLeases stored;
  Open(&stored).reset();
  ASSERT_TRUE(ReadLeases(path_).ok());
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  EXPECT_TRUE(Execute(db, path_, "PRAGMA user_version = 99").ok());
  sqlite3_close(db);
  EXPECT_EQ(ReadLeases(path_).status().code(), absl::StatusCode::kFailedPrecondition);
}

// A worker with the real channel and the real file. It pings on a thread of its own: the host cuts
// a link that is silent for a second, and the test's thread may stand still for longer.
class Worker {
 public:
  Worker(const LeaseHost& host, const std::string& token, uint64_t rank,
         LeaseOp expected = LeaseOp::kOpened) {
    const LeaseOpen open{.name = "train",
                         .terms = "{}",
                         .ordinals = 100,
                         .rank = rank,
                         .world_size = 2,
                         .incarnation = 1,
                         .lease_max = 10,
                         .lease_first = 10};
    do {  // as an agent whose link was cut before its first word
      Dial(host, token);
      opened_ = Ask({.op = LeaseOp::kOpen, .text = EncodeOpen(open)});
    } while (is_cut_);
    EXPECT_EQ(opened_.op, expected);
  }
  const LeaseFrame& opened() const { return opened_; }
  LeaseFrame Ask(const LeaseFrame& frame) {
    Say(frame);
    return Hear();
  }
  void Say(const LeaseFrame& frame) {
    const std::lock_guard lock(mutex_);
    socket_->Add(frame);
    socket_->Flush().IgnoreError();  // a link that was cut gives no answer
  }
  LeaseFrame Hear() {
    while (heard_.empty()) {
      pollfd wait = {.fd = socket_->fd(), .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, -1);
      const std::lock_guard lock(mutex_);
      is_cut_ = !socket_->Receive(&heard_).ok() && heard_.empty();
      if (is_cut_) return {};
    }
    const LeaseFrame first = heard_.front();
    heard_.erase(heard_.begin());
    return first;
  }

 private:
  void Dial(const LeaseHost& host, const std::string& token) {
    pinging_ = {};
    auto socket = wire::LeaseSocket::Dial("127.0.0.1:" + std::to_string(host.port()),
                                          {.token = token}, Duration::Seconds(20));
    ASSERT_TRUE(socket.ok()) << socket.status();
    socket_ = *std::move(socket);
    pinging_ = std::jthread([this](const std::stop_token& stop) { PingUntil(stop); });
  }
  void PingUntil(const std::stop_token& stop) {
    std::condition_variable_any pause;
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      socket_->Add({.op = LeaseOp::kPing});
      socket_->Flush().IgnoreError();  // the host may have ended
      pause.wait_for(lock, stop, std::chrono::milliseconds(100), [] { return false; });
    }
  }

  LeaseFrame opened_;
  std::vector<LeaseFrame> heard_;
  bool is_cut_ = false;
  std::mutex mutex_;  // guards the socket
  std::unique_ptr<wire::LeaseSocket> socket_;
  std::jthread pinging_;  // last: it uses what is above
};

TEST(LeaseHostTest, WhatWasConfirmedOutlivesTheMasterAndLeasesArePresented) {
  TestDir dir;
  const std::string token = wire::MakeToken();
  const LeaseHost::Options options{
      .path = dir.path() + "/data.db", .listen = "127.0.0.1:0", .credentials = {.token = token}};
  auto host = LeaseHost::Start(options);
  ASSERT_TRUE(host.ok()) << host.status();
  Worker worker(**host, token, 0);
  const LeaseFrame granted = worker.Ask({.op = LeaseOp::kTake, .number = 1});
  ASSERT_EQ(granted.op, LeaseOp::kGranted);
  const LeaseFrame confirmed =
      worker.Ask({.op = LeaseOp::kAck, .number = 2, .lease = granted.lease, .end = 4});
  EXPECT_EQ(confirmed.op, LeaseOp::kConfirmed);
  host->reset();  // before its worker, which would be lost after a second
  host = LeaseHost::Start(options);
  ASSERT_TRUE(host.ok()) << host.status();
  Worker again(**host, token, 0);
  const LeaseFrame back = again.Ask({.op = LeaseOp::kPresent,
                                     .number = granted.begin,
                                     .lease = granted.lease,
                                     .begin = granted.begin,
                                     .end = granted.end});
  EXPECT_EQ(back.op, LeaseOp::kPresented);
  EXPECT_EQ(back.begin, 4u);
  const LeaseFrame next = again.Ask({.op = LeaseOp::kTake, .number = 3});
  EXPECT_EQ(next.begin, granted.end);
  EXPECT_GT(next.lease, granted.lease);
}

// The job outlives this host, and the leases on its disk would not.
TEST(LeaseHostTest, WhereAPlatformStartsTheJobADataSetIsRefusedByName) {
  TestDir dir;
  const std::string token = wire::MakeToken();
  auto host = LeaseHost::Start({.path = dir.path() + "/data.db",
                                .listen = "127.0.0.1:0",
                                .credentials = {.token = token},
                                .is_placed = true});
  ASSERT_TRUE(host.ok()) << host.status();
  const Worker worker(**host, token, 0, LeaseOp::kRefused);
  EXPECT_EQ(worker.opened().text,
            "the data set train cannot be leased in a job that a platform starts\n"
            "the record of finished samples is on the disk of the master's host, and would be lost "
            "with it\n"
            "use ElasticLoader: its position is in the checkpoint");
}

TEST(LeaseHostTest, AnAckIsNotConfirmedWhileTheDiskRefusesAndLeasesGoOn) {
  TestDir dir;
  const std::string token = wire::MakeToken();
  std::atomic<bool> refuses = false;
  auto host = LeaseHost::Start({.path = dir.path() + "/data.db",
                                .listen = "127.0.0.1:0",
                                .credentials = {.token = token},
                                .refuses = [&refuses] { return refuses.load(); }});
  ASSERT_TRUE(host.ok()) << host.status();
  Worker worker(**host, token, 0);
  const LeaseFrame granted = worker.Ask({.op = LeaseOp::kTake, .number = 1});
  refuses = true;
  worker.Say({.op = LeaseOp::kAck, .number = 2, .lease = granted.lease, .end = 10});
  // Answers come in order: a confirmed ack would have come first.
  EXPECT_EQ(worker.Ask({.op = LeaseOp::kTake, .number = 3}).op, LeaseOp::kGranted);
  refuses = false;
  EXPECT_EQ(worker.Hear().op, LeaseOp::kConfirmed);
}

TEST(ShownTextTest, EveryDataSetFitsInAFrame) {
  DataSetView view{.name = "pages", .terms = R"({"seed":7})"};
  EXPECT_EQ(ShownText(view), DataSetJson(view));
  // A short list of ranges stays as it is where the terms are long.
  view.quarantined = {{3, 4}, {9, 12}};
  view.terms = R"({"files":")" + std::string(70'000, 'a') + R"("})";
  std::string text = ShownText(view);
  EXPECT_LE(text.size(), kLeaseFrameTextMax);
  EXPECT_NE(text.find(R"("quarantined":"3,9-11")"), std::string::npos);
  view.terms = "{}";
  for (uint64_t bad = 20; bad < 60'000; bad += 2) view.quarantined.push_back({bad, bad + 1});
  text = ShownText(view);
  EXPECT_LE(text.size(), kLeaseFrameTextMax);
  EXPECT_NE(text.find(R"("quarantined":"3,9-11,20,22)"), std::string::npos);
}

}  // namespace
}  // namespace paceline::master

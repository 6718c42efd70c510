// A table server begins again from a snapshot: the batches that it lacks are leased once more.

#include <gtest/gtest.h>

#include <string>

#include "paceline/base/text.h"
#include "paceline/data/lease/lease_book_host.h"
#include "paceline/data/lease/partition.h"
#include "paceline/data/lease/set_key.h"

namespace paceline {
namespace {

constexpr LeasePeer kOneWorker{1, 1};
constexpr LeasePeer kOtherWorker{1, 2};
constexpr LeasePeer kTableServer{1, 9};

LeaseOpen Batches(uint64_t rank, uint64_t incarnation = 1) {
  LeaseOpen open = OpenOf(rank, 0);
  open.incarnation = incarnation;
  open.unit = 5;
  open.lease_min = 10;
  return open;
}

LeaseFrame Have(const std::string& ranges, uint64_t restarts = 1) {
  const std::string text = ranges.empty() ? "" : Concat(DataSetKey("train"), " ", ranges, "\n");
  return {.op = LeaseOp::kTablesHave, .number = 1, .begin = restarts, .text = text};
}

TEST(UndoTurnTest, WhatTheTablesLackIsLeasedAgain) {
  Host host;
  host.Open(kOneWorker, Batches(0));
  const LeaseFrame first = host.Take(kOneWorker);
  host.Ack(kOneWorker, first, 10);
  const LeaseFrame second = host.Take(kOneWorker);
  host.Ack(kOneWorker, second, 15);
  EXPECT_EQ(host.done(), 15u);
  const LeaseFrame undone = host.One(kTableServer, Have("0-4"));
  EXPECT_EQ(undone.op, LeaseOp::kUndone);
  EXPECT_EQ(undone.begin, 10u);
  EXPECT_EQ(undone.text, Concat(DataSetKey("train"), " 5-14\n"));
  EXPECT_EQ(host.done(), 5u);
  EXPECT_EQ(host.Take(kOneWorker).begin, 5u);
}

// Its push was answered by the earlier process of the server.
TEST(UndoTurnTest, AnAckOnItsWayIsStale) {
  Host host;
  host.Open(kOneWorker, Batches(0));
  const LeaseFrame granted = host.Take(kOneWorker);
  host.One(kTableServer, Have(""));
  EXPECT_EQ(host.Ack(kOneWorker, granted, 10).op, LeaseOp::kStale);
  EXPECT_EQ(host.done(), 0u);
}

TEST(UndoTurnTest, AnEndedLeaseCannotBePresented) {
  Host host;
  host.Open(kOneWorker, Batches(0));
  const LeaseFrame granted = host.Take(kOneWorker);
  host.One(kTableServer, Have(""));
  host.Restart(host.journal.size());
  host.Open(kOneWorker, Batches(0));
  const LeaseFrame presented = host.One(kOneWorker, {.op = LeaseOp::kPresent,
                                                     .number = granted.begin,
                                                     .lease = granted.lease,
                                                     .begin = granted.begin,
                                                     .end = granted.end});
  EXPECT_EQ(presented.op, LeaseOp::kStale);
}

TEST(UndoTurnTest, AFirstStartThatLacksNothingEndsNoLease) {
  Host host;
  host.Open(kOneWorker, Batches(0));
  const LeaseFrame granted = host.Take(kOneWorker);
  EXPECT_EQ(host.One(kTableServer, Have("", /*restarts=*/0)).begin, 0u);
  EXPECT_EQ(host.Ack(kOneWorker, granted, 10).op, LeaseOp::kConfirmed);
}

TEST(UndoTurnTest, OtherDataSetsStay) {
  Host host;
  LeaseOpen evaluation = Batches(0);
  evaluation.unit = 0;
  host.Open(kOneWorker, evaluation);
  const LeaseFrame granted = host.Take(kOneWorker);
  host.Ack(kOneWorker, granted, granted.end);
  const uint64_t done = host.done();
  EXPECT_EQ(host.One(kTableServer, Have("")).begin, 0u);
  EXPECT_EQ(host.done(), done);
}

TEST(UndoTurnTest, AWaitingWorkerGetsWhatIsFree) {
  Host host;
  host.Open(kOneWorker, Batches(0));
  host.Open(kOtherWorker, Batches(1));
  for (uint64_t done = 0; done < 90;) {
    const LeaseFrame granted = host.Take(kOneWorker);
    host.Ack(kOneWorker, granted, granted.end);
    done = host.done();
  }
  host.Take(kOneWorker);
  EXPECT_EQ(host.Take(kOtherWorker).op, LeaseOp::kWait);
  host.Say(kTableServer, Have("0-49"));
  bool is_granted = false;
  for (const LeaseFrame& frame : host.To(kOtherWorker)) {
    is_granted = is_granted || (frame.op == LeaseOp::kGranted && frame.begin == 50);
  }
  EXPECT_TRUE(is_granted);
}

TEST(UndoTurnTest, TheJournalAndItsSummaryRestoreIt) {
  Host host;
  host.Open(kOneWorker, Batches(0));
  for (int i = 0; i < 3; ++i) {
    const LeaseFrame granted = host.Take(kOneWorker);
    host.Ack(kOneWorker, granted, granted.end);
  }
  host.One(kTableServer, Have("0-9"));
  const uint64_t done = host.done();
  EXPECT_EQ(done, 10u);
  host.Restart(host.journal.size());
  EXPECT_EQ(host.done(), done);
  host.summary = host.book.Summary();
  host.journal.clear();
  host.Restart(0);
  EXPECT_EQ(host.done(), done);
  // Still of a data set whose batches are not divided, before a worker says so again.
  EXPECT_EQ(host.One(kTableServer, Have("")).begin, 10u);
}

TEST(UndoTurnTest, RecordsOfAStreamAreReadAgainAndNobodyWaitsForThem) {
  Host host;
  LeaseOpen live = Batches(0);
  live.ordinals = kSamplesMax;
  live.is_stream = true;
  live.unit = 1;
  host.Open(kOneWorker, live);
  host.Say(kOneWorker, {.op = LeaseOp::kFound, .begin = 7, .text = "p"});
  const LeaseFrame granted = host.Take(kOneWorker);
  host.Say(kOneWorker, {.op = LeaseOp::kGap,
                        .flags = LeaseFrame::kBlamed,
                        .lease = granted.lease,
                        .begin = 4,
                        .end = 5,
                        .text = "refused"});
  host.Ack(kOneWorker, granted, 6);
  const LeaseFrame stands = host.One(kOneWorker, {.op = LeaseOp::kWhere, .number = 3});
  EXPECT_EQ(stands.op, LeaseOp::kStands);
  EXPECT_EQ(stands.number, 3u);
  EXPECT_EQ(stands.text, "13 p\n");
  const LeaseFrame undone = host.One(kTableServer, Have("0-1"));
  EXPECT_EQ(undone.begin, 4u);
  EXPECT_EQ(undone.text, "") << "a server that ends need not have them back";
  EXPECT_TRUE(host.book.Views()[0].quarantined.empty());
  const LeaseFrame again = host.Take(kOneWorker);
  EXPECT_EQ(again.begin, 2u);
  EXPECT_EQ(again.end, kPartitionOrdinals);
  const LeaseFrame now = host.One(kOneWorker, {.op = LeaseOp::kWhere, .number = 4});
  EXPECT_EQ(now.text, "9 p\n");
  EXPECT_NE(now.begin, stands.begin);
}

TEST(UndoTurnTest, ALongTextComesInSeveralFrames) {
  Host host;
  host.Open(kOneWorker, Batches(0));
  const LeaseFrame granted = host.Take(kOneWorker);
  host.Ack(kOneWorker, granted, 10);
  LeaseFrame first = Have("0-4");
  first.flags = LeaseFrame::kMore;
  EXPECT_TRUE(host.Say(kTableServer, first).empty());
  EXPECT_TRUE(host.Say(kTableServer, first).empty()) << "it begins anew";
  LeaseFrame second = Have("5-9");
  second.lease = 1;
  EXPECT_EQ(host.One(kTableServer, second).begin, 0u);
  EXPECT_EQ(host.done(), 10u);
}

TEST(UndoTurnTest, AMalformedTextChangesNothing) {
  Host host;
  host.Open(kOneWorker, Batches(0));
  const LeaseFrame granted = host.Take(kOneWorker);
  host.Ack(kOneWorker, granted, 10);
  EXPECT_EQ(host.One(kTableServer, {.op = LeaseOp::kTablesHave, .text = "what?"}).op,
            LeaseOp::kRefused);
  EXPECT_EQ(host.done(), 10u);
}

}  // namespace
}  // namespace paceline

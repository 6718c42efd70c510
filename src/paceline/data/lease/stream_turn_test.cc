#include <gtest/gtest.h>

#include <vector>

#include "paceline/data/lease/lease_book_host.h"

namespace paceline {
namespace {

constexpr LeasePeer kStreamEve{1, 1};
constexpr LeasePeer kStreamDan{1, 2};

LeaseOpen Live(uint64_t rank, uint64_t generation = 1, bool follows = false) {
  LeaseOpen open = OpenOf(rank, generation);
  open.ordinals = kSamplesMax;
  open.is_stream = true;
  open.follows_checkpoints = follows;
  return open;
}

void Find(Host* host, LeasePeer from, const std::string& name, uint64_t base = 0,
          uint64_t records = 0) {
  host->Say(from, {.op = LeaseOp::kFound, .begin = base, .end = records, .text = name});
}

TEST(StreamTurnTest, ALeaseIsTheRestOfAPartitionAndNamesIt) {
  Host host;
  host.Open(kStreamEve, Live(0));
  EXPECT_EQ(host.Take(kStreamEve).op, LeaseOp::kWait);
  host.Say(kStreamEve, {.op = LeaseOp::kFound, .begin = 40, .text = "3"});
  const std::vector<LeaseFrame> told = host.To(kStreamEve);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].op, LeaseOp::kGranted);
  EXPECT_EQ(told[0].begin, 0u);
  EXPECT_EQ(told[0].end, kPartitionOrdinals);
  EXPECT_EQ(told[0].text, "40\n3");
  EXPECT_GT(host.answers[0].after, 0u) << "the partition is durable before it is granted";
  // Another process has another idea of where it begins.
  Find(&host, kStreamEve, "3", 50);
  EXPECT_EQ(host.book.Views()[0].partitions.size(), 1u);
  EXPECT_EQ(host.book.Views()[0].partitions[0].offset, 40u);
}

TEST(StreamTurnTest, AnotherWorkerGoesOnWhereADeadOneStopped) {
  Host host;
  host.Open(kStreamEve, Live(0));
  host.Open(kStreamDan, Live(1));
  Find(&host, kStreamEve, "a");
  const LeaseFrame ann = host.Take(kStreamEve);
  EXPECT_EQ(host.Take(kStreamDan).op, LeaseOp::kWait);
  EXPECT_EQ(host.Ack(kStreamEve, ann, 25).op, LeaseOp::kConfirmed);
  host.Gone(kStreamEve, /*is_blamed=*/true);
  const std::vector<LeaseFrame> told = host.To(kStreamDan);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].begin, 25u);
  EXPECT_TRUE(host.book.Views()[0].quarantined.empty());
}

TEST(StreamTurnTest, ALateWorkerGetsItsShareByARecall) {
  Host host;
  host.Open(kStreamEve, Live(0));
  for (const char* name : {"a", "b", "c", "d"}) Find(&host, kStreamEve, name);
  std::vector<LeaseFrame> held;
  for (int i = 0; i < 4; ++i) held.push_back(host.Take(kStreamEve));
  EXPECT_EQ(held.back().op, LeaseOp::kGranted);
  host.Open(kStreamDan, Live(1));
  host.Say(kStreamDan, {.op = LeaseOp::kTake, .number = 1});
  // Two at once: then both have two.
  ASSERT_EQ(host.To(kStreamEve).size(), 2u);
  const LeaseFrame recall = host.To(kStreamEve)[0];
  EXPECT_EQ(recall.op, LeaseOp::kRecall);
  EXPECT_EQ(recall.lease, held[3].lease);
  host.Ack(kStreamEve, held[3], held[3].begin + 7);
  host.Say(kStreamEve, {.op = LeaseOp::kReturn, .lease = recall.lease});
  ASSERT_EQ(host.To(kStreamDan).size(), 1u);
  EXPECT_EQ(host.To(kStreamDan)[0].begin, held[3].begin + 7);
}

TEST(StreamTurnTest, AnAckWithoutProgressKeepsTheLease) {
  Host host;
  LeaseOpen open = Live(0);
  open.deadline_ms = 1'000;
  host.Open(kStreamEve, open);
  Find(&host, kStreamEve, "a");
  const LeaseFrame ann = host.Take(kStreamEve, 0);
  host.Ack(kStreamEve, ann, 0, 900);
  host.Tick(1'500);
  EXPECT_EQ(host.Ack(kStreamEve, ann, 5, 1'600).op, LeaseOp::kConfirmed);
  host.Tick(9'000);
  EXPECT_EQ(host.Ack(kStreamEve, ann, 6, 9'000).op, LeaseOp::kStale);
}

TEST(StreamTurnTest, AReaderThatWaitsForRecordsIsToldThatItsLeaseRanOut) {
  Host host;
  LeaseOpen open = Live(0);
  open.deadline_ms = 1'000;
  host.Open(kStreamEve, open);
  Find(&host, kStreamEve, "a");
  const LeaseFrame ann = host.Take(kStreamEve, 0);
  host.Ack(kStreamEve, ann, 5, 900);
  host.Tick(9'000);
  host.Say(kStreamEve, {.op = LeaseOp::kAck, .number = 9, .lease = ann.lease, .end = 5});
  const std::vector<LeaseFrame> told = host.To(kStreamEve);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].op, LeaseOp::kRecall);
  EXPECT_EQ(told[0].lease, ann.lease);
  EXPECT_EQ(told[1].op, LeaseOp::kConfirmed) << "its work counts";
}

TEST(StreamTurnTest, AFileEndsAndMustNotChange) {
  Host host;
  host.Open(kStreamEve, Live(0));
  Find(&host, kStreamEve, "one.parquet", 0, 30);
  const LeaseFrame ann = host.Take(kStreamEve);
  EXPECT_EQ(ann.end, 30u);
  host.Ack(kStreamEve, ann, 30);
  EXPECT_TRUE(host.book.Views()[0].partitions[0].is_over);
  EXPECT_EQ(host.Take(kStreamEve).op, LeaseOp::kWait) << "there may be more files";
  const LeaseFrame changed =
      host.One(kStreamEve, {.op = LeaseOp::kFound, .begin = 0, .end = 31, .text = "one.parquet"});
  EXPECT_EQ(changed.op, LeaseOp::kRefused);
}

TEST(StreamTurnTest, APartitionThatTheStreamBeginsAfterIsOverAndKnown) {
  Host host;
  EXPECT_EQ(host.Open(kStreamEve, Live(0)).end, 0u) << "the stream's first run";
  Find(&host, kStreamEve, "old.parquet", 30, 30);
  Find(&host, kStreamEve, "new.parquet", 0, 20);
  EXPECT_TRUE(host.book.Views()[0].partitions[0].is_over);
  const LeaseFrame ann = host.Take(kStreamEve);
  EXPECT_EQ(ann.text, "0\nnew.parquet");
  EXPECT_EQ(host.Take(kStreamEve).op, LeaseOp::kWait) << "nothing of the other one is read";
  host.Restart(host.journal.size());
  EXPECT_TRUE(host.book.Views()[0].partitions[0].is_over);
  EXPECT_EQ(host.Open(kStreamDan, Live(1)).end, 2u);
  // A later run counts the old file from its beginning.
  host.Say(kStreamDan, {.op = LeaseOp::kFound, .begin = 0, .end = 30, .text = "old.parquet"});
  EXPECT_TRUE(host.To(kStreamDan).empty());
  EXPECT_EQ(host.book.Views()[0].partitions.size(), 2u);
}

TEST(StreamTurnTest, ARestoreKeepsPartitionsAndARewindDropsLaterGaps) {
  Host host;
  host.Open(kStreamEve, [] {
    LeaseOpen open = Live(0, 1, /*follows=*/true);
    open.world_size = 1;
    return open;
  }());
  Find(&host, kStreamEve, "a", 3);
  const LeaseFrame ann = host.Take(kStreamEve);
  host.Say(kStreamEve, {.op = LeaseOp::kGap, .lease = ann.lease, .begin = 8, .end = 10});
  host.Ack(kStreamEve, ann, 10);
  const std::string position = host.Mark(kStreamEve, 1);
  host.Say(kStreamEve, {.op = LeaseOp::kGap, .lease = ann.lease, .begin = 10, .end = 20});
  host.Ack(kStreamEve, ann, 40);
  EXPECT_EQ(host.book.Views()[0].gaps, 12u);
  host.summary = host.book.Summary();
  const std::vector<LeaseFact> journal = std::exchange(host.journal, {});
  host.Restart(0);
  EXPECT_EQ(host.book.Views()[0].partitions[0].offset, 43u);
  EXPECT_EQ(host.book.Views()[0].gaps, 12u);
  host.Open(kStreamEve, [] {
    LeaseOpen open = Live(0, 2, /*follows=*/true);
    open.world_size = 1;
    return open;
  }());
  EXPECT_EQ(host.Rewind(kStreamEve, position).op, LeaseOp::kRewound);
  EXPECT_EQ(host.book.Views()[0].partitions[0].offset, 13u);
  EXPECT_EQ(host.book.Views()[0].gaps, 2u) << "the gap before the mark, and not its neighbour";
  EXPECT_EQ(host.Take(kStreamEve).begin, 10u);
}

TEST(StreamTurnTest, APositionOfAnotherLedgerIsTranslated) {
  LeaseStream own;
  ASSERT_TRUE(own.Add({"b", 5, own.NextRange(std::nullopt)}));
  ASSERT_TRUE(own.Add({"a", 0, own.NextRange(std::nullopt)}));
  LeaseStream theirs;
  ASSERT_TRUE(theirs.Add({"a", 0, theirs.NextRange(std::nullopt)}));
  ASSERT_TRUE(theirs.Add({"b", 7, theirs.NextRange(std::nullopt)}));
  const std::vector<OrdinalRange> done = {{0, 30}, {kPartitionOrdinals, kPartitionOrdinals + 4}};
  const auto translated = Translated(done, theirs.partitions(), own);
  ASSERT_TRUE(translated.has_value());
  const std::vector<OrdinalRange> wanted = {{2, 6}, {kPartitionOrdinals, kPartitionOrdinals + 30}};
  EXPECT_EQ(*translated, wanted);
  EXPECT_EQ(PartitionsFromText(PartitionsToText(own.partitions())), own.partitions());
  EXPECT_FALSE(PartitionsFromText("0 x 1 a").has_value());
}

TEST(LeaseStreamTest, KeepsTheNewestRefusedRecords) {
  LeaseStream stream;
  stream.Add({.name = "p", .base = 0, .range = {0, kPartitionOrdinals}});
  const uint64_t count = LeaseStream::kRefusedMax + 5;
  for (uint64_t i = 0; i < count; ++i) stream.AddRefused({2 * i, 2 * i + 1}, "why");
  EXPECT_EQ(stream.refused().total(), LeaseStream::kRefusedMax);
  EXPECT_FALSE(stream.refused().Covers({8, 9}));
  EXPECT_TRUE(stream.refused().Covers({10, 11}));
  IntervalSet done;
  done.Add({0, 100});
  stream.Rewind(done);
  EXPECT_EQ(stream.refused().total(), 45u);
}

}  // namespace
}  // namespace paceline

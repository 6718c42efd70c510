#include "paceline/data/lease/units.h"

#include <gtest/gtest.h>

#include "paceline/data/lease/lease_book_host.h"
#include "paceline/data/lease/shard_ledger.h"

namespace paceline {
namespace {

constexpr WorkerKey kCleo{.worker = 1, .incarnation = 1};

TEST(UnitsTest, BatchesAreCountedFromTheBeginningOfEachEpoch) {
  const Units units{.unit = 4, .epoch = 10};
  EXPECT_EQ(units.Next(0), 4u);
  EXPECT_EQ(units.Next(7), 8u);
  EXPECT_EQ(units.Next(8), 10u) << "the last batch of an epoch is shorter";
  EXPECT_EQ(units.Next(10), 14u);
  EXPECT_EQ(units.Floor(13), 10u);
  EXPECT_EQ(units.Floor(19), 18u);
  EXPECT_TRUE(units.IsBorder(20));
  EXPECT_FALSE(units.IsBorder(12));
  EXPECT_EQ(units.Around({5, 6}, {0, 100}), (OrdinalRange{4, 8}));
  EXPECT_EQ(units.Around({7, 9}, {0, 100}), (OrdinalRange{4, 10}));
}

TEST(UnitsTest, ABatchAsLargeAsAnEpochOrLargerIsTheEpoch) {
  const Units units{.unit = 50, .epoch = 10};
  EXPECT_EQ(units.Next(3), 10u);
  EXPECT_EQ(units.Next(10), 20u);
  EXPECT_EQ(units.Floor(19), 10u);
}

TEST(UnitsTest, WithoutBatchesBordersAreEverywhere) {
  for (const Units& units : {Units{}, Units{.unit = 1, .epoch = 10}}) {
    EXPECT_EQ(units.Next(3), 4u);
    EXPECT_EQ(units.Floor(7), 7u);
    EXPECT_TRUE(units.IsBorder(7));
  }
}

TEST(UnitsTest, ALeaseHasWholeBatchesAndAnAckCoversWholeOnes) {
  ShardLedger ledger({.samples = 25, .lease_max = 6, .units = {.unit = 4, .epoch = 10}});
  const LeaseGrant first = ledger.Take(Instant(), kCleo).grant;
  EXPECT_EQ(first.range, (OrdinalRange{0, 4})) << "6 samples are not a whole number of batches";
  EXPECT_FALSE(ledger.Ack(Instant(), kCleo, first.lease, 2));
  EXPECT_TRUE(ledger.Ack(Instant(), kCleo, first.lease, 4));
  EXPECT_EQ(ledger.Take(Instant(), kCleo).grant.range, (OrdinalRange{4, 10}));
  EXPECT_EQ(ledger.Broken(), "");
}

TEST(UnitsTest, ABatchIsLargerThanALeaseMayBe) {
  ShardLedger ledger({.samples = 25, .lease_max = 3, .units = {.unit = 8}});
  EXPECT_EQ(ledger.Take(Instant(), kCleo).grant.range, (OrdinalRange{0, 8}));
}

TEST(UnitsTest, ABadSampleTakesItsBatchWithIt) {
  ShardLedger ledger(
      {.samples = 40, .lease_first = 16, .failures_max = 1, .units = {.unit = 4, .epoch = 10}});
  LeaseGrant lease = ledger.Take(Instant(), kCleo).grant;
  ASSERT_TRUE(ledger.FailPart(kCleo, lease.lease, {5, 6}));
  EXPECT_EQ(ledger.quarantined().Ranges(), (std::vector<OrdinalRange>{{4, 8}}));
  EXPECT_EQ(ledger.Broken(), "");
}

LeaseOpen InBatches(uint64_t unit) {
  LeaseOpen open = OpenOf(0);
  open.unit = unit;
  open.epoch = 50;
  return open;
}

TEST(UnitsTest, TheSizeOfABatchTravelsInTheOpening) {
  EXPECT_EQ(ParseOpen(EncodeOpen(InBatches(8))), InBatches(8));
  EXPECT_EQ(EncodeOpen(InBatches(8)).size(), EncodeOpen(OpenOf(0)).size() + 16);
  std::string cut = EncodeOpen(InBatches(8));
  cut.resize(13 * 8 + 15);
  EXPECT_EQ(ParseOpen(cut), std::nullopt);
  EXPECT_EQ(ParseOpen(EncodeOpen(InBatches(uint64_t{1} << 60))), std::nullopt);
}

TEST(UnitsTest, TheBookRefusesAPartOfABatch) {
  Host host;
  const LeasePeer ann{1, 1};
  EXPECT_EQ(host.Open(ann, InBatches(4)).op, LeaseOp::kOpened);
  const LeaseFrame granted = host.Take(ann);
  EXPECT_EQ(granted.end, 8u) << "10 samples are two whole batches and a part";
  EXPECT_EQ(host.Ack(ann, granted, 4).op, LeaseOp::kConfirmed);
  const LeaseFrame refused = host.Ack(ann, granted, 6);
  EXPECT_EQ(refused.op, LeaseOp::kRefused);
  EXPECT_NE(refused.text.find("a part of a batch"), std::string::npos) << refused.text;
}

// The batch of a dead worker comes again as it was, also from the next master.
TEST(UnitsTest, ABatchComesAgainWithTheSameBorders) {
  Host host;
  const LeasePeer ann{1, 1};
  host.Open(ann, InBatches(4));
  const LeaseFrame granted = host.Take(ann);
  host.Ack(ann, granted, 4);
  host.Gone(ann, /*is_blamed=*/true);
  host.Restart(host.journal.size());
  const LeasePeer bob{1, 2};
  LeaseOpen open = InBatches(4);
  open.rank = 1;
  host.Open(bob, open);
  const LeaseFrame again = host.Take(bob);
  EXPECT_EQ(again.begin, 4u);
  EXPECT_EQ(again.end, 8u);
}

}  // namespace
}  // namespace paceline

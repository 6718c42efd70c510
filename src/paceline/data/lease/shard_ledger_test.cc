#include "paceline/data/lease/shard_ledger.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace paceline {
namespace {

constexpr WorkerKey kAnn{.worker = 1, .incarnation = 1};
constexpr WorkerKey kBob{.worker = 2, .incarnation = 1};

Instant At(int64_t seconds) { return Instant::FromNanoseconds(seconds * 1'000'000'000); }

LeaseGrant Grant(ShardLedger& ledger, Instant now, const WorkerKey& worker) {
  const TakeResult taken = ledger.Take(now, worker);
  EXPECT_EQ(taken.answer, TakeAnswer::kGranted);
  return taken.grant;
}

TEST(ShardLedgerTest, AWorkerGetsWhatItCanDoInTheLengthOfALease) {
  ShardLedger ledger({.samples = 1'000'000});
  const LeaseGrant first = Grant(ledger, At(0), kAnn);
  EXPECT_EQ(first.range, (OrdinalRange{0, 64}));
  EXPECT_TRUE(ledger.Ack(At(1), kAnn, first.lease, 64));  // 64 a second
  EXPECT_EQ(Grant(ledger, At(1), kAnn).range, (OrdinalRange{64, 64 + 192}));
  const LeaseGrant slow = Grant(ledger, At(1), kBob);
  EXPECT_TRUE(ledger.Ack(At(33), kBob, slow.lease, slow.range.end));  // 2 a second
  EXPECT_EQ(Grant(ledger, At(33), kBob).range.size(), 6u);
}

TEST(ShardLedgerTest, NoLeaseIsLargerThanAskedForAndBlameIsCutWithTheRange) {
  ShardLedger ledger({.samples = 100, .lease_first = 20});
  EXPECT_EQ(ledger.Take(At(0), kAnn, 7).grant.range, (OrdinalRange{0, 7}));
  const LeaseGrant failed = Grant(ledger, At(0), kAnn);
  ledger.Expire(kAnn, /*is_suspicious=*/true);
  EXPECT_EQ(ledger.unleased(), 100u);
  ledger.TakeBlamed();
  const OrdinalRange cut = ledger.Take(At(1), kBob, 3).grant.range;
  EXPECT_EQ(cut, (OrdinalRange{0, 3})) << "what failed goes to somebody else first";
  const std::vector<Blamed> blamed = ledger.TakeBlamed();
  ASSERT_EQ(blamed.size(), 2u) << "both parts keep it";
  EXPECT_EQ(blamed[0].range, cut);
  EXPECT_EQ(blamed[1].range, (OrdinalRange{3, 7}));
  EXPECT_EQ(blamed[0].failures, blamed[1].failures);
  EXPECT_EQ(ledger.Take(At(1), kBob, 90).grant.range, (OrdinalRange{3, 7}));
  EXPECT_EQ(Grant(ledger, At(1), kBob).range.begin, failed.range.begin);
  EXPECT_EQ(ledger.Broken(), "");
}

TEST(ShardLedgerTest, LeasesShrinkAtTheEnd) {
  ShardLedger ledger({.samples = 1'000, .lease_first = 500});
  uint64_t last = 1'000;
  for (int i = 0; ledger.Take(At(0), i % 2 ? kAnn : kBob).answer == TakeAnswer::kGranted; ++i) {
    const LedgerSnapshot snapshot = ledger.Snapshot();
    ASSERT_LT(i, 1'000);
    last = snapshot.next_lease;
  }
  EXPECT_GT(last, 15u) << "many small ones, not two large ones";
  EXPECT_EQ(ledger.Take(At(0), kAnn).answer, TakeAnswer::kWait);
}

TEST(ShardLedgerTest, WhatADeadWorkerHadGoesToTheNextAtOnce) {
  ShardLedger ledger({.samples = 10'000});
  const LeaseGrant lost = Grant(ledger, At(0), kAnn);
  EXPECT_TRUE(ledger.Ack(At(1), kAnn, lost.lease, 10));
  ledger.Expire(kAnn, /*is_suspicious=*/false);
  EXPECT_EQ(Grant(ledger, At(1), kBob).range.begin, 10u);
  EXPECT_FALSE(ledger.Ack(At(2), kAnn, lost.lease, 64)) << "its lease is gone";
  EXPECT_EQ(ledger.done().total(), 10u);
}

TEST(ShardLedgerTest, ADeadlineEndsALeaseAndAcksPutItOff) {
  ShardLedger ledger({.samples = 10'000});
  const LeaseGrant lease = Grant(ledger, At(0), kAnn);
  EXPECT_EQ(ledger.NextDeadline(), At(10));
  EXPECT_TRUE(ledger.Ack(At(8), kAnn, lease.lease, 1));
  EXPECT_GT(ledger.NextDeadline(), At(17));
  ledger.ExpireDue(At(17));
  EXPECT_EQ(ledger.open_leases(), 1u);
  ledger.ExpireDue(ledger.NextDeadline());
  EXPECT_EQ(ledger.open_leases(), 0u);
  EXPECT_EQ(ledger.NextDeadline(), Instant::Max());
  EXPECT_FALSE(ledger.Ack(At(2'000), kAnn, lease.lease, 64));
}

TEST(ShardLedgerTest, AnOlderIncarnationIsFenced) {
  ShardLedger ledger({.samples = 10'000});
  const LeaseGrant old = Grant(ledger, At(0), kAnn);
  const WorkerKey again{.worker = 1, .incarnation = 2};
  EXPECT_EQ(Grant(ledger, At(1), again).range.begin, old.range.end) << "not what it died of";
  EXPECT_FALSE(ledger.Ack(At(1), kAnn, old.lease, 64));
  EXPECT_EQ(ledger.Take(At(1), kAnn).answer, TakeAnswer::kFenced);
  EXPECT_EQ(Grant(ledger, At(1), kBob).range, old.range);
}

TEST(ShardLedgerTest, ALeaseIsItsHoldersAlone) {
  ShardLedger ledger({.samples = 10'000});
  const LeaseGrant lease = Grant(ledger, At(0), kAnn);
  EXPECT_FALSE(ledger.Ack(At(1), kBob, lease.lease, 64));
  EXPECT_FALSE(ledger.Fail(kBob, lease.lease));
  EXPECT_FALSE(ledger.Ack(At(1), kAnn, lease.lease, 65)) << "more than it has";
  EXPECT_FALSE(ledger.Ack(At(1), kAnn, lease.lease + 1, 1));
}

// Whatever number of workers die of one sample, only that sample is quarantined, and it is named.
TEST(ShardLedgerTest, APoisonedSampleCostsThatSample) {
  for (const uint64_t workers : {1, 2, 5}) {
    for (const uint64_t poisoned : {0, 31, 63, 700, 999}) {
      ShardLedger ledger({.samples = 1'000});
      std::vector<uint64_t> incarnations(workers, 1);
      std::vector<uint64_t> times(1'000);
      uint64_t deaths = 0;
      for (int turn = 0; !ledger.IsComplete(); ++turn) {
        ASSERT_LT(turn, 2'000);
        const uint64_t number = static_cast<uint64_t>(turn) % workers;
        const WorkerKey worker{.worker = number, .incarnation = incarnations[number]};
        const TakeResult taken = ledger.Take(At(turn), worker);
        if (taken.answer != TakeAnswer::kGranted) continue;
        const OrdinalRange range = taken.grant.range;
        // Results count only with the ack of the whole lease, so a death loses them.
        if (range.begin <= poisoned && poisoned < range.end) {
          ++deaths;
          ledger.Expire(worker, /*is_suspicious=*/true);
          ++incarnations[number];
          continue;
        }
        ASSERT_TRUE(ledger.Ack(At(turn), worker, taken.grant.lease, range.end));
        for (uint64_t ordinal = range.begin; ordinal < range.end; ++ordinal) ++times[ordinal];
      }
      EXPECT_EQ(ledger.quarantined().Ranges(),
                (std::vector<OrdinalRange>{{poisoned, poisoned + 1}}));
      for (uint64_t ordinal = 0; ordinal < 1'000; ++ordinal) {
        ASSERT_EQ(times[ordinal], ordinal == poisoned ? 0u : 1u) << ordinal;
      }
      EXPECT_LE(deaths, 20u) << "halving, not searching";
      EXPECT_EQ(ledger.Describe(),
                "complete, except 1 in quarantine (ordinals " + std::to_string(poisoned) + ")");
    }
  }
}

TEST(ShardLedgerTest, ARestartedLedgerTakesPresentedLeasesUp) {
  const LedgerSpec spec{.samples = 10'000};
  ShardLedger before(spec);
  const LeaseGrant ann = Grant(before, At(0), kAnn);
  const LeaseGrant bob = Grant(before, At(0), kBob);
  EXPECT_TRUE(before.Ack(At(1), kAnn, ann.lease, 5));
  ShardLedger after = ShardLedger::Restore(spec, before.Snapshot(), /*first_lease=*/1'000);
  EXPECT_TRUE(after.Present(At(2), kAnn, ann, 5));
  EXPECT_TRUE(after.Present(At(2), kAnn, ann, 5)) << "a second time is no harm";
  EXPECT_FALSE(after.Present(At(2), kBob, ann, 5));
  const WorkerKey eve{.worker = 3, .incarnation = 1};
  const LeaseGrant taken = Grant(after, At(2), eve);
  EXPECT_EQ(taken.lease, 1'000u);
  EXPECT_EQ(taken.range.begin, bob.range.begin);
  EXPECT_FALSE(after.Present(At(2), kBob, bob, bob.range.begin)) << "too late";
  EXPECT_FALSE(after.Ack(At(2), kBob, bob.lease, bob.range.end));
  EXPECT_TRUE(after.Ack(At(3), kAnn, ann.lease, ann.range.end));
  EXPECT_EQ(after.Broken(), "");
}

TEST(ShardLedgerTest, ItsSizeIsThatOfWhatIsOpen) {
  ShardLedger ledger({.samples = 1'000'000'000'000, .lease_first = 1'000});
  std::vector<LeaseGrant> open;
  for (uint64_t worker = 0; worker < 1'000; ++worker) {
    for (int i = 0; i < 50; ++i) {
      const WorkerKey key{.worker = worker, .incarnation = 1};
      const LeaseGrant grant = Grant(ledger, At(0), key);
      if (i == 49) continue;
      ASSERT_TRUE(ledger.Ack(At(1), key, grant.lease, grant.range.end));
    }
  }
  EXPECT_EQ(ledger.open_leases(), 1'000u);
  const LedgerSnapshot snapshot = ledger.Snapshot();
  EXPECT_LE(snapshot.done.size(), 1'001u);
}

}  // namespace
}  // namespace paceline

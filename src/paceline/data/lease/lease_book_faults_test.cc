// What happens when a master, a link or a worker fails.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paceline/data/lease/lease_book_host.h"

namespace paceline {
namespace {

// Each reader of this sample dies, and the master with it. Blame is durable, so the sample is
// found.
TEST(LeaseBookFaultsTest, BlameOutlivesTheMaster) {
  Host host;
  constexpr uint64_t kBad = 13;
  int deaths = 0;
  for (; deaths < 40; ++deaths) {
    host.Open(kAnn, OpenOf(0, 1 + deaths));
    LeaseFrame taken = host.Take(kAnn);
    while (taken.op == LeaseOp::kGranted && !(taken.begin <= kBad && kBad < taken.end)) {
      host.Ack(kAnn, taken, taken.end);
      taken = host.Take(kAnn);
    }
    if (taken.op != LeaseOp::kGranted) break;
    host.Gone(kAnn, /*is_blamed=*/true);
    if (deaths % 2 == 0) host.summary = host.book.Summary(), host.journal.clear();
    host.Restart(host.journal.size());
  }
  EXPECT_EQ(host.book.Views().front().quarantined, (std::vector<OrdinalRange>{{13, 14}}));
  EXPECT_TRUE(host.book.Views().front().is_complete);
  // Three deaths until a lease of ten is suspect, then halving to one sample, and three for that.
  EXPECT_LE(deaths, 12);
}

TEST(LeaseBookFaultsTest, ABlamedLeaseIsPresentedToAnotherMaster) {
  Host host;
  host.Open(kAnn, OpenOf(0));
  host.Take(kAnn);
  host.Gone(kAnn, /*is_blamed=*/true);
  host.Open(kBob, OpenOf(1));
  const LeaseFrame taken = host.Take(kBob);
  EXPECT_EQ(taken.begin, 0u);
  host.Restart(host.journal.size());
  host.Open(kBob, OpenOf(1));
  const LeaseFrame presented = host.One(
      kBob,
      {.op = LeaseOp::kPresent, .lease = taken.lease, .begin = taken.begin, .end = taken.end});
  EXPECT_EQ(presented.op, LeaseOp::kPresented);
  EXPECT_EQ(host.Ack(kBob, taken, taken.end).op, LeaseOp::kConfirmed);
  EXPECT_EQ(host.done(), 10u);
}

// With checkpoints each death rewinds the data. The sample is still found.
TEST(LeaseBookFaultsTest, BlameOutlivesRewinds) {
  Host host;
  constexpr uint64_t kBad = 13;
  int generation = 1;
  LeaseFrame taken;
  for (; generation < 40; ++generation) {
    host.Open(kAnn, Following(0, generation));
    taken = host.Take(kAnn);
    while (taken.op == LeaseOp::kGranted && !(taken.begin <= kBad && kBad < taken.end)) {
      host.Ack(kAnn, taken, taken.end);
      taken = host.Take(kAnn);
    }
    if (taken.op != LeaseOp::kGranted) break;
    host.Gone(kAnn, /*is_blamed=*/true);
  }
  EXPECT_EQ(taken.op, LeaseOp::kComplete);
  EXPECT_EQ(host.book.Views().front().quarantined, (std::vector<OrdinalRange>{{13, 14}}));
  EXPECT_EQ(host.done(), 99u);
  EXPECT_LE(generation, 13);
}

// The worker has counted samples that another one does now. If the master dies before the worker
// hears so, the next master would resume the lease, and must not find that step marked.
TEST(LeaseBookFaultsTest, AMarkBehindAStaleAckIsNone) {
  Host host;
  LeaseOpen alone = Following(0, 1);
  alone.world_size = 1;
  host.Open(kAnn, alone);
  const LeaseFrame taken = host.Take(kAnn);
  host.Tick(60'000);  // its deadline passed
  EXPECT_EQ(host.Ack(kAnn, taken, taken.end, 60'001).op, LeaseOp::kStale);
  EXPECT_EQ(host.Mark(kAnn, 5), "lost");
  host.Restart(host.journal.size());
  host.Open(kAnn, alone);
  const LeaseFrame presented = host.One(
      kAnn,
      {.op = LeaseOp::kPresent, .lease = taken.lease, .begin = taken.begin, .end = taken.end});
  EXPECT_EQ(presented.op, LeaseOp::kPresented);
  EXPECT_EQ(host.Ack(kAnn, taken, taken.end).op, LeaseOp::kConfirmed);
  const std::string position = host.Mark(kAnn, 5);
  EXPECT_EQ(position, "g1.0.s5");
  alone.generation = alone.incarnation = 2;
  host.Open(kAnn, alone);
  EXPECT_EQ(host.Rewind(kAnn, position).op, LeaseOp::kRewound);
  EXPECT_EQ(host.done(), 10u) << "the position has what was counted";
}

TEST(LeaseBookFaultsTest, AGrantThatWasLostOnTheWayComesBackWhenItsWorkerOpensAgain) {
  Host host;
  host.Open(kAnn, OpenOf(0));
  const LeaseFrame known = host.Take(kAnn);
  const LeaseFrame lost = host.Take(kAnn);
  constexpr LeasePeer kAgain{2, 1};
  host.book.LinkBroken(At(0), 1, LeaseBook::kLinkPatience);
  host.Open(kAgain, OpenOf(0));
  host.Say(kAgain,
           {.op = LeaseOp::kPresent, .lease = known.lease, .begin = known.begin, .end = known.end});
  const LeaseFrame again = host.Take(kAgain);
  EXPECT_EQ(again.begin, lost.begin) << "at once, and not after a deadline";
  EXPECT_NE(again.lease, lost.lease);
  EXPECT_EQ(host.Ack(kAgain, known, known.end).op, LeaseOp::kConfirmed);
  EXPECT_EQ(host.Ack(kAgain, lost, lost.end).op, LeaseOp::kStale);
}

// Two resets in a row. At the first one another worker holds the lease, and then returns it.
TEST(LeaseBookFaultsTest, ALeaseThatItsWorkerHasDroppedIsReturned) {
  Host host;
  host.Open(kAnn, OpenOf(0));
  const LeaseFrame taken = host.Take(kAnn);
  host.Gone(kAnn, /*is_blamed=*/false);
  host.Open(kBob, OpenOf(1));
  EXPECT_EQ(host.Take(kBob).begin, taken.begin);
  const LeaseFrame present{
      .op = LeaseOp::kPresent, .lease = taken.lease, .begin = taken.begin, .end = taken.end};
  host.Open(kAnn, OpenOf(0));
  EXPECT_EQ(host.One(kAnn, present).op, LeaseOp::kStale);
  host.Gone(kBob, /*is_blamed=*/false);
  host.Open(kAnn, OpenOf(0));
  EXPECT_EQ(host.One(kAnn, present).op, LeaseOp::kPresented) << "said before the stale was heard";
  host.Say(kAnn, {.op = LeaseOp::kReturn, .lease = taken.lease});
  EXPECT_EQ(host.book.Views().front().leased, 0u);
  EXPECT_EQ(host.Take(kAnn).begin, taken.begin) << "at once, and not after a deadline";
  host.Say(kAnn, {.op = LeaseOp::kReturn, .lease = taken.lease});  // a repetition does nothing
  EXPECT_GT(host.book.Views().front().leased, 0u);
}

TEST(LeaseBookFaultsTest, APositionOfAnotherJobIsAdoptedWhenTheDataAreTheSame) {
  Host first;
  first.book = LeaseBook("calm.g1");
  first.Boot();
  LeaseOpen alone = Following(0, 1);
  alone.world_size = 1;
  first.Open(kAnn, alone);
  first.Ack(kAnn, first.Take(kAnn), 4);
  const std::string position = first.Mark(kAnn, 5);
  EXPECT_EQ(position, "calm.g1.g1.0.s5");
  EXPECT_EQ(LeaseBook::JobOf(position), "calm.g1");
  LeaseBook folded(LeaseBook::JobOf(position));
  for (const LeaseFact& fact : first.journal) folded.Restore(fact);

  Host second;
  LeaseActions actions;
  EXPECT_FALSE(second.book.Adopt(kAnn, position, folded, &actions)) << "nobody asked";
  second.Open(kAnn, alone);
  EXPECT_TRUE(second.book.Lacks(kAnn, position));
  EXPECT_FALSE(second.book.Lacks(kAnn, ""));
  EXPECT_FALSE(second.book.Adopt(kAnn, "calm.g1.g1.0.s6", folded, &actions));
  EXPECT_TRUE(second.book.Adopt(kAnn, position, folded, &actions));
  second.Keep(&actions);
  EXPECT_FALSE(second.book.Lacks(kAnn, position));
  EXPECT_EQ(second.Rewind(kAnn, position + "\n/runs/first").op, LeaseOp::kRewound);
  EXPECT_EQ(second.done(), 4u);
  EXPECT_EQ(second.Take(kAnn).begin, 4u);
  second.Restart(second.journal.size());
  EXPECT_EQ(second.done(), 4u) << "it is a fact of this job, too";

  Host other;
  alone.terms = "others";
  other.Open(kAnn, alone);
  EXPECT_FALSE(other.book.Adopt(kAnn, position, folded, &actions));
  EXPECT_FALSE(other.book.Adopt(kAnn, position, std::vector<OrdinalRange>{{99, 101}}, &actions));
  EXPECT_TRUE(other.book.Adopt(kAnn, position, std::vector<OrdinalRange>{{99, 100}}, &actions));
}

TEST(LeaseBookFaultsTest, ALongQuarantineIsCutToTheFrameAndItsTotalIsKnown) {
  Host host;
  LeaseOpen open = OpenOf(0);
  open.ordinals = 40'000;
  host.Open(kAnn, open);
  for (uint64_t bad = 0; bad < open.ordinals; bad += 2) {
    using Kind = LeaseFact::Kind;
    host.journal.push_back({.kind = Kind::kQuarantined, .set = 1, .begin = bad, .end = bad + 1});
    host.journal.push_back({.kind = Kind::kDone, .set = 1, .begin = bad + 1, .end = bad + 2});
  }
  host.Restart(host.journal.size());
  host.Open(kAnn, open);
  const LeaseFrame end = host.Take(kAnn);
  EXPECT_EQ(end.op, LeaseOp::kComplete);
  EXPECT_EQ(end.begin, open.ordinals / 2);
  std::string bytes;
  AppendFrame(end, &bytes);
  std::vector<LeaseFrame> received;
  EXPECT_EQ(TakeFrames(bytes, &received), bytes.size());
  const auto told = RangesFromText(end.text);
  ASSERT_TRUE(told.has_value());
  EXPECT_GT(told->size(), 10'000u);
  EXPECT_EQ(told->back().begin, 2 * (told->size() - 1)) << "whole numbers, without a gap";
}

TEST(LeaseBookFaultsTest, ARefusalThatRepeatsLongTermsFitsInAFrame) {
  Host host;
  LeaseOpen open = OpenOf(0);
  open.terms = std::string(60'000, 'a');
  host.Open(kAnn, open);
  open.terms = std::string(60'000, 'b');
  const LeaseFrame refused = host.Open(kBob, open);
  EXPECT_EQ(refused.op, LeaseOp::kRefused);
  EXPECT_LE(refused.text.size(), kLeaseFrameTextMax);
  EXPECT_TRUE(refused.text.ends_with("as they were")) << "the last line is the fix";
}

}  // namespace
}  // namespace paceline

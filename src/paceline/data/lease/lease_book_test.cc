#include "paceline/data/lease/lease_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "paceline/data/lease/lease_book_host.h"

namespace paceline {
namespace {

TEST(LeaseBookTest, GrantsGoAtOnceAndAcksArePromises) {
  Host host;
  EXPECT_EQ(host.Open(kAnn, OpenOf(0)).op, LeaseOp::kOpened);
  const LeaseFrame granted = host.Take(kAnn);
  EXPECT_EQ(granted.op, LeaseOp::kGranted);
  EXPECT_EQ(host.answers.front().after, 0u) << "a lease need not be durable";
  EXPECT_EQ(granted.end - granted.begin, 10u);
  EXPECT_EQ(host.Ack(kAnn, granted, 10).op, LeaseOp::kConfirmed);
  EXPECT_EQ(host.answers.front().after, host.journal.size()) << "an ack is";
  EXPECT_EQ(host.done(), 10u);
}

TEST(LeaseBookTest, WhatAnEndedProcessHeldGoesToWhoWaits) {
  Host host;
  LeaseOpen small = OpenOf(0);
  small.ordinals = 10;
  host.Open(kAnn, small);
  const LeaseFrame all = host.Take(kAnn);
  small.rank = 1;
  host.Open(kBob, small);
  while (host.Take(kBob).op == LeaseOp::kGranted) continue;
  host.Gone(kAnn, /*is_blamed=*/true);
  const std::vector<LeaseFrame> told = host.To(kBob);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].op, LeaseOp::kGranted);
  EXPECT_EQ(told[0].begin, all.begin);
}

TEST(LeaseBookTest, ASilentNodesLeasesComeBackAfterAWhileAndABackAgentKeepsThem) {
  Host host;
  host.Open(kAnn, OpenOf(0));
  const LeaseFrame granted = host.Take(kAnn);
  host.book.LinkBroken(At(100), kAnn.link, LeaseBook::kLinkPatience);
  EXPECT_EQ(host.book.NextDeadline(), At(1'100));
  // The same process through another agent.
  const LeasePeer again{2, 9};
  host.Open(again, OpenOf(0));
  host.Tick(1'200);
  EXPECT_EQ(host.Ack(again, granted, granted.end, 1'200).op, LeaseOp::kConfirmed);
  const LeaseFrame next = host.Take(again, 1'200);
  host.book.LinkBroken(At(1'300), again.link, LeaseBook::kLinkPatience);
  host.Tick(2'300);
  EXPECT_EQ(host.book.Views().front().open_leases, 0u);
  EXPECT_EQ(host.Ack(again, next, next.end, 2'300).op, LeaseOp::kReset) << "it must open again";
}

TEST(LeaseBookTest, AnotherMasterTakesPresentedLeasesAndKnowsWhatWasDone) {
  Host host;
  host.Open(kAnn, OpenOf(0));
  const LeaseFrame one = host.Take(kAnn);
  const LeaseFrame two = host.Take(kAnn);
  host.Ack(kAnn, one, one.begin + 4);
  const size_t durable = host.journal.size();
  host.Ack(kAnn, one, one.begin + 6);
  host.Restart(durable);
  EXPECT_EQ(host.Ack(kAnn, one, 7).op, LeaseOp::kReset);
  host.Open(kAnn, OpenOf(0));
  // The process has received no confirmation.
  const auto present = [&](const LeaseFrame& lease) {
    return host.One(kAnn, {.op = LeaseOp::kPresent,
                           .number = lease.begin,
                           .lease = lease.lease,
                           .begin = lease.begin,
                           .end = lease.end});
  };
  const LeaseFrame back = present(one);
  EXPECT_EQ(back.op, LeaseOp::kPresented);
  EXPECT_EQ(back.begin, one.begin + 4) << "what was durable is not done twice";
  EXPECT_EQ(present(two).begin, two.begin);
  EXPECT_EQ(host.Ack(kAnn, one, one.end).op, LeaseOp::kConfirmed);
  EXPECT_EQ(present(one).begin, one.end) << "all of it is done";
  EXPECT_EQ(host.Ack(kAnn, one, one.end).op, LeaseOp::kConfirmed) << "said twice, done once";
  const LeaseFrame later = host.Take(kAnn);
  EXPECT_GT(later.lease, two.lease);
  EXPECT_EQ(later.begin, two.end);
}

TEST(LeaseBookTest, AWorkerOfAnOlderGenerationIsFenced) {
  Host host;
  host.Open(kAnn, OpenOf(0, 1));
  const LeaseFrame granted = host.Take(kAnn);
  host.Open(kBob, OpenOf(1, 2));
  EXPECT_EQ(host.To(kAnn).front().op, LeaseOp::kFenced);
  EXPECT_EQ(host.Ack(kAnn, granted, granted.end).op, LeaseOp::kReset);
  EXPECT_EQ(host.Open(kAnn, OpenOf(0, 1)).op, LeaseOp::kFenced);
  EXPECT_EQ(host.Take(kBob).begin, granted.begin) << "what it held comes first";
}

TEST(LeaseBookTest, OtherDataUnderTheSameNameIsRefusedAndOtherNamesDoNotMix) {
  Host host;
  host.Open(kAnn, OpenOf(0));
  LeaseOpen other = OpenOf(1);
  other.terms = "{\"seed\":8}";
  EXPECT_EQ(host.Open(kBob, other).op, LeaseOp::kRefused);
  other.name = "eval";
  EXPECT_EQ(host.Open(kBob, other).op, LeaseOp::kOpened);
  const LeaseFrame train = host.Take(kAnn);
  const LeaseFrame eval = host.Take(kBob);
  EXPECT_EQ(eval.begin, train.begin);
  host.Ack(kBob, eval, eval.end);
  EXPECT_EQ(host.book.Views()[0].done, 0u);
  EXPECT_EQ(host.book.Views()[1].done, 10u);
  EXPECT_EQ(host.Ack(kBob, train, train.end).op, LeaseOp::kConfirmed)
      << "each data set has its own ids: this is eval's lease again";
  EXPECT_EQ(host.book.Views()[0].done, 0u);
}

TEST(LeaseBookTest, APoisonedSampleCostsThatSample) {
  Host host;
  host.Open(kAnn, OpenOf(0));
  constexpr uint64_t kBad = 13;
  LeaseFrame taken = host.Take(kAnn);
  for (int turn = 0; taken.op == LeaseOp::kGranted && turn < 100; ++turn) {
    if (taken.begin <= kBad && kBad < taken.end) {
      if (kBad > taken.begin) host.Ack(kAnn, taken, kBad);
      host.Say(kAnn, {.op = LeaseOp::kFail, .lease = taken.lease, .begin = kBad, .end = kBad + 1});
    } else {
      host.Ack(kAnn, taken, taken.end);
    }
    taken = host.Take(kAnn);
  }
  EXPECT_EQ(taken.op, LeaseOp::kComplete);
  EXPECT_EQ(taken.text, "13");
  EXPECT_EQ(host.done(), 99u);
  host.Restart(host.journal.size());
  EXPECT_EQ(host.book.Views().front().quarantined, (std::vector<OrdinalRange>{{13, 14}}));
  EXPECT_TRUE(host.book.Views().front().is_complete);
}

TEST(LeaseBookTest, APositionHasWhatEachRankDidBeforeItsOwnMark) {
  Host host;
  host.Open(kAnn, Following(0, 1));
  host.Open(kBob, Following(1, 1));
  const LeaseFrame ann = host.Take(kAnn);
  const LeaseFrame bob = host.Take(kBob);
  host.Ack(kAnn, ann, ann.begin + 3);
  const std::string position = host.Mark(kAnn, 5);
  host.Ack(kAnn, ann, ann.begin + 7);  // after its mark: not part of the step
  host.Ack(kBob, bob, bob.begin + 2);  // before its mark: part of the step
  EXPECT_EQ(host.Mark(kBob, 5), position);
  host.Ack(kBob, bob, bob.end);
  EXPECT_EQ(host.done(), 17u);

  host.Open(kAnn, Following(0, 2));
  EXPECT_EQ(host.Rewind(kAnn, position).op, LeaseOp::kRewound);
  EXPECT_EQ(host.done(), 5u);
  EXPECT_EQ(host.Take(kAnn).begin, ann.begin + 3);
  EXPECT_EQ(host.Rewind(kAnn, position).op, LeaseOp::kRewound) << "said again: nothing happens";
  EXPECT_EQ(host.book.Views().front().open_leases, 1u);
}

TEST(LeaseBookTest, AGenerationThatRestoresNothingBeginsAtTheBeginning) {
  Host host;
  host.Open(kAnn, Following(0, 1));
  host.Ack(kAnn, host.Take(kAnn), 10);
  host.Open(kAnn, Following(0, 2));
  EXPECT_EQ(host.Take(kAnn).begin, 0u);
  EXPECT_EQ(host.done(), 0u);
}

TEST(LeaseBookTest, WhoHasNotRewoundYetWaits) {
  Host host;
  host.Open(kAnn, Following(0, 1));
  host.Open(kBob, Following(1, 1));
  host.Mark(kAnn, 0);
  const std::string position = host.Mark(kBob, 0);
  EXPECT_EQ(host.Rewind(kAnn, position).op, LeaseOp::kRewound);
  EXPECT_EQ(host.Take(kBob).op, LeaseOp::kWait);
  const std::vector<LeaseFrame> told =
      host.Say(kBob, {.op = LeaseOp::kRewind, .number = 1, .text = position});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].op, LeaseOp::kRewound) << "what it asked for before is of the past";
  EXPECT_EQ(host.Take(kBob).op, LeaseOp::kGranted);
}

TEST(LeaseBookTest, AnUnknownPositionIsRefused) {
  Host host;
  host.Open(kAnn, Following(0, 1));
  EXPECT_EQ(host.Rewind(kAnn, "g9.0.s1").op, LeaseOp::kRefused);
}

TEST(LeaseBookTest, EveryPrefixOfTheFactsAndEverySummaryFoldsToTheSame) {
  Host host;
  host.Open(kAnn, Following(0, 1));
  host.Open(kBob, Following(1, 1));
  std::vector<uint64_t> done = {};
  std::vector<std::string> summaries;
  const auto note = [&] {
    std::string text;
    for (const LeaseFact& fact : host.book.Summary()) {
      if (fact.kind == LeaseFact::Kind::kBooted) continue;
      text += std::to_string(static_cast<int>(fact.kind)) + " " + std::to_string(fact.begin) + " " +
              std::to_string(fact.end) + " " + fact.text + "\n";
    }
    summaries.resize(host.journal.size() + 1);
    summaries[host.journal.size()] = text;
  };
  const auto work = [&](LeasePeer who, uint64_t step) {
    const LeaseFrame taken = host.Take(who);
    note();
    host.Ack(who, taken, taken.begin + 1);
    note();
    host.Mark(who, step);
    note();
    host.Ack(who, taken, taken.end);
    note();
  };
  work(kAnn, 1), work(kBob, 1), work(kBob, 2), work(kAnn, 2);
  host.Open(kAnn, Following(0, 2));
  note();
  host.Rewind(kAnn, "g1.0.s1");
  note();
  host.Ack(kAnn, host.Take(kAnn), 3);
  note();
  host.Gone(kAnn, /*is_blamed=*/true);
  note();
  const std::vector<LeaseFact> all = host.journal;
  for (size_t count = 1; count <= all.size(); ++count) {
    if (summaries[count].empty()) continue;
    Host next;
    next.journal = all;
    next.Restart(count);
    std::string text;
    Host from_summary;
    from_summary.summary = next.book.Summary();
    from_summary.journal.clear();
    from_summary.Restart(0);
    for (const LeaseBook* book : {&next.book, &from_summary.book}) {
      text.clear();
      for (const LeaseFact& fact : book->Summary()) {
        if (fact.kind == LeaseFact::Kind::kBooted) continue;
        text += std::to_string(static_cast<int>(fact.kind)) + " " + std::to_string(fact.begin) +
                " " + std::to_string(fact.end) + " " + fact.text + "\n";
      }
      ASSERT_EQ(text, summaries[count]) << count;
    }
  }
}

TEST(LeaseBookTest, RangesAreTextAndBack) {
  const std::vector<OrdinalRange> ranges = {{0, 1}, {5, 100}};
  EXPECT_EQ(RangesToText(ranges), "0,5-99");
  EXPECT_EQ(RangesFromText("0,5-99"), ranges);
  EXPECT_EQ(RangesFromText("5-4"), std::nullopt);
  EXPECT_EQ(RangesFromText("x"), std::nullopt);
}

TEST(LeaseFrameTest, FramesAreBytesAndBackAndHostileBytesAreNone) {
  const LeaseFrame frame{.op = LeaseOp::kPresent,
                         .flags = 1,
                         .peer = 3,
                         .number = 4,
                         .lease = 5,
                         .begin = 6,
                         .end = 7,
                         .text = "text"};
  std::string bytes;
  AppendFrame(frame, &bytes);
  AppendFrame({.op = LeaseOp::kPing}, &bytes);
  std::vector<LeaseFrame> frames;
  EXPECT_EQ(TakeFrames(bytes.substr(0, bytes.size() - 1), &frames), kLeaseFrameHeadBytes + 4);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0], frame);
  EXPECT_EQ(TakeFrames(std::string(64, '\0'), &frames), std::nullopt);
  EXPECT_EQ(TakeFrames(std::string(64, '\xff'), &frames), std::nullopt);
  const LeaseOpen open = OpenOf(1);
  EXPECT_EQ(ParseOpen(EncodeOpen(open)), open);
  EXPECT_EQ(ParseOpen(""), std::nullopt);
  EXPECT_EQ(ParseOpen(std::string(200, '\xff')), std::nullopt);
}

// ---- a common last step ----

LeaseOpen Even(uint64_t rank, uint64_t ordinals, uint64_t generation = 1) {
  LeaseOpen open = Following(rank, generation);
  open.is_even = true;
  open.ordinals = ordinals;
  return open;
}

// Takes all that a rank gets without acknowledging it. Sets `end` to the last answer.
uint64_t TakeAll(Host* host, LeasePeer peer, LeaseFrame* end) {
  uint64_t total = 0;
  for (*end = host->Take(peer); end->op == LeaseOp::kGranted; *end = host->Take(peer)) {
    total += end->end - end->begin;
  }
  return total;
}

TEST(LeaseBookTest, RanksOfAnEvenDataSetGetEqualSharesAndWaitForNobody) {
  for (uint64_t ordinals = 2; ordinals < 40; ++ordinals) {
    Host host;
    host.Open(kAnn, Even(0, ordinals));
    LeaseFrame end;
    EXPECT_EQ(TakeAll(&host, kAnn, &end), ordinals / 2) << "before the other one has opened";
    EXPECT_EQ(end.op, LeaseOp::kComplete);
    EXPECT_EQ(end.end, ordinals % 2) << "nobody gets that";
    host.Open(kBob, Even(1, ordinals));
    EXPECT_EQ(TakeAll(&host, kBob, &end), ordinals / 2);
    EXPECT_EQ(end.op, LeaseOp::kComplete);
    EXPECT_EQ(end.end, ordinals % 2);
  }
}

TEST(LeaseBookTest, AnUnevenDataSetHandsOutEverything) {
  Host host;
  LeaseOpen open = Following(0, 1);
  open.ordinals = 31;
  host.Open(kAnn, open);
  LeaseFrame end;
  EXPECT_EQ(TakeAll(&host, kAnn, &end), 31u);
  EXPECT_EQ(end.op, LeaseOp::kWait) << "for what it holds itself";
}

TEST(LeaseBookTest, AnotherMasterWaitsUntilAllRanksSaidWhatTheyHave) {
  Host host;
  host.Open(kAnn, Even(0, 30));
  host.Open(kBob, Even(1, 30));
  const LeaseFrame first = host.Take(kAnn);
  host.Ack(kAnn, first, first.end);
  const uint64_t had = first.end - first.begin;
  const LeaseFrame second = host.Take(kBob);
  host.Ack(kBob, second, second.end);
  const uint64_t others = second.end - second.begin;
  host.Restart(host.journal.size());
  const auto open_again = [&host](LeasePeer peer, uint64_t rank, uint64_t granted) {
    host.Say(peer, {.op = LeaseOp::kOpen, .begin = granted, .text = EncodeOpen(Even(rank, 30))});
  };
  open_again(kAnn, 0, had);
  LeaseFrame end;
  uint64_t more = TakeAll(&host, kAnn, &end);
  EXPECT_EQ(end.op, LeaseOp::kWait) << "what rank 1 has is not known";
  EXPECT_LE(had + more, 15u);
  open_again(kBob, 1, others);
  for (const LeaseFrame& told : host.To(kAnn)) {
    if (told.op == LeaseOp::kGranted) more += told.end - told.begin;
  }
  more += TakeAll(&host, kAnn, &end);
  EXPECT_EQ(end.op, LeaseOp::kComplete);
  EXPECT_EQ(had + more, 15u);
  EXPECT_EQ(others + TakeAll(&host, kBob, &end), 15u);
}

TEST(LeaseBookTest, ARewindSharesAnewAmongAsManyRanksAsThereAre) {
  Host host;
  host.Open(kAnn, Even(0, 31));
  host.Open(kBob, Even(1, 31));
  const LeaseFrame granted = host.Take(kAnn);
  host.Ack(kAnn, granted, granted.end);
  host.Mark(kAnn, 1);
  const std::string position = host.Mark(kBob, 1);
  LeaseOpen three = Even(0, 31, 2);
  three.world_size = 3;
  host.Open({3, 1}, three);
  EXPECT_EQ(host.Rewind({3, 1}, position).op, LeaseOp::kRewound);
  LeaseFrame end;
  const uint64_t left = 31 - (granted.end - granted.begin);
  EXPECT_EQ(TakeAll(&host, {3, 1}, &end), left / 3);
  EXPECT_EQ(end.end, left % 3);
}

// The final answer for a rank whose first sample fails at every read.
LeaseFrame FailUntilTheEnd(Host* host, LeasePeer peer, uint64_t bad) {
  for (int i = 0; i < 1'000; ++i) {
    const LeaseFrame granted = host->Take(peer);
    if (granted.op != LeaseOp::kGranted) return granted;
    if (granted.begin <= bad && bad < granted.end) {
      host->Say(peer, {.op = LeaseOp::kFail,
                       .number = 9,
                       .lease = granted.lease,
                       .begin = bad,
                       .end = bad + 1});
    }
  }
  return {};
}

TEST(LeaseBookTest, AFailedSampleOfTheLastStepIsAnErrorAndNoWait) {
  Host host;
  host.Open(kAnn, Even(0, 20));
  host.Open(kBob, Even(1, 20));
  LeaseFrame end;
  EXPECT_EQ(TakeAll(&host, kBob, &end), 10u);
  EXPECT_EQ(FailUntilTheEnd(&host, kAnn, 19).op, LeaseOp::kRefused);
}

TEST(LeaseBookTest, AFailedSampleThatNobodyHasMoreThanIsLeftOut) {
  Host host;
  LeaseOpen alone = Even(0, 20);
  alone.world_size = 1;
  host.Open(kAnn, alone);
  EXPECT_EQ(FailUntilTheEnd(&host, kAnn, 3).op, LeaseOp::kComplete);
  EXPECT_EQ(host.book.Views().front().quarantined, (std::vector<OrdinalRange>{{3, 4}}));
}

TEST(LeaseBookTest, RanksThatDisagreeAboutEvenSharesAreRefused) {
  EXPECT_EQ(ParseOpen(EncodeOpen(Even(1, 7))), Even(1, 7));
  Host host;
  host.Open(kAnn, Even(0, 100));
  EXPECT_EQ(host.Open(kBob, Following(1, 1)).op, LeaseOp::kRefused);
}

}  // namespace
}  // namespace paceline

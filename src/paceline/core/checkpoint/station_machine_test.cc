#include "paceline/core/checkpoint/station_machine.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/testing/station_fixture.h"

namespace paceline::core {
namespace {

TEST_F(StationTest, ANodeWithoutACheckpointerSaysNothing) {
  Step(GenerationCarriedOut{Generation(3)});
  Step(StationLinked{});
  Report();
  EXPECT_TRUE(reports_.empty());
}

TEST_F(StationTest, ItsReportCountsOnlyWhenStorageWasLookedAt) {
  Step(GenerationCarriedOut{Generation(3)});
  ASSERT_FALSE(machine_.Refuses(0, 3, terms_).has_value());
  Step(RankOpened{1, 0, 3});
  EXPECT_EQ(Got<LookInStorage>().size(), 1u);
  Report();
  EXPECT_EQ(reports_.back().generation, Generation());
  Step(StorageLooked{StoredCheckpoint{"step-9-g1", "job", {1, 9}, 1, {}}, ""});
  Report();
  EXPECT_EQ(reports_.back().generation, Generation(3));
  EXPECT_EQ(reports_.back().stored->name, "step-9-g1");
}

// Found by the simulator: an agent that returned to old images reported before its first rank
// opened, and the world started anew although there was a checkpoint.
TEST_F(StationTest, OldImagesAloneAreNotTheWholeTruth) {
  Step(GenerationCarriedOut{Generation(3)});
  images_ = {{.rank = Rank(0), .place = "n1", .saved = {1, 9}}};
  Report();
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_.back().generation, Generation());
}

TEST_F(StationTest, StorageThatCannotBeReadIsNotEmpty) {
  Step(GenerationCarriedOut{Generation(3)});
  ASSERT_FALSE(machine_.Refuses(0, 3, terms_).has_value());
  Step(RankOpened{1, 0, 3});
  Step(StorageLooked{std::nullopt, "input/output error"});
  EXPECT_TRUE(Got<LookInStorage>().empty());
  Report();
  EXPECT_EQ(reports_.back().generation, Generation());
  EXPECT_EQ(Got<LookInStorage>().size(), 1u);  // again
}

// The directory may change between two runs.
TEST_F(StationTest, WhatWasSeenInStorageLongAgoDoesNotCount) {
  Step(GenerationCarriedOut{Generation(3)});
  ASSERT_FALSE(machine_.Refuses(0, 3, terms_).has_value());
  Step(RankOpened{1, 0, 3});
  Step(StorageLooked{.stored = StoredCheckpoint{.name = "step-9-g2"}});
  Step(RankClosed{1});
  Step(LookExpired{});
  EXPECT_TRUE(Got<LookInStorage>().empty()) << "nobody wants to know";
  Report();
  EXPECT_EQ(reports_.back().generation, Generation());
  EXPECT_FALSE(reports_.back().stored.has_value());
  Step(RankOpened{2, 0, 3});
  EXPECT_EQ(Got<LookInStorage>().size(), 1U);
  Step(LookExpired{});  // the look in progress may be outdated
  Step(StorageLooked{.stored = StoredCheckpoint{.name = "step-9-g2"}});
  EXPECT_EQ(Got<LookInStorage>().size(), 1U);
  Step(StorageLooked{});
  Report();
  EXPECT_EQ(reports_.back().generation, Generation(3));
  EXPECT_FALSE(reports_.back().stored.has_value());
}

TEST_F(StationTest, WhoeverClosesSavesNoMoreUntilHeOpensAgain) {
  Open();
  Report();
  EXPECT_TRUE(reports_.back().finished.empty());
  Step(DurabilityAsked{.peer = 1, .step = 40, .is_closing = true});
  Report();
  EXPECT_EQ(reports_.back().finished, std::vector<uint32_t>{0}) << "it waits for its last save";
  Step(RankFinished{1});
  Step(RankClosed{1});
  Report();
  EXPECT_EQ(reports_.back().finished, std::vector<uint32_t>{0}) << "its process lives";
  Step(RankOpened{2, 0, 3});
  Report();
  EXPECT_TRUE(reports_.back().finished.empty());
}

TEST_F(StationTest, ARankOfAnOlderWorldMayNotSave) {
  Open();
  const auto why = machine_.Refuses(0, 2, terms_);
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->what, "this rank is of a world that has ended");
}

TEST_F(StationTest, RanksThatDisagreeAreRefused) {
  Open();
  CheckpointTerms others = terms_;
  others.keep = 7;
  EXPECT_TRUE(machine_.Refuses(1, 3, others).has_value());
}

TEST_F(StationTest, AnOrderIsCarriedOutOnceAndAgainWhenItWasWithdrawn) {
  Open();
  Step(CheckpointOrdered{Persist()});
  EXPECT_EQ(Got<WriteImage>().size(), 1u);
  Step(CheckpointOrdered{Persist()});
  EXPECT_TRUE(Got<WriteImage>().empty());
  Step(ShardEnded{Rank(0), kSavedStep, "no space left on device", Duration()});
  Report();
  EXPECT_EQ(reports_.back().shards[0].problem, "no space left on device");
  Step(CheckpointOrdered{CheckpointOrder{}});
  Report();
  EXPECT_TRUE(reports_.back().shards.empty());
  Step(CheckpointOrdered{Persist()});
  EXPECT_EQ(Got<WriteImage>().size(), 1u);
}

TEST_F(StationTest, ALateEndOfAnotherStepSaysNothingOfThisOne) {
  Open();
  Step(CheckpointOrdered{Persist()});
  Step(ShardEnded{Rank(0), {2, 40}, "", Duration()});
  Report();
  EXPECT_FALSE(reports_.back().shards[0].is_durable);
  Step(ShardEnded{Rank(0), kSavedStep, "", Duration()});
  Report();
  EXPECT_TRUE(reports_.back().shards[0].is_durable);
}

TEST_F(StationTest, ARestoreIsAnsweredOnceItIsDecidedForThatRanksWorld) {
  Open();
  Step(RestoreAsked{1});
  EXPECT_TRUE(Got<AnswerRestore>().empty());
  CheckpointOrder order;
  order.restore = RestoreOrder{.generation = Generation(2), .saved = {1, 5}};
  Step(CheckpointOrdered{order});
  EXPECT_TRUE(Got<AnswerRestore>().empty());
  order.restore = RestoreOrder{.generation = Generation(3),
                               .from = RestoreOrder::From::kMemory,
                               .saved = {2, 8},
                               .sources = {{Rank(0), {{Rank(0), "n1"}}}}};
  Step(CheckpointOrdered{order});
  ASSERT_EQ(Got<AnswerRestore>().size(), 1u);
  EXPECT_EQ(Got<AnswerRestore>()[0].images[0].place, "n1");
  Step(CheckpointOrdered{order});
  EXPECT_TRUE(Got<AnswerRestore>().empty());
}

// Found by a user: an evaluation after the training restored what the world had started with, which
// was nothing.
TEST_F(StationTest, ARankThatHasSavedRestoresItsLastSaveOnceStorageHasIt) {
  Open();
  CheckpointOrder order;
  order.restore = RestoreOrder{.generation = Generation(3), .reason = "begins anew"};
  order.durable = SavedStep{3, 8, 1};
  Step(CheckpointOrdered{order});
  Step(RestoreAsked{1, 2, SavedStep{0, 9, 1}});
  EXPECT_EQ(Got<AnswerProblem>().size(), 1u);
  order.durable = SavedStep{3, 9, 1};
  Step(CheckpointOrdered{order});
  Step(RestoreAsked{1, 2, SavedStep{0, 9, 1}});
  ASSERT_EQ(Got<AnswerRestore>().size(), 1u);
  const AnswerRestore answer = Got<AnswerRestore>()[0];
  EXPECT_EQ(answer.order.from, RestoreOrder::From::kMemory);
  EXPECT_EQ(answer.order.saved, (SavedStep{3, 9, 1}));
  EXPECT_EQ(answer.order.world_size, 2u);
  ASSERT_EQ(answer.images.size(), 1u);
  EXPECT_EQ(answer.images[0].place, "n1");
}

TEST_F(StationTest, SourcesThatALaterMasterDoesNotKnowAreRemembered) {
  Open();
  CheckpointOrder order;
  order.restore = RestoreOrder{.generation = Generation(3),
                               .from = RestoreOrder::From::kMemory,
                               .saved = {2, 8},
                               .sources = {{Rank(0), {{Rank(0), "n1"}}}}};
  Step(CheckpointOrdered{order});
  order.restore->sources.clear();
  Step(CheckpointOrdered{order});
  Step(RestoreAsked{1});
  EXPECT_EQ(Got<AnswerRestore>().size(), 1u);
}

TEST_F(StationTest, AHoldIsSetOnceAndAgainInANewArena) {
  Open();
  CheckpointOrder order;
  order.hold = SavedStep{3, 50};
  Step(CheckpointOrdered{order});
  EXPECT_EQ(Got<SetHold>().size(), 1u);
  Step(CheckpointOrdered{order});
  EXPECT_TRUE(Got<SetHold>().empty());
  Step(ArenaReady{});
  EXPECT_EQ(Got<SetHold>().size(), 1u);
  Step(GenerationCarriedOut{Generation(4)});
  EXPECT_EQ(Got<ClearHolds>().size(), 1u);
}

TEST_F(StationTest, WhoeverWaitsForStorageHearsOfSuccessOrOfTheProblem) {
  Open();
  Step(DurabilityAsked{1, 40});
  Report();
  EXPECT_EQ(reports_.back().flush, kSavedStep);
  CheckpointOrder order;
  order.durable = SavedStep{3, 39};
  Step(CheckpointOrdered{order});
  EXPECT_TRUE(Got<AnswerDurable>().empty());
  order.persist = Persist().persist;
  Step(CheckpointOrdered{order});
  order.persist.reset();
  order.problem = "no space left on device";
  Step(CheckpointOrdered{order});
  EXPECT_EQ(Got<AnswerProblem>().size(), 1u);
  // An earlier failure is no answer: the step is tried again.
  Step(DurabilityAsked{1, 40});
  EXPECT_TRUE(Got<AnswerProblem>().empty());
  order.problem.clear();
  order.durable = kSavedStep;
  Step(CheckpointOrdered{order});
  EXPECT_EQ(Got<AnswerDurable>().size(), 1u);
}

TEST_F(StationTest, AWaitThatIsWithdrawnGetsNoAnswer) {
  Open();
  Step(DurabilityAsked{1, 40});
  Step(WaitWithdrawn{1});
  EXPECT_EQ(Got<AnswerWithdrawn>().size(), 1u);
  Report();
  EXPECT_FALSE(reports_.back().flush.has_value());
  CheckpointOrder order;
  order.durable = kSavedStep;
  Step(CheckpointOrdered{order});
  EXPECT_TRUE(Got<AnswerDurable>().empty());
}

// After step 40 of branch 0 the script went back to step 7.
TEST_F(StationTest, AWaitIsForTheSaveAndNotForItsNumber) {
  Open();
  Step(DurabilityAsked{1, 7, 1});
  CheckpointOrder order;
  order.durable = kSavedStep;
  Step(CheckpointOrdered{order});
  EXPECT_TRUE(Got<AnswerDurable>().empty()) << "step 40 was saved before";
  order.durable = SavedStep{3, 7, 1};
  Step(CheckpointOrdered{order});
  EXPECT_EQ(Got<AnswerDurable>().size(), 1u);
}

TEST_F(StationTest, WhoeverWaitsForWhatWillNeverBeWholeIsToldAlsoWhenHeComesLater) {
  Open();
  Step(DurabilityAsked{1, 40});
  CheckpointOrder order;
  order.durable = SavedStep{3, 39};
  order.problem = "not every rank has it: rank 1 has ended, its last save is step 39";
  Step(CheckpointOrdered{order});
  ASSERT_EQ(Got<AnswerProblem>().size(), 1u);
  EXPECT_EQ(Got<AnswerProblem>()[0].what, "step 40 is not in storage");
  EXPECT_EQ(Got<AnswerProblem>()[0].why, order.problem);
  Step(DurabilityAsked{1, 40});
  EXPECT_EQ(Got<AnswerProblem>().size(), 1u);
  Step(DurabilityAsked{1, 39});
  EXPECT_EQ(Got<AnswerDurable>().size(), 1u) << "that one is there";
}

TEST_F(StationTest, WhatARankFoundDamagedIsLeftOut) {
  Open();
  images_ = {{.rank = Rank(0), .place = "n1", .saved = kSavedStep},
             {.rank = Rank(0), .place = "n1", .saved = {3, 39}}};
  Step(ImageFoundDamaged{"n1", 0, false, kSavedStep});
  Report();
  ASSERT_EQ(reports_.back().images.size(), 1u);
  EXPECT_EQ(reports_.back().images[0].saved.step, 39);
  Step(CheckpointFoundDamaged{"step-40-g3"});
  ASSERT_EQ(Got<LookInStorage>().size(), 1u);
  EXPECT_TRUE(Got<LookInStorage>()[0].except.contains("step-40-g3"));
  Report();
  EXPECT_EQ(reports_.back().damaged, std::vector<std::string>{"step-40-g3"});
}

// A rank that must restore from a copy, which this host first has to fetch.
CheckpointOrder FromCopy() {
  CheckpointOrder order;
  order.restore = RestoreOrder{.generation = Generation(3),
                               .from = RestoreOrder::From::kMemory,
                               .saved = {2, 8},
                               .world_size = 1,
                               .name = "",
                               .sources = {{Rank(0), {{Rank(0), "n1", true}}}},
                               .reason = ""};
  order.fetch = {{.rank = Rank(0), .saved = {2, 8}, .name = "", .sources = {}}};
  return order;
}

TEST_F(StationTest, ARestoreWaitsForTheCopyThatIsFetchedForIt) {
  Open();
  Step(PeersOpened{"h1:1", "h1"});
  Step(RestoreAsked{1, 1});
  Step(CheckpointOrdered{FromCopy()});
  EXPECT_TRUE(Got<AnswerRestore>().empty());
  ASSERT_EQ(Got<FetchImages>().size(), 1u);
  EXPECT_EQ(Got<FetchImages>()[0].orders.size(), 1u);
  Step(CopiesSeen{{{Rank(0), {2, 7}}}, {}});
  EXPECT_TRUE(Got<AnswerRestore>().empty());
  Step(CopiesSeen{{{Rank(0), {2, 8}}}, {}});
  ASSERT_EQ(Got<AnswerRestore>().size(), 1u);
  EXPECT_TRUE(Got<AnswerRestore>()[0].images[0].is_copy);
}

TEST_F(StationTest, ACopyThatNobodyCanGiveEndsTheRankAndIsReported) {
  Open();
  Step(PeersOpened{"h1:1", "h1"});
  Step(RestoreAsked{1, 1});
  Step(CheckpointOrdered{FromCopy()});
  // A failure of an earlier order.
  Step(CopiesSeen{{}, {{Rank(0), {2, 7}, "n2 is gone"}}});
  EXPECT_TRUE(Got<AnswerProblem>().empty());
  Step(CopiesSeen{{}, {{Rank(0), {2, 8}, "n2 is gone"}}});
  ASSERT_EQ(Got<AnswerProblem>().size(), 1u);
  EXPECT_EQ(Got<AnswerProblem>()[0].why, "rank 0: n2 is gone");
  Report();
  EXPECT_EQ(reports_.back().failed.size(), 1u);
  EXPECT_EQ(reports_.back().address, "h1:1");
}

// Found by the simulator: the rank waited for ever for a fetch that had been dropped.
TEST_F(StationTest, WhatALaterMasterDoesNotKnowIsStillFetched) {
  Open();
  Step(PeersOpened{"h1:1", "h1"});
  Step(RestoreAsked{1, 1});
  Step(CheckpointOrdered{FromCopy()});
  CheckpointOrder order = FromCopy();
  order.restore->sources.clear();
  order.fetch.clear();
  Step(CheckpointOrdered{order});
  ASSERT_EQ(Got<FetchImages>().size(), 1u);
  EXPECT_EQ(Got<FetchImages>()[0].orders.size(), 1u);
  Step(CopiesSeen{{}, {{Rank(0), {2, 8}, "n2 is gone"}}});
  EXPECT_EQ(Got<AnswerProblem>().size(), 1u);
}

TEST_F(StationTest, WithoutItsCopyARankReadsStorageByItself) {
  Open();
  Step(PeersOpened{"h1:1", "h1"});
  Step(RestoreAsked{1, 1});
  CheckpointOrder order = FromCopy();
  order.restore->from = RestoreOrder::From::kStorage;
  order.restore->name = "step-8-g2";
  Step(CheckpointOrdered{order});
  EXPECT_TRUE(Got<AnswerRestore>().empty());
  Step(CopiesSeen{{}, {{Rank(0), {2, 8}, "n2 is gone"}}});
  ASSERT_EQ(Got<AnswerRestore>().size(), 1u);
  EXPECT_TRUE(Got<AnswerRestore>()[0].images.empty());
}

// Found by the simulator (seed 1375805): a copy that was fetched again was never reported.
TEST_F(StationTest, ACopyThatComesAgainAfterADamagedOneCounts) {
  Open();
  Step(PeersOpened{"h1:1", "h1"});
  images_ = {{.rank = Rank(4), .place = "n1", .is_copy = true, .saved = kSavedStep}};
  CopiesSeen here;
  here.here = {{Rank(4), kSavedStep}};
  Step(here);
  Step(ImageFoundDamaged{"n1", 4, true, kSavedStep});
  EXPECT_EQ(Got<DropCopy>().size(), 1u);
  Report();
  EXPECT_TRUE(reports_.back().images.empty());
  Step(CopiesSeen{});
  Step(here);
  Report();
  EXPECT_EQ(reports_.back().images.size(), 1u);
}

TEST_F(StationTest, ACopyThatWasFoundDamagedGoes) {
  Open();
  Step(ImageFoundDamaged{"n2", 0, true, kSavedStep});
  EXPECT_TRUE(Got<DropCopy>().empty()) << "it is another node's";
  Step(ImageFoundDamaged{"n1", 0, true, kSavedStep});
  EXPECT_EQ(Got<DropCopy>().size(), 1u);
}

TEST_F(StationTest, WhoeverWaitsForASecondHostHearsOfItOrWhyNot) {
  Open();
  Step(ReplicaAsked{1, 40});
  CheckpointOrder order;
  order.replicated = SavedStep{3, 39};
  Step(CheckpointOrdered{order});
  EXPECT_TRUE(Got<AnswerReplicated>().empty());
  order.replicated = kSavedStep;
  Step(CheckpointOrdered{order});
  EXPECT_EQ(Got<AnswerReplicated>().size(), 1u);
  order.replica_problem = "the job has no second host";
  Step(CheckpointOrdered{order});
  Step(ReplicaAsked{1, 41});
  EXPECT_EQ(Got<AnswerProblem>().size(), 1u);
}

// A look that began before the order does not know which checkpoints to exclude.
TEST_F(StationTest, ALookThatFindsWhatTheJobKnowsAsDamagedDoesNotCount) {
  Step(GenerationCarriedOut{Generation(3)});
  ASSERT_FALSE(machine_.Refuses(0, 3, terms_).has_value());
  Step(RankOpened{1, 0, 3});
  CheckpointOrder order;
  order.damaged = {"step-9-g1"};
  Step(CheckpointOrdered{order});
  EXPECT_EQ(Got<LookInStorage>().size(), 1u);
  Step(StorageLooked{StoredCheckpoint{"step-9-g1", "job", {1, 9}, 1, {}}, ""});
  Report();
  EXPECT_EQ(reports_.back().generation, Generation());
  Step(StorageLooked{});
  Report();
  EXPECT_EQ(reports_.back().generation, Generation(3));
}

TEST_F(StationTest, NewsThatSomebodyWaitsForGoesOutAtOnceTheRestWithTheHeartbeat) {
  Open();
  Report();
  Step(ImageSealed{1});
  EXPECT_EQ(machine_.NextDeadline() - now_, Duration::Milliseconds(250));
  Step(DurabilityAsked{1, 40});
  EXPECT_EQ(machine_.NextDeadline() - now_, Duration::Milliseconds(20));
}

TEST_F(StationTest, ItsWordIsFinalWhenTheJobStopsAndItsRanksAreGone) {
  Open();
  CheckpointOrder order;
  order.is_ending = true;
  Step(CheckpointOrdered{order});
  Report();
  EXPECT_FALSE(reports_.back().is_final) << "its rank may still save";
  Step(RankClosed{1});
  Report();
  EXPECT_TRUE(reports_.back().is_final);
}

// If a master is lost together with a host, the next master does not know equal files.
TEST_F(StationTest, ALaterMasterHearsWhichFilesAreEqual) {
  Open();
  const EqualFiles equal{kSavedStep, 7, {{0, 3}}};
  CheckpointOrder order;
  order.equal = {equal, {{3, 30}, 9, {{0, 3}}}};
  Step(CheckpointOrdered{order});
  images_ = {{.rank = Rank(1), .place = "n1", .saved = kSavedStep, .file_root = 7}};
  Step(StationLinked{});
  Step(CheckpointOrdered{CheckpointOrder{}});
  Report();
  EXPECT_EQ(reports_.back().equal, std::vector<EqualFiles>{equal}) << "the other one is not here";
  for (int64_t step = 41; step < 45; ++step) {
    order.equal = {{{3, step}, 7, {{0, 3}}}};
    Step(CheckpointOrdered{order});
  }
  Step(StationLinked{});
  Report();
  EXPECT_TRUE(reports_.back().equal.empty()) << "four newer steps are remembered";
}

}  // namespace
}  // namespace paceline::core

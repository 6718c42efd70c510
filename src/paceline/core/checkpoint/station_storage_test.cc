// A node's station with a storage that is remote or does not answer.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "paceline/core/checkpoint/storage_wait.h"
#include "paceline/core/record.h"
#include "paceline/core/testing/station_fixture.h"

namespace paceline::core {
namespace {

class StationStorageTest : public StationTest {
 protected:
  // A rank of world 3 opens. No look at storage has been made.
  void Come(const std::string& directory) {
    terms_.directory = directory;
    Step(GenerationCarriedOut{Generation(3)});
    ASSERT_FALSE(machine_.Refuses(0, 3, terms_).has_value());
    Step(RankOpened{1, 0, 3});
    Step(RestoreAsked{1, 1});
  }
  // World 3 restores from an object store; with `images` its tensors come from another host.
  CheckpointOrder FromStore(const std::vector<RestoreOrder::Image>& images = {}) const {
    CheckpointOrder order;
    order.terms = terms_;
    order.restore = RestoreOrder{.generation = Generation(3),
                                 .from = RestoreOrder::From::kStorage,
                                 .saved = {2, 8},
                                 .world_size = 1,
                                 .name = "step-8-g2",
                                 .sources = {},
                                 .reason = "goes on"};
    if (images.empty()) return order;
    order.restore->sources = {{Rank(0), images}};
    order.fetch = {{.rank = Rank(0), .saved = {2, 8}, .name = "step-8-g2", .sources = {{}}}};
    return order;
  }
};

// The job may have to go on from what another master has committed.
TEST_F(StationStorageTest, ACommitThatIsPassedLeadsToALook) {
  Open();
  CheckpointOrder order = Persist();
  order.commit = *order.persist;
  Step(CheckpointOrdered{order});
  ASSERT_EQ(Got<WriteCommit>().size(), 1U);
  Step(CommitEnded{.name = "step-40-g3", .problem = "no space left on device"});
  EXPECT_TRUE(Got<LookInStorage>().empty());
  Step(CommitEnded{
      .name = "step-40-g3", .problem = "step-41-g4 is newer than step-40-g3", .is_passed = true});
  ASSERT_EQ(Got<LookInStorage>().size(), 1U);
  const StoredCheckpoint newer{.name = "step-41-g4", .saved = {4, 41}, .world_size = 1};
  Step(StorageLooked{.stored = newer});
  Report();
  EXPECT_EQ(reports_.back().stored, newer);
}

TEST_F(StationStorageTest, FilesOfAnObjectStoreAreFetchedAndFetchedAgainWhenItIsAway) {
  terms_.directory = "s3://bucket/run";
  Open();
  const CheckpointOrder order = FromStore();
  Step(CheckpointOrdered{order});
  Step(RestoreAsked{1, 1});
  ASSERT_EQ(Got<FetchStored>().size(), 1u);
  EXPECT_EQ(Got<FetchStored>()[0].ranks, std::set<uint32_t>{0});
  Step(StoredFetched{1, "step-8-g2", StoredFetched::End::kAway, "timed out", false});
  EXPECT_TRUE(Got<FetchStored>().empty());
  ASSERT_EQ(Got<AnswerNotice>().size(), 1u);
  EXPECT_EQ(Got<AnswerNotice>()[0].text,
            "step-8-g2 cannot be fetched now (timed out); trying again");
  Step(CheckpointOrdered{order});
  EXPECT_TRUE(Got<FetchStored>().empty()) << "not before its pause is over";
  now_ = now_ + Duration::Seconds(1);
  Step(StationTimePassed{});
  ASSERT_EQ(Got<FetchStored>().size(), 1u);
  Step(StoredFetched{1, "step-8-g2", StoredFetched::End::kDone, "", true});
  ASSERT_EQ(Got<AnswerRestore>().size(), 1u);
  EXPECT_TRUE(Got<AnswerRestore>()[0].is_fetched);
  EXPECT_EQ(Got<AnswerRestore>()[0].order.reason, "goes on; its files were on this host");
  // The rank needs the images of the other ranks as well.
  Step(RestoreAsked{1, 0});
  ASSERT_EQ(Got<FetchStored>().size(), 1u);
  EXPECT_TRUE(Got<FetchStored>()[0].ranks.empty());
  Step(StoredFetched{1, "step-8-g2", StoredFetched::End::kRefused, "no space left", false});
  EXPECT_EQ(Got<AnswerProblem>().size(), 1u);
}

// One host reads the tensors from an object store for all; each rank reads its notes there.
TEST_F(StationStorageTest, WhatAnotherHostHasReadOfAnObjectStoreIsNotFetchedFromThere) {
  terms_.directory = "s3://bucket/run";
  Open();
  Step(PeersOpened{"host:1", "d"});
  const RestoreOrder::Image image{Rank(0), "n1", true};
  Step(CheckpointOrdered{FromStore({image})});
  Step(RestoreAsked{1, 1});
  EXPECT_TRUE(Got<FetchStored>().empty()) << "they are on their way";
  CopiesSeen seen;
  seen.here = {{Rank(0), {2, 8}}};
  Step(seen);
  ASSERT_EQ(Got<FetchStored>().size(), 1u);
  EXPECT_EQ(Got<FetchStored>()[0].part, StoredPart::kNotes);
  Step(StoredFetched{1, "step-8-g2", StoredFetched::End::kDone, "", true});
  ASSERT_EQ(Got<AnswerRestore>().size(), 1u);
  EXPECT_EQ(Got<AnswerRestore>()[0].images, std::vector{image});
  EXPECT_EQ(Got<AnswerRestore>()[0].order.reason, "goes on");
  // In another layout it needs those of the other ranks as well.
  Step(RestoreAsked{1, 0});
  ASSERT_EQ(Got<FetchStored>().size(), 1u);
  EXPECT_EQ(Got<FetchStored>()[0].part, StoredPart::kAll);
  EXPECT_TRUE(Got<FetchStored>()[0].ranks.empty());
}

// In a world of another size each rank reads parts of all files.
TEST_F(StationStorageTest, WhatHostsShareIsAskedForByChunks) {
  terms_.directory = "s3://bucket/run";
  Open();
  Step(PeersOpened{"host:1", "d"});
  CheckpointOrder order = FromStore();
  order.readers = {{"n1", "host:1"}, {"n2", "host:2"}};
  Step(CheckpointOrdered{order});
  ASSERT_EQ(Got<ShareReading>().size(), 1u);
  EXPECT_EQ(Got<ShareReading>()[0].readers, order.readers);
  EXPECT_EQ(Got<ShareReading>()[0].directory, terms_.directory);
  Step(CheckpointOrdered{order});
  EXPECT_TRUE(Got<ShareReading>().empty()) << "it was told";
  Step(CopiesSeen{});
  Step(RestoreAsked{1, 2});
  ASSERT_EQ(Got<FetchStored>().size(), 1u);
  EXPECT_EQ(Got<FetchStored>()[0].part, StoredPart::kManifest);
  Step(StoredFetched{1, "step-8-g2", StoredFetched::End::kDone, "", false});
  ASSERT_EQ(Got<AnswerRestore>().size(), 1u);
  EXPECT_TRUE(Got<AnswerRestore>()[0].is_shared);
  // All ranks have saved: chunks are not cached for others any more.
  order.readers.clear();
  Step(CheckpointOrdered{order});
  ASSERT_EQ(Got<ShareReading>().size(), 1u);
  EXPECT_TRUE(Got<ShareReading>()[0].readers.empty());
}

TEST_F(StationStorageTest, AFailedReadForAllLeavesEachHostItsOwn) {
  terms_.directory = "s3://bucket/run";
  Open();
  Step(PeersOpened{"host:1", "d"});
  Step(CheckpointOrdered{FromStore({{Rank(0), "n1", true}})});
  Step(RestoreAsked{1, 1});
  CopiesSeen seen;
  seen.failed = {{Rank(0), {2, 8}, "no room"}};
  Step(seen);
  ASSERT_EQ(Got<FetchStored>().size(), 1u);
  EXPECT_EQ(Got<FetchStored>()[0].part, StoredPart::kAll);
}

TEST_F(StationStorageTest, WhoeverWaitsForStorageThatIsAwayIsToldOnce) {
  Come("s3://bucket/run");
  for (const bool is_first : {true, false}) {
    Step(StorageLooked{std::nullopt, "timed out"});
    ASSERT_EQ(Got<AnswerNotice>().size(), is_first ? 1u : 0u);
    if (!is_first) continue;
    EXPECT_EQ(Got<AnswerNotice>()[0].text,
              "s3://bucket/run cannot be read now (timed out); trying again");
  }
  // A refusal after a successful look may pass, as when credentials are renewed.
  Step(StorageLooked{});
  Step(StorageLooked{std::nullopt, "denied", true});
  EXPECT_EQ(Got<AnswerNotice>().size(), 1u);
  EXPECT_TRUE(Got<AnswerProblem>().empty());
}

TEST_F(StationStorageTest, WhoeverWaitsForStorageThatDoesNotAnswerIsToldOnce) {
  Come("/far");
  const Instant began = now_;
  for (const int64_t seconds : {1, 10, 11, 60}) {
    now_ = began + Duration::Seconds(seconds);
    Step(StationTimePassed{});
    ASSERT_EQ(Got<AnswerNotice>().size(), seconds == 10 ? 1u : 0u) << seconds;
    if (seconds == 1) {
      EXPECT_LE(machine_.NextDeadline(), began + Duration::Seconds(10));
    }
    if (seconds != 10) continue;
    EXPECT_EQ(Got<AnswerNotice>()[0].text,
              "/far does not answer; this rank waits for it, unless memory is known to hold the "
              "newest step");
  }
  // A rank that opens later is told as well.
  Step(RankOpened{2, 1, 3});
  Step(RestoreAsked{2, 2});
  ASSERT_EQ(Got<AnswerNotice>().size(), 1u);
  EXPECT_EQ(Got<AnswerNotice>()[0].peer, 2u);
  Step(StorageLooked{});
  now_ = now_ + Duration::Seconds(60);
  Step(StationTimePassed{});
  EXPECT_TRUE(Got<AnswerNotice>().empty());
}

TEST_F(StationStorageTest, ANodeThatCannotSeeStorageSaysSoAfterAWhile) {
  Come("s3://bucket/run");
  const Instant began = now_;
  Report();
  ASSERT_FALSE(reports_.empty());
  EXPECT_EQ(reports_.back().generation, Generation());
  Step(StorageLooked{std::nullopt, "timed out"});
  now_ = began + Duration::Seconds(10);
  Step(StationTimePassed{});
  Step(StorageLooked{std::nullopt, "timed out"});
  Report();
  EXPECT_TRUE(reports_.back().is_blind);
  EXPECT_EQ(reports_.back().generation, Generation(3));
  Step(StorageLooked{});
  Report();
  EXPECT_FALSE(reports_.back().is_blind);
  EXPECT_EQ(reports_.back().generation, Generation(3));
}

TEST(StorageMending, ADirectoryThatIsGoneIsMadeAgain) {
  const std::string gone = "rank 0: cannot make /ck/step-75-g1: No such file or directory";
  EXPECT_EQ(MendingOf("/ck", gone), "mkdir /ck, or move it back");
  EXPECT_EQ(MendingOf("s3://bucket/ck", gone), "make room there or correct its access rights");
  EXPECT_EQ(MendingOf("/ck", "/ck: No space left on device"),
            "make room there or correct its access rights");
  const Record told{.fact =
                        CheckpointNotStored{.saved = {1, 75}, .directory = "/ck", .reason = gone}};
  EXPECT_NE(Sentence(told).find("; mkdir /ck, or move it back; paceline tries again by itself"),
            std::string::npos)
      << Sentence(told);
}

TEST_F(StationStorageTest, APlaceThatLetsNobodyInIsAnError) {
  Come("s3://bukket/run");
  Step(StorageLooked{std::nullopt, "NoSuchBucket", true});
  ASSERT_EQ(Got<AnswerProblem>().size(), 1u);
  EXPECT_EQ(Got<AnswerProblem>()[0].what,
            "no process of this job may read the checkpoints in s3://bukket/run");
  EXPECT_EQ(Got<AnswerProblem>()[0].why, "NoSuchBucket");
  Step(StorageLooked{std::nullopt, "NoSuchBucket", true});
  EXPECT_TRUE(Got<AnswerProblem>().empty());
}

TEST_F(StationStorageTest, ADirectoryWithoutRightsIsAnErrorWhenMemoryHadTheTimeToAnswer) {
  Come("/run");
  const StorageLooked denied{std::nullopt, "cannot list /run: Permission denied", true};
  Step(denied);
  EXPECT_TRUE(Got<AnswerProblem>().empty());
  ASSERT_EQ(Got<AnswerNotice>().size(), 1u);
  now_ = now_ + Duration::Seconds(10);
  Step(StationTimePassed{});
  Step(denied);
  ASSERT_EQ(Got<AnswerProblem>().size(), 1u);
  EXPECT_EQ(Got<AnswerProblem>()[0].what,
            "no process of this job may read the checkpoints in /run");
  EXPECT_EQ(Got<AnswerProblem>()[0].fix,
            "correct the access rights; to start at step 0 could hide checkpoints that are there");
}

}  // namespace
}  // namespace paceline::core

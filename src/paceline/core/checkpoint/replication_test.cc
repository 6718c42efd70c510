// Copies on other hosts, and restores from them: the ledger is real, the test plays its hosts.

#include "paceline/core/checkpoint/replication.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "paceline/core/testing/hosts_fixture.h"

namespace paceline::core {
namespace {

TEST(Placement, GroupsAsInGemini) {
  using Holders = std::vector<size_t>;
  EXPECT_EQ(HoldersFor(0, 4, 1), (Holders{1, 2, 3}));
  EXPECT_EQ(HoldersFor(1, 4, 1), (Holders{0, 2, 3}));
  EXPECT_EQ(HoldersFor(2, 4, 1), (Holders{3, 0, 1}));
  // With an odd number the last group is a ring of three.
  EXPECT_EQ(HoldersFor(2, 5, 1).front(), 3u);
  EXPECT_EQ(HoldersFor(3, 5, 1).front(), 4u);
  EXPECT_EQ(HoldersFor(4, 5, 1).front(), 2u);
  EXPECT_TRUE(HoldersFor(0, 1, 1).empty());
  for (size_t count = 2; count < 12; ++count) {
    for (uint32_t replicas = 1; replicas < 5; ++replicas) {
      std::vector<int> load(count);
      for (size_t i = 0; i < count; ++i) {
        Holders holders = HoldersFor(i, count, replicas);
        for (size_t k = 0; k < std::min<size_t>(replicas, holders.size()); ++k) ++load[holders[k]];
        std::sort(holders.begin(), holders.end());
        EXPECT_EQ(std::unique(holders.begin(), holders.end()), holders.end());
        EXPECT_EQ(holders.size(), count - 1);
        EXPECT_FALSE(std::binary_search(holders.begin(), holders.end(), i));
      }
      const int most = *std::max_element(load.begin(), load.end());
      EXPECT_EQ(*std::min_element(load.begin(), load.end()), most) << "everybody holds as many";
    }
  }
}

TEST_F(Hosts, EveryImageIsCopiedToAnotherHost) {
  Make(4);
  Form(1, {0, 1, 2, 3});
  Save(5, {1, 2, 3, 4});
  Tell();
  EXPECT_EQ(Order(0).replicas, 1u);
  EXPECT_FALSE(Order(0).replicated.has_value());
  Fetch();
  EXPECT_EQ(Order(0).replicated, (SavedStep{1, 5}));
  EXPECT_TRUE(Order(0).drop_others);
  EXPECT_EQ(fetched_,
            (std::vector<Fetched>{{0, 1, "n1"}, {1, 0, "n0"}, {2, 3, "n3"}, {3, 2, "n2"}}));
  Tell();
  EXPECT_EQ(fetched_.size(), 4u) << "nothing twice";
}

TEST_F(Hosts, EqualTensorsOnAnotherHostAreACopy) {
  Make(4);
  Form(1, {0, 1, 2, 3});
  Save(5, {7, 8});  // 0 and 2 are equal, 1 and 3 are
  Tell();
  EXPECT_EQ(Order(0).replicated, (SavedStep{1, 5}));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(Order(i).fetch.empty());
}

TEST_F(Hosts, TwoCopiesTravelFromHolderToHolder) {
  terms_.replicas = 2;
  Make(3);
  Form(1, {0, 1, 2});
  Save(5, {1, 2, 3});
  Tell();
  const std::vector<FetchOrder> first = Order(1).fetch, second = Order(2).fetch;
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].rank, Rank(0));
  EXPECT_EQ(first[0].sources.front().node, "n0");
  EXPECT_EQ(second[0].rank, Rank(0));
  EXPECT_EQ(second[0].sources.front().node, "n1") << "the saver sends it once";
  EXPECT_EQ(second[0].sources.back().node, "n0");
  Fetch();
  EXPECT_EQ(Order(0).replicated, (SavedStep{1, 5}));
}

// Hosts of one rack are lost together.
TEST_F(Hosts, CopiesCrossFailureDomains) {
  Make(4);
  hosts_[0].domain = hosts_[1].domain = "rack a";
  hosts_[2].domain = hosts_[3].domain = "rack b";
  Form(1, {0, 1, 2, 3});
  Save(5, {1, 2, 3, 4});
  Replicate();
  for (const Fetched& one : fetched_) EXPECT_NE(one.host / 2, one.rank / 2);
  EXPECT_EQ(fetched_.size(), 4u);
  for (const size_t host : {0, 1}) Lose(host);
  Make(6);
  Form(2, {4, 5, 2, 3});
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kMemory);
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 5}));
}

TEST_F(Hosts, WithoutAnotherHostThereAreNoCopies) {
  terms_.replicas = 1;
  Make(2);
  hosts_[1].domain = hosts_[0].domain;
  Form(1, {0, 1});
  Save(5, {1, 2});
  Tell();
  EXPECT_EQ(Order(0).replicas, 0u);
  EXPECT_EQ(Order(0).replica_problem, "the job has no second host");
  ASSERT_EQ(said_.size(), 1u);
}

TEST_F(Hosts, AHolderWithoutRoomIsReplaced) {
  Make(3);
  Form(1, {0, 1, 2});
  Save(5, {1, 2, 3});
  Tell();
  Fetch({1});
  EXPECT_FALSE(Order(0).replicated.has_value());
  Fetch();
  EXPECT_EQ(Order(0).replicated, (SavedStep{1, 5}));
  EXPECT_TRUE(HasCopy(2, 0, {1, 5})) << "host 2 took it instead of host 1";
  EXPECT_FALSE(HasCopy(1, 0, {1, 5}));
}

TEST_F(Hosts, WhenNobodyHasRoomItIsSaidOnceAndTriedLater) {
  Make(2);
  Form(1, {0, 1});
  Save(5, {1, 2});
  Tell();
  Fetch({0, 1});
  EXPECT_FALSE(Order(0).replica_problem.empty());
  EXPECT_TRUE(Order(0).fetch.empty());
  ASSERT_EQ(said_.size(), 1u);
  const Instant retry = ledger_.NextDeadline();
  ASSERT_FALSE(retry.is_max());
  now_ = retry;
  Save(6, {1, 2});
  Tell();
  EXPECT_GT(ledger_.NextDeadline(), now_) << "no deadline stays in the past";
  Fetch();
  EXPECT_EQ(Order(0).replicated, (SavedStep{1, 6}));
  EXPECT_TRUE(Order(0).replica_problem.empty());
}

TEST_F(Hosts, AFailedRoundKeepsTheCopiesOfTheOneBefore) {
  Make(2);
  Form(1, {0, 1});
  Save(5, {1, 2});
  Replicate();
  now_ = now_ + Duration::Seconds(1);
  Save(6, {3, 4});
  Tell();
  EXPECT_FALSE(Order(0).drop_others);
  Fetch({0, 1});
  EXPECT_EQ(Order(0).replicated, (SavedStep{1, 5}));
  ASSERT_EQ(Order(0).fetch.size(), 1u);
  EXPECT_EQ(Order(0).fetch[0].saved, (SavedStep{1, 5})) << "they shall stay";
}

TEST_F(Hosts, AJobThatEndsHasNoDeadlineForCopies) {
  Make(2);
  Form(1, {0, 1});
  Save(5, {1, 2});
  Tell();
  ASSERT_FALSE(Order(0).fetch.empty());
  is_ending_ = true;
  now_ = now_ + Duration::Seconds(3600);
  Tell();
  EXPECT_GT(ledger_.NextDeadline(), now_);
  EXPECT_TRUE(Order(0).fetch.empty());
}

// A node is replaced, and its memory is lost.
TEST_F(Hosts, AReplacedNodeFetchesItsImageFromItsHolder) {
  Make(4);
  Form(1, {0, 1, 2});
  Save(5, {1, 2, 3});
  Replicate();
  fetched_.clear();
  Lose(1);
  Form(2, {0, 3, 2});
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kMemory);
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 5}));
  EXPECT_EQ(book_.restore.reason, "goes on after step 5, from memory; rank 1's from n2's memory");
  const CheckpointOrder order = Order(3);
  ASSERT_EQ(order.fetch.size(), 1u);
  EXPECT_TRUE(order.fetch[0].is_urgent);
  EXPECT_EQ(order.fetch[0].sources[0].place, "n2");
  EXPECT_TRUE(order.fetch[0].sources[0].is_copy);
  ASSERT_EQ(order.restore->sources.size(), 1u);
  EXPECT_EQ(order.restore->sources[0].images,
            (std::vector<RestoreOrder::Image>{{Rank(1), "n3", true}}));
  EXPECT_TRUE(Order(0).fetch.empty());
  Fetch();
  EXPECT_EQ(fetched_, (std::vector<Fetched>{{3, 1, "n2"}}));
}

// Saver and holder are lost, so the job restores from storage.
TEST_F(Hosts, WhenHolderAndSaverAreLostItIsStorage) {
  Make(6);
  for (Host& host : hosts_) host.stored = StoredCheckpoint{"step-2-g1", "job", {1, 2}, 4, {}};
  Form(1, {0, 1, 2, 3});
  Save(5, {1, 2, 3, 4});
  Replicate();
  for (const size_t host : {0, 1}) Lose(host);
  Form(2, {4, 5, 2, 3});
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kStorage);
  EXPECT_EQ(book_.restore.reason,
            "goes on after step 2, from step-2-g1: no newer step is in the memory of the ranks' "
            "hosts");
}

// The source of a restore dies.
TEST_F(Hosts, WhatNobodyCouldGiveIsNotAskedForAgain) {
  Make(4);
  for (Host& host : hosts_) host.stored = StoredCheckpoint{"step-2-g1", "job", {1, 2}, 3, {}};
  Form(1, {0, 1, 2});
  Save(5, {1, 2, 3});
  Replicate();
  Lose(1);
  Form(2, {0, 3, 2});
  ASSERT_EQ(Order(3).fetch.size(), 1u);
  Fetch({3});  // its rank gets an error and ends; the next world decides again
  Form(3, {0, 3, 2});
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kStorage);
  EXPECT_TRUE(Order(3).fetch.empty());
}

// A node crashes again and again during recovery; no step is lost.
TEST_F(Hosts, CrashesDuringRecoveryCostNoStep) {
  Make(8);
  Form(1, {0, 1, 2});
  Save(5, {1, 2, 3});
  Replicate();
  Lose(1);
  for (uint64_t generation = 2; generation < 7; ++generation) {
    const size_t newest = generation + 1;
    Form(generation, {0, newest, 2});
    EXPECT_EQ(book_.restore.saved, (SavedStep{1, 5})) << generation;
    if (generation % 2 == 0) Fetch();
    if (generation < 6) Lose(newest);
  }
  EXPECT_TRUE(HasCopy(7, 1, {1, 5}));
  Save(6, {1, 2, 3});
  Replicate();
  EXPECT_EQ(Order(0).replicated, (SavedStep{6, 6}));
}

TEST_F(Hosts, ANewMasterFindsTheSamePlan) {
  Make(4);
  Form(1, {0, 1, 2});
  Save(5, {1, 2, 3});
  Replicate();
  Lose(1);
  Form(2, {0, 3, 2});
  const CheckpointOrder before = Order(3);
  ledger_ = CheckpointLedger();
  Tell();
  EXPECT_EQ(Order(3).fetch, before.fetch);
  EXPECT_EQ(Order(3).restore, before.restore);
}

TEST_F(Hosts, AnAgentThatCameBackIsAskedWhereItListensNow) {
  Make(4);
  Form(1, {0, 1, 2});
  Save(5, {1, 2, 3});
  Tell();
  EXPECT_EQ(Order(0).fetch[0].sources[0].address, "n2:1");
  port_ = 2;
  Tell();
  EXPECT_TRUE(ledger_.TakeChanged());
  EXPECT_EQ(Order(0).fetch[0].sources[0].address, "n2:2");
  Fetch();
  Lose(1);
  Form(2, {0, 3, 2});
  port_ = 3;
  Tell();
  EXPECT_EQ(Order(3).fetch[0].sources[0].address, "n2:3");
}

// The hash of a lost host's tensors is known from their replication.
TEST_F(Hosts, AnEqualOfALostHostIsFetchedFromItsTwin) {
  Make(5);
  Form(1, {0, 1, 2, 3});
  Save(5, {7, 8});  // hybrid sharding: 0 = 2, 1 = 3
  Tell();
  ASSERT_EQ(Order(0).replicated, (SavedStep{1, 5}));
  Lose(3);
  Form(2, {0, 1, 2, 4});
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kMemory);
  ASSERT_EQ(Order(4).fetch.size(), 1u);
  EXPECT_EQ(Order(4).fetch[0].rank, Rank(1));
}

// Found by a user (N0): the master's host was rebooted with rank 0 on it. The new master did not
// know that rank 0's tensors equal those of other hosts.
TEST_F(Hosts, ANewMasterKnowsAnEqualOfALostHost) {
  Make(3);
  Form(1, {0, 1, 2});
  Save(5, {7});  // data parallel
  Tell();
  ASSERT_EQ(Order(1).replicated, (SavedStep{1, 5}));
  ASSERT_EQ(Order(1).equal, (std::vector<EqualFiles>{{{1, 5}, 7, {{0, 3}}}}));
  Save(6, {7});  // this step was not replicated
  ledger_ = CheckpointLedger();
  hosts_[0] = Host{.domain = hosts_[0].domain};
  Form(2, {0, 1, 2});
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kMemory);
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 5}));
  ASSERT_EQ(Order(0).fetch.size(), 1u);
  EXPECT_EQ(Order(0).fetch[0].rank, Rank(1));
}

TEST_F(Hosts, ANewMasterKnowsTheEqualOfEachShard) {
  Make(5);
  Form(1, {0, 1, 2, 3});
  Save(5, {7, 8});  // hybrid sharding: 0 = 2, 1 = 3
  Tell();
  EXPECT_EQ(Order(1).equal, (std::vector<EqualFiles>{{{1, 5}, 8, {{1, 1}, {3, 1}}}}));
  ledger_ = CheckpointLedger();
  Lose(0);
  Form(2, {4, 1, 2, 3});
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kMemory);
  ASSERT_EQ(Order(4).fetch.size(), 1u);
  EXPECT_EQ(Order(4).fetch[0].rank, Rank(2));
}

TEST_F(Hosts, FilesThatDifferAreToldToNobody) {
  Make(3);
  Form(1, {0, 1, 2});
  Save(5, {1, 2, 3});
  Replicate();
  ASSERT_EQ(Order(1).replicated, (SavedStep{1, 5}));
  EXPECT_TRUE(Order(1).equal.empty());
}

TEST_F(Hosts, SeveralWhoLackTheSameAreAChain) {
  Make(5);
  Form(1, {0, 1, 2, 3});
  Save(5, {7});
  Tell();
  for (const size_t host : {1, 2, 3}) Lose(host);
  Make(8);
  Form(2, {0, 5, 6, 7});
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kMemory);
  EXPECT_EQ(Order(5).fetch[0].sources.front().node, "n0");
  EXPECT_EQ(Order(6).fetch[0].sources.front().node, "n5");
  EXPECT_EQ(Order(7).fetch[0].sources.front().node, "n6");
  EXPECT_EQ(Order(7).fetch[0].sources.back().node, "n0")
      << "whoever is left, when the chain breaks";
}

TEST_F(Hosts, ACopyDoesNotMakeAStepComplete) {
  Make(2);
  Form(1, {0, 1});
  Save(5, {1, 2});
  Replicate();
  // Both ranks saved on, and their arenas have no step in common.
  for (size_t i = 0; i < 2; ++i) {
    std::erase_if(hosts_[i].images, [](const MemoryImage& image) { return !image.is_copy; });
    hosts_[i].images.push_back({.rank = Rank(static_cast<uint32_t>(i)),
                                .place = Name(i),
                                .saved = {1, 8 + static_cast<int64_t>(i)},
                                .world_size = 2,
                                .file_bytes = 1,
                                .root = 1});
  }
  Tell();
  EXPECT_FALSE(ledger_.newest_in_memory().has_value());
  // A restore can use it: one rank fetches its copy from the other host.
  Form(2, {0, 1});
  EXPECT_EQ(book_.restore.saved, (SavedStep{1, 5}));
  EXPECT_EQ(Order(0).fetch.size(), 1u);
}

TEST_F(Hosts, AWorldGoesOnWithoutALeaverWhoseImagesAreCopied) {
  Make(3);
  Form(1, {0, 1, 2});
  Save(5, {1, 2, 3});
  Tell();
  World without = world_;
  without.seats = {{NodeId(0), 0, 1}, {NodeId(1), 1, 1}};
  const CheckpointLedger::Move leaves{.joiners = {}, .leavers = {NodeId(2)}};
  EXPECT_FALSE(ledger_.CanMoveTo(without, leaves, now_)) << "only host 2 has rank 2's image";
  EXPECT_FALSE(ledger_.SavedFor(without, leaves).has_value());
  Fetch();
  EXPECT_TRUE(ledger_.CanMoveTo(without, leaves, now_));
  EXPECT_EQ(ledger_.SavedFor(without, leaves), now_);

  const Instant saved_at = now_;
  now_ += Duration::Seconds(1);
  Save(6, {4, 5, 6});
  Tell();
  EXPECT_FALSE(ledger_.CanMoveTo(without, leaves, now_)) << "step 6 is not copied yet";
  EXPECT_EQ(ledger_.SavedFor(without, leaves), saved_at);
}

}  // namespace
}  // namespace paceline::core

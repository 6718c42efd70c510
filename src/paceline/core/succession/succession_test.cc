#include "paceline/core/succession/succession.h"

#include <string>

#include "gtest/gtest.h"

namespace paceline::core {
namespace {

const ConnectionId kFirstLink(1);
const ConnectionId kSecondLink(2);
const ConnectionId kThirdLink(3);

class SuccessionTest : public ::testing::Test {
 protected:
  void Begin(uint32_t survivors, CopyOffer own = {}) {
    succession_.emplace(now_, Succession::Setup{.term = 3, .survivors = survivors, .own = own});
  }
  void Offer(ConnectionId connection, CopyOffer offer) {
    succession_->Offered(now_, connection, "node" + ToString(connection), std::move(offer));
  }
  void Pass(Duration time) { now_ += time; }
  // "fetch 1 from 0", "copy", "none", "own", or "" for: wait.
  std::string Next() {
    const std::optional<SuccessionAction> action = succession_->Next(now_);
    if (!action.has_value()) return "";
    if (const auto* fetch = std::get_if<FetchPiece>(&*action)) {
      return "fetch " + ToString(fetch->connection) + " from " + std::to_string(fetch->from);
    }
    switch (std::get<BeginJob>(*action).history) {
      case History::kOwn: return "own";
      case History::kCopy: return "copy";
      case History::kNone: return "none";
    }
    return "?";
  }
  Instant now_ = Instant::FromNanoseconds(1'000'000'000);
  std::optional<Succession> succession_;
};

TEST_F(SuccessionTest, BeginsAtOnceWhereNoNodeLives) {
  Begin(0);
  EXPECT_EQ(Next(), "none");
  EXPECT_TRUE(succession_->NextDeadline().is_max());
}

TEST_F(SuccessionTest, FetchesTheLongestCopyOfTheHighestTerm) {
  Begin(3);
  Offer(kFirstLink, {1, 900, {}});
  Offer(kSecondLink, {2, 100, {}});
  EXPECT_EQ(Next(), "");
  Offer(kThirdLink, {2, 120, {}});
  EXPECT_EQ(Next(), "fetch 3 from 0");
  EXPECT_EQ(Next(), "");
  succession_->Fetched(now_, kThirdLink, 64);
  EXPECT_EQ(Next(), "fetch 3 from 64");
  succession_->Fetched(now_, kThirdLink, 120);
  EXPECT_EQ(Next(), "copy");
  EXPECT_EQ(Next(), "");
}

TEST_F(SuccessionTest, HasHeardEnoughWhenEveryKeeperCame) {
  Begin(40);
  Offer(kFirstLink, {2, 100, {"node1", "node2"}});
  EXPECT_EQ(Next(), "");
  Offer(kThirdLink, {});
  EXPECT_EQ(Next(), "");
  Offer(kSecondLink, {2, 90, {"node1", "node2"}});
  EXPECT_EQ(Next(), "fetch 1 from 0");
}

TEST_F(SuccessionTest, WaitsFiveSecondsForTheOthers) {
  Begin(3);
  Pass(Duration::Seconds(9));
  EXPECT_EQ(Next(), "");
  Offer(kFirstLink, {2, 100, {"node1", "node2"}});
  EXPECT_EQ(succession_->NextDeadline(), now_ + Duration::Seconds(5));
  Pass(Duration::Seconds(5));
  EXPECT_EQ(Next(), "fetch 1 from 0");
}

TEST_F(SuccessionTest, BeginsWithoutAPastWhereNobodyHasACopy) {
  Begin(2);
  Offer(kFirstLink, {});
  Offer(kSecondLink, {});
  EXPECT_EQ(Next(), "none");
}

// To begin without a past would cost the job's history, and perhaps steps.
TEST_F(SuccessionTest, WaitsLongerForTheFirstCopy) {
  Begin(3);
  Offer(kFirstLink, {});
  Pass(Duration::Seconds(20));
  EXPECT_EQ(Next(), "");
  Offer(kSecondLink, {2, 90, {"node2", "node3"}});
  EXPECT_EQ(Next(), "fetch 2 from 0");
}

TEST_F(SuccessionTest, BeginsWithoutAPastWhereNobodyComes) {
  Begin(2);
  Pass(Duration::Seconds(29));
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(succession_->NextDeadline(), now_ + Duration::Seconds(1));
  Pass(Duration::Seconds(1));
  EXPECT_EQ(Next(), "none");
}

TEST_F(SuccessionTest, TakesTheNextCopyWhenANodeGoesAway) {
  Begin(2);
  Offer(kFirstLink, {2, 100, {}});
  Offer(kSecondLink, {2, 90, {}});
  EXPECT_EQ(Next(), "fetch 1 from 0");
  succession_->Left(now_, kFirstLink);
  EXPECT_EQ(Next(), "") << "its agent may come again; not all are here now";
  Pass(Duration::Seconds(5));
  EXPECT_EQ(Next(), "fetch 2 from 0");
  succession_->Fetched(now_, kFirstLink, 100);
  EXPECT_EQ(Next(), "") << "of a fetch that was given up";
  succession_->Fetched(now_, kSecondLink, 90);
  EXPECT_EQ(Next(), "copy");
}

TEST_F(SuccessionTest, TakesTheNextCopyWhenOneDoesNotCome) {
  Begin(2);
  Offer(kFirstLink, {2, 100, {}});
  Offer(kSecondLink, {2, 90, {}});
  EXPECT_EQ(Next(), "fetch 1 from 0");
  EXPECT_EQ(succession_->NextDeadline(), now_ + Duration::Seconds(2));
  Pass(Duration::Seconds(2));
  EXPECT_EQ(Next(), "fetch 2 from 0");
}

TEST_F(SuccessionTest, TakesTheNextCopyWhenOneIsDamaged) {
  Begin(2);
  Offer(kFirstLink, {2, 100, {}});
  Offer(kSecondLink, {2, 90, {}});
  EXPECT_EQ(Next(), "fetch 1 from 0");
  succession_->Fetched(now_, kFirstLink, 100);
  EXPECT_EQ(Next(), "copy");
  succession_->Damaged(now_, kFirstLink);
  EXPECT_EQ(Next(), "fetch 2 from 0");
  succession_->Fetched(now_, kSecondLink, 0);
  EXPECT_EQ(Next(), "none") << "a piece without content is no piece";
}

TEST_F(SuccessionTest, PrefersANewerJournalOnItsOwnDisk) {
  Begin(1, {2, 100, {}});
  Offer(kFirstLink, {2, 100, {}});
  EXPECT_EQ(Next(), "own");
  Begin(1, {1, 900, {}});
  Offer(kFirstLink, {2, 100, {}});
  EXPECT_EQ(Next(), "fetch 1 from 0");
}

TEST_F(SuccessionTest, LeavesACopyOfALaterMasterAlone) {
  Begin(1);
  Offer(kFirstLink, {4, 100, {}});
  EXPECT_EQ(Next(), "none");
}

}  // namespace
}  // namespace paceline::core

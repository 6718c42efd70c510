#include "paceline/data/agreements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "paceline/data/lease/lease_book_host.h"

namespace paceline {
namespace {

constexpr LeasePeer kEve{2, 1};

LeaseFrame Agree(uint64_t rank, uint64_t digest, uint64_t place = 0, uint64_t generation = 1,
                 const std::string& loader = "loader train 0") {
  return {.op = LeaseOp::kAgree,
          .number = generation,
          .lease = digest,
          .begin = rank,
          .end = place,
          .text = loader};
}

TEST(AgreementsTest, EqualReportsAreAnsweredByNothing) {
  Host host;
  for (uint64_t place = 0; place < 200; ++place) {
    EXPECT_TRUE(host.Say(kAnn, Agree(0, place * 7, place)).empty());
    EXPECT_TRUE(host.Say(kBob, Agree(1, place * 7, place)).empty());
  }
  EXPECT_TRUE(host.journal.size() <= 1) << "nothing of it is durable";
}

TEST(AgreementsTest, ADifferenceIsToldToAllThatHaveTheLoader) {
  Host host;
  host.Say(kAnn, Agree(0, 5, 3));
  host.Say(kEve, Agree(2, 5, 3));
  host.Say({2, 2}, Agree(3, 9, 3, 1, "loader eval 0"));
  host.Say(kBob, Agree(1, 6, 3));
  ASSERT_EQ(host.answers.size(), 3u) << "not to who has another loader";
  for (const LeasePeer peer : {kAnn, kBob, kEve}) {
    const std::vector<LeaseFrame> told = host.To(peer);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].op, LeaseOp::kDiffers);
    EXPECT_EQ(told[0].number, 3u);
    EXPECT_EQ(told[0].begin, 0u) << "the first to report";
    EXPECT_EQ(told[0].end, 1u);
    EXPECT_EQ(told[0].text, "loader train 0");
  }
  // A rank that comes later, or reports again to the same master, is told at once.
  EXPECT_EQ(host.Say({3, 1}, Agree(4, 5, 3)).size(), 1u);
}

TEST(AgreementsTest, PlacesAndLoadersAreComparedEachForItself) {
  Host host;
  host.Say(kAnn, Agree(0, 1, 0));
  EXPECT_TRUE(host.Say(kBob, Agree(1, 2, 1)).empty()) << "another epoch";
  EXPECT_TRUE(host.Say(kBob, Agree(1, 2, 0, 1, "loader eval 0")).empty());
}

TEST(AgreementsTest, ANewWorldBeginsAnewAndAnOlderOneIsNotHeard) {
  Host host;
  host.Say(kAnn, Agree(0, 1));
  EXPECT_TRUE(host.Say(kBob, Agree(1, 2, 0, 2)).empty());
  EXPECT_TRUE(host.Say(kAnn, Agree(0, 7)).empty()) << "of the world before";
  EXPECT_EQ(host.Say(kEve, Agree(0, 3, 0, 2)).size(), 1u);
}

TEST(AgreementsTest, WhoHasLeftIsToldNothing) {
  Host host;
  host.Say(kAnn, Agree(0, 1));
  host.Say(kEve, Agree(2, 1));
  host.Gone(kAnn, /*is_blamed=*/false);
  host.book.LinkBroken(At(0), kEve.link, Duration());
  host.Say(kBob, Agree(1, 2));
  ASSERT_EQ(host.answers.size(), 1u);
  EXPECT_EQ(host.answers[0].to, kBob);
}

TEST(AgreementsTest, ANewMasterComparesWhatIsReportedAgain) {
  Host host;
  host.Say(kAnn, Agree(0, 1));
  host.Restart(host.journal.size());
  EXPECT_TRUE(host.Say(kBob, Agree(1, 2)).empty()) << "it knows nothing yet";
  host.Say(kAnn, Agree(0, 1));
  EXPECT_EQ(host.answers.size(), 2u);
}

TEST(AgreementsTest, ItsSizeIsBounded) {
  Host host;
  for (size_t i = 0; i < Agreements::kLoadersMax + 10; ++i) {
    host.Say(kAnn, Agree(0, 1, 0, 1, "loader " + std::to_string(i)));
  }
  EXPECT_TRUE(host.Say(kBob, Agree(1, 2, 0, 1, "loader 1030")).empty()) << "not compared";
  EXPECT_EQ(host.Say(kBob, Agree(1, 2, 0, 1, "loader 7")).size(), 1u);
}

}  // namespace
}  // namespace paceline

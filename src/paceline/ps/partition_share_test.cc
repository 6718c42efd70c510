#include "paceline/ps/partition_share.h"

#include <gtest/gtest.h>

#include <array>

namespace paceline::ps {
namespace {

using Gate = PartitionShare::Gate;

constexpr uint64_t kSharedSet = 3;

// A server with its rows. A push of a batch adds 1 to the keys 0…999 that the server has by its
// routing, as a worker with the same routing would send them.
struct Member {
  Member(uint32_t number, const RoutingNews& news) : server(number) {
    EXPECT_TRUE(
        holding
            .Open({.name = "counts", .dim = 1, .optimizer = {.name = "sgd", .rate = 1}, .scale = 0})
            .ok());
    share.Begin(news);
    holding.Keep(share.own());
  }
  PushAnswer Push(uint64_t batch, const TableRouting& routing) {
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key < 1'000; ++key) {
      if (routing.Of(PartitionOf(TableKeyOf("counts"), key)) == server) keys.push_back(key);
    }
    const std::vector<float> ones(keys.size(), -1);
    const TableGradient gradient{.table = 0, .keys = keys, .values = ones};
    std::string why;
    return holding.Push({.set = kSharedSet, .batch = {{batch, batch + 1}}}, std::span(&gradient, 1),
                        &why);
  }
  float Count(uint64_t key) {
    std::array<float, 1> row{};
    holding.Pull(0, std::span(&key, 1), false, row);
    return row[0];
  }

  const uint32_t server;
  Holding holding;
  PartitionShare share{{.server = server, .generation = 10 + server}, &holding};
};

RoutingNews NewsOf(uint64_t id, const TableRouting& routing, uint32_t servers) {
  return {.id = id, .routing = routing, .move = NextTableMove(routing, servers, id)};
}

class PartitionShareTest : public ::testing::Test {
 protected:
  // Carries the move out at the source and the target, up to the master's news of it.
  void Stage(uint64_t bytes_max) {
    auto images = source_.share.Give(1, 1, bytes_max);
    ASSERT_TRUE(images.has_value());
    EXPECT_EQ(target_.share.Stage(1, 10, *std::move(images)), "");
  }
  void Flip() {
    const auto taken = target_.share.Taken();
    ASSERT_TRUE(taken.has_value());
    std::vector<uint32_t> moved(news_.move->partitions.begin(),
                                news_.move->partitions.begin() + taken->count);
    routing_.Move(moved, 1);
    news_ = NewsOf(2, routing_, 2);
  }

  TableRouting routing_{1};
  RoutingNews news_ = NewsOf(1, routing_, 2);
  Member source_{0, news_};
  Member target_{1, news_};
  std::string why_;
};

TEST_F(PartitionShareTest, RowsAndWhatTheyHaveAppliedMoveTogether) {
  source_.Push(0, routing_);
  target_.Push(0, routing_);  // without a key
  Stage(UINT64_MAX);
  EXPECT_EQ(target_.share.Taken()->count, kMovedAtOnceMax);
  EXPECT_EQ(target_.share.Taken()->from_generation, 10u);
  EXPECT_EQ(target_.share.Taken()->to_generation, 11u);
  Flip();
  ASSERT_TRUE(source_.share.Learn(news_, &why_));
  ASSERT_TRUE(target_.share.Learn(news_, &why_)) << why_;
  EXPECT_EQ(source_.share.own().count(), kPartitions - kMovedAtOnceMax);
  EXPECT_EQ(target_.share.own().count(), kMovedAtOnceMax);
  EXPECT_EQ(target_.Push(0, routing_), PushAnswer::kSkipped);
  EXPECT_EQ(target_.Push(1, routing_), PushAnswer::kApplied);
  EXPECT_EQ(source_.Push(1, routing_), PushAnswer::kApplied);
  for (uint64_t key = 0; key < 1'000; ++key) {
    const bool is_moved = routing_.Of(PartitionOf(TableKeyOf("counts"), key)) == 1;
    EXPECT_EQ((is_moved ? target_ : source_).Count(key), 2) << key;
    EXPECT_EQ((is_moved ? source_ : target_).Count(key), 0) << key;
  }
}

// The target has answered the batch for its own partitions, and the source has not: the partition
// that came lacks it, and takes it when it is sent again.
TEST_F(PartitionShareTest, APushThatOnlyTheTargetHadIsAppliedToWhatCame) {
  target_.Push(5, routing_);
  Stage(UINT64_MAX);
  Flip();
  ASSERT_TRUE(target_.share.Learn(news_, &why_));
  EXPECT_EQ(target_.Push(5, routing_), PushAnswer::kApplied);
  EXPECT_EQ(target_.Push(5, routing_), PushAnswer::kSkipped);
}

TEST_F(PartitionShareTest, AFrozenSourceReadsAndDoesNotWrite) {
  Stage(UINT64_MAX);
  EXPECT_EQ(source_.share.GateOf(1, /*is_change=*/false), Gate::kServe);
  EXPECT_EQ(source_.share.GateOf(1, /*is_change=*/true), Gate::kWait);
  EXPECT_EQ(target_.share.GateOf(1, /*is_change=*/true), Gate::kServe);
  Flip();
  ASSERT_TRUE(source_.share.Learn(news_, &why_));
  EXPECT_EQ(source_.share.GateOf(1, false), Gate::kMoved);
  EXPECT_EQ(source_.share.GateOf(2, true), Gate::kServe);
  EXPECT_EQ(target_.share.GateOf(2, false), Gate::kWait) << "it has not heard of the move";
}

TEST_F(PartitionShareTest, AnotherMoveThawsTheSourceAndDropsTheImages) {
  source_.Push(0, routing_);
  Stage(UINT64_MAX);
  const RoutingNews other = NewsOf(2, routing_, 1);
  ASSERT_TRUE(source_.share.Learn(other, &why_));
  ASSERT_TRUE(target_.share.Learn(other, &why_));
  EXPECT_EQ(source_.share.GateOf(1, true), Gate::kServe);
  EXPECT_FALSE(target_.share.Taken().has_value());
  EXPECT_FALSE(source_.share.Give(1, 1, UINT64_MAX).has_value());
  EXPECT_EQ(source_.Count(1), 1);
}

TEST_F(PartitionShareTest, AProcessThatLacksAPartitionMustEnd) {
  Stage(UINT64_MAX);
  Flip();
  Member next(1, NewsOf(1, TableRouting(1), 2));  // the target's next process, with older news
  EXPECT_FALSE(next.share.Learn(news_, &why_));
  EXPECT_NE(why_.find("256 partitions"), std::string::npos) << why_;
}

TEST_F(PartitionShareTest, OldNewsChangeNothing) {
  Stage(UINT64_MAX);
  ASSERT_TRUE(source_.share.Learn(NewsOf(0, TableRouting(2), 2), &why_));
  ASSERT_TRUE(source_.share.Learn(news_, &why_));
  EXPECT_EQ(source_.share.own().count(), kPartitions);
  EXPECT_EQ(source_.share.GateOf(1, true), Gate::kWait);
}

TEST_F(PartitionShareTest, FewBytesGoAtOnceAndTheSameOnesAgain) {
  source_.Push(0, routing_);
  const auto some = source_.share.Give(1, 1, 100);
  ASSERT_TRUE(some.has_value());
  EXPECT_LT(some->size(), 50u);
  EXPECT_EQ(source_.share.Give(1, 1, UINT64_MAX), some);
  EXPECT_FALSE(source_.share.Give(1, 2, 100).has_value());
  EXPECT_FALSE(target_.share.Give(1, 1, 100).has_value());
  EXPECT_EQ(target_.share.Stage(1, 10, {some->back()}), "one is of another partition");
  EXPECT_NE(target_.share.Stage(1, 10, {"damaged"}), "");
  EXPECT_NE(target_.share.Stage(2, 10, *some), "");
  EXPECT_FALSE(target_.share.Taken().has_value());
}

// Which rows changed since a version was read is not known of rows that came from elsewhere.
TEST_F(PartitionShareTest, AReaderOfChangesGetsAllRowsAfterAMove) {
  for (Member* const one : {&source_, &target_}) {
    one->holding.TakeChanged(0, 1);
    EXPECT_NE(one->holding.TakeChanged(0, 2), nullptr);
  }
  Stage(UINT64_MAX);
  Flip();
  for (Member* const one : {&source_, &target_}) {
    ASSERT_TRUE(one->share.Learn(news_, &why_));
    EXPECT_EQ(one->holding.TakeChanged(0, 3), nullptr);
    EXPECT_NE(one->holding.TakeChanged(0, 4), nullptr);
  }
}

}  // namespace
}  // namespace paceline::ps

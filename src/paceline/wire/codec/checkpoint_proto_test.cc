#include "paceline/wire/codec/checkpoint_proto.h"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

CheckpointReport FullReport() {
  CheckpointReport report;
  report.generation = Generation(4);
  report.terms = CheckpointTerms{"/d", 5, {PersistPolicy::Kind::kSteps, 100, Duration()}, 2};
  report.images.push_back({Rank(3), "n1", true, {4, 77}, 8, 1000, 11, 12, true});
  report.shards.push_back({Rank(3), {4, 70}, true, "", Duration::Milliseconds(5)});
  report.commit = CommitState{"step-70-g4", true, "", 4000, true};
  report.stored = StoredCheckpoint{"step-70-g4", "job", {4, 70}, 2, {0, 0}};
  report.flush = SavedStep{3, 9, 2};
  report.equal = {{{3, 9, 2}, 7, {{0, 3}, {5, 1}}}};
  report.is_blind = true;
  report.damaged = {"step-1-g1"};
  report.place = "n1";
  report.address = "10.0.0.1:4711";
  report.domain = "rack 7";
  report.failed.push_back({Rank(9), {4, 77}, "nobody has it"});
  return report;
}

CheckpointOrder FullOrder() {
  CheckpointOrder order;
  order.terms = FullReport().terms;
  order.restore = RestoreOrder{Generation(5),
                               RestoreOrder::From::kMemory,
                               {4, 77},
                               8,
                               "",
                               {{Rank(1), {{Rank(1), "n1", true}}}},
                               "because"};
  order.hold = SavedStep{4, 100, 1};
  order.durable = SavedStep{4, 70};
  order.fetch.push_back({Rank(1),
                         {4, 77},
                         12,
                         "step-70-g4",
                         {{"n2", "[fe80::1]:99", "n3", true}, {"", "", "", false}},
                         true});
  order.drop_others = true;
  order.readers = {{"n1", "[fe80::1]:99"}, {"n2", "10.0.0.1:4711"}};
  order.replicas = 2;
  order.replicated = SavedStep{4, 77};
  order.copying = SavedStep{4, 81};
  order.equal = {{{4, 80}, 7, {{0, 3}}}, {{4, 80}, 8, {{3, 2}}}};
  order.replica_problem = "no room";
  return order;
}

TEST(CheckpointProto, NothingIsLostOnTheWay) {
  pb::CheckpointReport report;
  ToProto(FullReport(), &report);
  CheckpointReport again;
  ASSERT_TRUE(FromProto(report, &again).ok());
  EXPECT_EQ(again, FullReport());
  pb::CheckpointOrder order;
  ToProto(FullOrder(), &order);
  CheckpointOrder ordered;
  ASSERT_TRUE(FromProto(order, &ordered).ok());
  EXPECT_EQ(ordered, FullOrder());
}

TEST(CheckpointProto, WhatNobodyMayOrderIsRefused) {
  const auto refuses = [](auto spoil) {
    pb::CheckpointOrder order;
    ToProto(FullOrder(), &order);
    spoil(order.mutable_fetch(0));
    CheckpointOrder taken;
    return !FromProto(order, &taken).ok();
  };
  EXPECT_FALSE(refuses([](pb::FetchOrder*) {}));
  EXPECT_TRUE(refuses([](pb::FetchOrder* one) { one->set_name("../other"); }));
  EXPECT_TRUE(refuses([](pb::FetchOrder* one) { one->mutable_sources(0)->set_place("a/b"); }));
  EXPECT_TRUE(refuses([](pb::FetchOrder* one) { one->mutable_sources(0)->set_address("a b"); }));
  EXPECT_TRUE(refuses([](pb::FetchOrder* one) { one->mutable_saved()->set_step(-5); }));
  EXPECT_TRUE(refuses([](pb::FetchOrder* one) { one->set_rank(1u << 30); }));
  EXPECT_TRUE(refuses([](pb::FetchOrder* one) {
    for (int i = 0; i < kFetchSourcesMax; ++i) one->add_sources();
  }));
}

}  // namespace
}  // namespace paceline::wire

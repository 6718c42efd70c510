#include "paceline/ps/holding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace paceline::ps {
namespace {

TableSpec SpecOf(const std::string& name, uint32_t dim, const std::string& optimizer = "sgd") {
  return {.name = name, .dim = dim, .optimizer = {.name = optimizer, .rate = 1.0}};
}

PushTag TagOf(uint64_t begin, uint64_t end, uint64_t recovery = 0) {
  return {.set = 7, .batch = {{begin, end}}, .worker = {}, .recovery = recovery};
}

std::vector<float> PullOne(Holding* holding, uint32_t table, uint64_t key, bool is_training) {
  std::vector<float> row(holding->Spec(table).dim);
  holding->Pull(table, std::span(&key, 1), is_training, row);
  return row;
}

PushAnswer PushOne(Holding* holding, const PushTag& tag, uint32_t table, uint64_t key,
                   std::vector<float> gradient, std::string* why = nullptr) {
  std::string text;
  const TableGradient one{.table = table, .keys = std::span(&key, 1), .values = gradient};
  const PushAnswer answer = holding->Push(tag, std::span(&one, 1), &text);
  if (why != nullptr) *why = text;
  return answer;
}

TEST(HoldingTest, ARowBeginsWithTheSameValuesEverywhere) {
  Holding one;
  Holding other;
  ASSERT_TRUE(other.Open(SpecOf("first", 3)).ok());
  const uint32_t a = *one.Open(SpecOf("ads", 16));
  const uint32_t b = *other.Open(SpecOf("ads", 16));
  const std::vector<float> row = PullOne(&one, a, 42, true);
  EXPECT_EQ(row, PullOne(&other, b, 42, false));
  EXPECT_NE(row, PullOne(&one, a, 43, true));
  for (const float value : row) EXPECT_LE(std::abs(value), 0.05f);
}

TEST(HoldingTest, OnlyTrainingAdmitsKeys) {
  Holding holding;
  const uint32_t table = *holding.Open(SpecOf("ads", 4));
  PullOne(&holding, table, 1, false);
  EXPECT_EQ(holding.Counts(table).rows, 0u);
  PullOne(&holding, table, 1, true);
  EXPECT_EQ(holding.Counts(table).rows, 1u);
  EXPECT_EQ(holding.Counts(table).admitted, 1u);
}

TEST(HoldingTest, ABatchCountsOnce) {
  Holding holding;
  const uint32_t table = *holding.Open(SpecOf("ads", 1));
  const float before = PullOne(&holding, table, 5, true)[0];
  EXPECT_EQ(PushOne(&holding, TagOf(0, 8), table, 5, {1}), PushAnswer::kApplied);
  EXPECT_EQ(PushOne(&holding, TagOf(0, 8), table, 5, {1}), PushAnswer::kSkipped);
  EXPECT_EQ(PullOne(&holding, table, 5, true)[0], before - 1);
  std::string why;
  EXPECT_EQ(PushOne(&holding, TagOf(4, 12), table, 5, {1}, &why), PushAnswer::kOverlaps);
  EXPECT_NE(why.find("4…11"), std::string::npos) << why;
  EXPECT_EQ(PushOne(&holding, TagOf(8, 16), table, 5, {1}), PushAnswer::kApplied);
  EXPECT_EQ(PullOne(&holding, table, 5, true)[0], before - 1 - 1);
}

TEST(HoldingTest, APushFromBeforeALossIsRefused) {
  Holding holding;
  const uint32_t table = *holding.Open(SpecOf("ads", 1));
  holding.RaiseRecovery(2);
  EXPECT_EQ(PushOne(&holding, TagOf(0, 8, 1), table, 5, {1}), PushAnswer::kFenced);
  EXPECT_EQ(PushOne(&holding, TagOf(0, 8, 3), table, 5, {1}), PushAnswer::kApplied);
  EXPECT_EQ(holding.recovery(), 3u);
  EXPECT_EQ(PushOne(&holding, TagOf(8, 16, 2), table, 5, {1}), PushAnswer::kFenced);
}

TEST(HoldingTest, AGradientThatIsNoNumberChangesNothing) {
  Holding holding;
  const uint32_t table = *holding.Open(SpecOf("ads", 2));
  const uint64_t negative = static_cast<uint64_t>(int64_t{-3});
  const std::vector<float> before = PullOne(&holding, table, negative, true);
  std::string why;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(PushOne(&holding, TagOf(0, 8), table, negative, {1, nan}, &why),
            PushAnswer::kNotFinite);
  EXPECT_NE(why.find("table ads, key -3"), std::string::npos) << why;
  EXPECT_EQ(PullOne(&holding, table, negative, true), before);
  EXPECT_EQ(PushOne(&holding, TagOf(0, 8), table, negative, {1, 1}), PushAnswer::kApplied);
}

TEST(HoldingTest, AnOpenTableKeepsItsShape) {
  Holding holding;
  const uint32_t table = *holding.Open(SpecOf("ads", 2));
  EXPECT_EQ(*holding.Open(SpecOf("ads", 2)), table);
  EXPECT_EQ(holding.Open(SpecOf("ads", 3)).failure().kind, FailureKind::kExists);
  EXPECT_EQ(holding.Open(SpecOf("ads", 2, "adam")).failure().kind, FailureKind::kExists);
  EXPECT_EQ(holding.Open(SpecOf("ads", 0)).failure().kind, FailureKind::kInvalid);
  EXPECT_EQ(holding.Open(SpecOf("ads", 2, "magic")).failure().kind, FailureKind::kInvalid);
}

TEST(HoldingTest, AFullBudgetAdmitsNoKeysAndTrainsTheOthers) {
  TableSpec spec = SpecOf("ads", 1);
  spec.budget_bytes = 1;
  Holding holding;
  const uint32_t table = *holding.Open(spec);
  const float known = PullOne(&holding, table, 1, true)[0];
  const float unknown = PullOne(&holding, table, 2, true)[0];
  EXPECT_EQ(PushOne(&holding, TagOf(0, 1), table, 1, {1}), PushAnswer::kApplied);
  EXPECT_EQ(PushOne(&holding, TagOf(1, 2), table, 2, {1}), PushAnswer::kApplied);
  EXPECT_EQ(PullOne(&holding, table, 1, true)[0], known - 1);
  EXPECT_EQ(PullOne(&holding, table, 2, true)[0], unknown);
  EXPECT_EQ(holding.Counts(table).rows, 1u);
  EXPECT_TRUE(holding.Counts(table).is_closed);
  EXPECT_EQ(holding.Counts(table).refused, 3u);
}

TEST(HoldingTest, TheFirstToInitializeARowWins) {
  Holding holding;
  const uint32_t table = *holding.Open(SpecOf("dense", 2));
  const std::vector<uint64_t> keys = {0, 1};
  const std::vector<float> values = {1, 2, 3, 4};
  EXPECT_EQ(holding.Init(table, std::span(keys).first(1), std::span(values).first(2)), 1u);
  const std::vector<float> others = {5, 6, 7, 8};
  EXPECT_EQ(holding.Init(table, keys, others), 1u);
  EXPECT_EQ(PullOne(&holding, table, 0, false), (std::vector<float>{1, 2}));
  EXPECT_EQ(PullOne(&holding, table, 1, false), (std::vector<float>{7, 8}));
}

}  // namespace
}  // namespace paceline::ps

#include "paceline/ps/holding.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(HoldingTest, ChangedKeysAreThoseSinceTheVersionBefore) {
  Holding holding;
  const uint32_t table = *holding.Open(SpecOf("ads", 1));
  using Keys = std::vector<uint64_t>;
  PushOne(&holding, TagOf(0, 1), table, 5, {1});
  EXPECT_EQ(holding.TakeChanged(table, 4), nullptr) << "what changed before is not known";
  PushOne(&holding, TagOf(1, 2), table, 7, {1});
  EXPECT_EQ(holding.TakeChanged(table, 4), nullptr) << "the same version again, with key 7";
  PushOne(&holding, TagOf(2, 3), table, 6, {1});
  PushOne(&holding, TagOf(3, 4), table, 6, {1});
  const Keys* changed = holding.TakeChanged(table, 5);
  ASSERT_NE(changed, nullptr);
  EXPECT_EQ(*changed, Keys{6});
  PushOne(&holding, TagOf(4, 5), table, 8, {1});
  EXPECT_EQ(*holding.Taken(table, 5), Keys{6});
  EXPECT_EQ(*holding.TakeChanged(table, 5), (Keys{6, 8}))
      << "a version that could not be written is taken again";
  PushOne(&holding, TagOf(5, 6), table, 8, {1});
  EXPECT_EQ(holding.Taken(table, 6), nullptr);
  EXPECT_EQ(*holding.TakeChanged(table, 6), Keys{8});
  EXPECT_EQ(*holding.TakeChanged(table, 7), Keys{});
  EXPECT_EQ(holding.TakeChanged(table, 9), nullptr) << "version 8 was never asked for";
}

TEST(HoldingTest, VisitedKeysAreThoseWithRows) {
  Holding holding;
  const uint32_t table = *holding.Open(SpecOf("ads", 2));
  const uint64_t keys[] = {3, 4};
  EXPECT_EQ(holding.Init(table, std::span(keys, 1), std::vector<float>{1, 2}), 1u);
  std::vector<std::pair<uint64_t, std::vector<float>>> visited;
  holding.VisitKeys(table, keys, [&](uint64_t key, std::span<const float> values) {
    visited.push_back({key, {values.begin(), values.end()}});
  });
  ASSERT_EQ(visited.size(), 1u);
  EXPECT_EQ(visited[0].first, 3u);
  EXPECT_EQ(visited[0].second, (std::vector<float>{1, 2}));
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
  TableSpec spec = SpecOf("ads", 16);
  spec.budget_bytes = 20'000;
  Holding holding;
  const uint32_t table = *holding.Open(spec);
  for (uint64_t key = 0; key < 1'000; ++key) {
    PullOne(&holding, table, key, true);
    ASSERT_LE(holding.Counts(table).bytes, spec.budget_bytes);
  }
  const TableCounts full = holding.Counts(table);
  EXPECT_TRUE(full.is_closed);
  EXPECT_GT(full.rows, 100u);
  EXPECT_EQ(full.admitted, full.rows);
  EXPECT_EQ(full.refused, 1'000 - full.rows);
  const std::vector<float> known = PullOne(&holding, table, 0, true);
  const std::vector<float> unknown = PullOne(&holding, table, 999, true);
  const std::vector<float> ones(16, 1);
  EXPECT_EQ(PushOne(&holding, TagOf(0, 1), table, 0, ones), PushAnswer::kApplied);
  EXPECT_EQ(PushOne(&holding, TagOf(1, 2), table, 999, ones), PushAnswer::kApplied);
  EXPECT_EQ(PullOne(&holding, table, 0, true)[3], known[3] - 1);
  EXPECT_EQ(PullOne(&holding, table, 999, true), unknown);
  // A larger budget opens the table again.
  spec.budget_bytes *= 2;
  ASSERT_TRUE(holding.Open(spec).ok());
  PullOne(&holding, table, 999, true);
  EXPECT_EQ(holding.Counts(table).rows, full.rows + 1);
  EXPECT_FALSE(holding.Counts(table).is_closed);
}

TEST(HoldingTest, AKeyThatComesTwiceInACallHasOneRow) {
  Holding holding;
  const uint32_t table = *holding.Open(SpecOf("ads", 1));
  std::vector<uint64_t> keys(100, 7);
  std::vector<float> values(100, 1);
  holding.Pull(table, keys, true, values);
  EXPECT_EQ(holding.Counts(table).rows, 1u);
  std::fill(keys.begin(), keys.end(), 8);
  const float first = PullOne(&holding, table, 8, false)[0];
  std::fill(values.begin(), values.end(), 1.0f);
  const TableGradient gradient{.table = table, .keys = keys, .values = values};
  std::string why;
  ASSERT_EQ(holding.Push(TagOf(0, 1), std::span(&gradient, 1), &why), PushAnswer::kApplied);
  EXPECT_EQ(holding.Counts(table).rows, 2u);
  EXPECT_NEAR(PullOne(&holding, table, 8, false)[0], first - 100, 1e-3);
}

TEST(HoldingTest, ManyKeysInOneCallAreThoseOfSingleCalls) {
  Holding many;
  Holding single;
  const uint32_t table = *many.Open(SpecOf("ads", 3, "adam"));
  ASSERT_EQ(*single.Open(SpecOf("ads", 3, "adam")), table);
  for (const size_t count : {1, 15, 16, 17, 31, 33, 100, 5'000}) {
    std::vector<uint64_t> keys(count);
    std::vector<float> gradients(count * 3);
    for (size_t i = 0; i < count; ++i) keys[i] = i * i - 700;
    for (size_t i = 0; i < count * 3; ++i) gradients[i] = 1 + static_cast<float>(i % 7);
    const TableGradient gradient{.table = table, .keys = keys, .values = gradients};
    std::string why;
    const uint64_t begin = count * 10'000;
    ASSERT_EQ(many.Push(TagOf(begin, begin + 1), std::span(&gradient, 1), &why),
              PushAnswer::kApplied);
    std::vector<float> rows(count * 3);
    many.Pull(table, keys, true, rows);
    for (size_t i = 0; i < count; ++i) {
      PushOne(&single, TagOf(begin + i, begin + i + 1), table, keys[i],
              {gradients[3 * i], gradients[3 * i + 1], gradients[3 * i + 2]});
      ASSERT_EQ(PullOne(&single, table, keys[i], true),
                (std::vector<float>{rows[3 * i], rows[3 * i + 1], rows[3 * i + 2]}));
    }
  }
  EXPECT_EQ(many.Counts(table).rows, single.Counts(table).rows);
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

#include "paceline/client/tables/own_tables.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "paceline/client/tables/dense.h"

namespace paceline::client {
namespace {

ps::TableSpec Counting(const std::string& name, uint32_t dim) {
  return {.name = name, .dim = dim, .optimizer = {.name = "sgd", .rate = 1}, .scale = 0};
}

TEST(OwnTablesTest, ABatchThatComesAgainCountsOnce) {
  const auto tables = MakeOwnTables();
  const uint32_t ads = *tables->Open(Counting("ads", 1));
  const std::vector<uint64_t> keys = {3, 4};
  const std::vector<float> minus_one = {-1, -1};
  const ps::TableGradient gradient{.table = ads, .keys = keys, .values = minus_one};
  const ps::PushTag tag{.set = 1, .batch = {{0, 8}}};
  EXPECT_EQ(tables->Push(tag, {&gradient, 1})->answer, ps::PushAnswer::kApplied);
  EXPECT_EQ(tables->Push(tag, {&gradient, 1})->answer, ps::PushAnswer::kSkipped);
  std::vector<float> rows(2);
  const TableRead read{.table = ads, .keys = keys, .rows = rows};
  ASSERT_TRUE(tables->Pull({&read, 1}, /*is_training=*/true).ok());
  EXPECT_EQ(rows, (std::vector<float>{1, 1}));
}

TEST(OwnTablesTest, AnExportVisitsEachRowOnce) {
  const auto tables = MakeOwnTables();
  const uint32_t ads = *tables->Open(Counting("ads", 2));
  std::vector<uint64_t> keys(10'000);
  std::vector<float> values(20'000);
  for (uint64_t i = 0; i < keys.size(); ++i) {
    keys[i] = i * 977;
    values[2 * i] = static_cast<float>(i);
  }
  ASSERT_TRUE(tables->Init(ads, keys, values).ok());
  std::map<uint64_t, float> seen;
  size_t visited = 0;
  const auto visit = [&](std::span<const uint64_t> some, std::span<const float> rows) {
    ASSERT_EQ(rows.size(), some.size() * 2);
    for (size_t i = 0; i < some.size(); ++i) seen[some[i]] = rows[2 * i];
    visited += some.size();
  };
  ASSERT_TRUE(tables->Export(ads, visit).ok());
  EXPECT_EQ(visited, 10'000u);
  ASSERT_EQ(seen.size(), 10'000u);
  EXPECT_EQ(seen.at(977 * 1'234), 1'234.0f);
  EXPECT_EQ((*tables->Counts())[ads].counts.rows, 10'000u);
}

// The first worker's values win, and each worker then has them.
TEST(OwnTablesTest, ADenseTensorBeginsWithTheFirstValuesThatItWasGiven) {
  const auto tables = MakeOwnTables();
  const uint32_t weights = *tables->Open(Counting("weights", 4));
  std::vector<float> first = {1, 2, 3, 4, 5};
  std::vector<float> second = {9, 9, 9, 9, 9};
  const DenseTensor one{.table = weights, .dim = 4, .values = first};
  const DenseTensor two{.table = weights, .dim = 4, .values = second};
  ASSERT_TRUE(InitDense(tables.get(), {&one, 1}).ok());
  ASSERT_TRUE(InitDense(tables.get(), {&two, 1}).ok());
  ASSERT_TRUE(PullDense(tables.get(), {&two, 1}).ok());
  EXPECT_EQ(second, first);
}

TEST(OwnTablesTest, AnotherDimForATableIsRefused) {
  const auto tables = MakeOwnTables();
  ASSERT_TRUE(tables->Open(Counting("ads", 4)).ok());
  const Result<uint32_t> other = tables->Open(Counting("ads", 8));
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.failure().kind, FailureKind::kExists);
}

}  // namespace
}  // namespace paceline::client

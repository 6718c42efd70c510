#include "paceline/ps/table_spec.h"

#include <gtest/gtest.h>

namespace paceline::ps {
namespace {

TEST(TableSpecTest, WhatIsEncodedIsRead) {
  const TableSpec spec{.name = "ads of today",
                       .dim = 16,
                       .optimizer = {.name = "adam", .rate = 0.1, .epsilon = 1e-8},
                       .seed = UINT64_MAX,
                       .scale = 0.1f,
                       .budget_bytes = uint64_t{8} << 30};
  EXPECT_EQ(ParseSpec(EncodeSpec(spec)), spec);
}

TEST(TableSpecTest, MalformedTextIsRefused) {
  const std::string good = EncodeSpec({.name = "ads", .dim = 16});
  ASSERT_TRUE(ParseSpec(good).has_value());
  EXPECT_FALSE(ParseSpec("").has_value());
  EXPECT_FALSE(ParseSpec(good + "dim 16\n").has_value()) << "twice";
  EXPECT_FALSE(ParseSpec(good + "colour red\n").has_value());
  EXPECT_FALSE(ParseSpec(good.substr(0, good.size() - 1)).has_value());
  for (const auto& [from, to] :
       {std::pair("dim 16", "dim 0"), std::pair("dim 16", "dim 1x"),
        std::pair("rate 0.01", "rate nan"), std::pair("beta1 0.9", "beta1 1"),
        std::pair("adagrad", "magic"), std::pair("table ads", "table ")}) {
    std::string bad = good;
    bad.replace(bad.find(from), std::string_view(from).size(), to);
    EXPECT_FALSE(ParseSpec(bad).has_value()) << bad;
  }
}

TEST(TableSpecTest, PartitionsFollowFromNameAndKeyForEver) {
  const TableKey ads = TableKeyOf("ads");
  EXPECT_EQ(PartitionOf(ads, 0), 3782u);
  EXPECT_EQ(PartitionOf(ads, 42), 3035u);
  EXPECT_EQ(PartitionOf(ads, static_cast<uint64_t>(int64_t{-1})), 1822u);
  EXPECT_EQ(PartitionOf(TableKeyOf("users"), 42), 977u);
}

}  // namespace
}  // namespace paceline::ps

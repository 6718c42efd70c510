#include "paceline/base/check.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

TEST(CheckTest, PassesQuietly) {
  int evaluated = 0;
  CHECK(++evaluated == 1);
  CHECK(++evaluated == 2, "never shown");
  EXPECT_EQ(evaluated, 2) << "each condition once";
}

TEST(CheckDeathTest, SaysWhereAndWhat) {
  const std::string message = "seat without a node";
  EXPECT_DEATH(CHECK(1 > 2, message), "check_test.cc:[0-9]+: CHECK failed: 1 > 2: seat without");
  EXPECT_DEATH(CHECK(false), "CHECK failed: false");
}

}  // namespace
}  // namespace paceline

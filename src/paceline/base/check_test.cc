#include "paceline/base/check.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

TEST(CheckTest, PassesQuietly) {
  CHECK(1 + 1 == 2);
  CHECK(true, "never shown");
}

TEST(CheckDeathTest, SaysWhereAndWhat) {
  const std::string message = "seat without a node";
  EXPECT_DEATH(CHECK(1 > 2, message), "check_test.cc:[0-9]+: CHECK failed: 1 > 2: seat without");
  EXPECT_DEATH(CHECK(false), "CHECK failed: false");
}

}  // namespace
}  // namespace paceline

#include "paceline/base/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace paceline {
namespace {

TEST(NumberTextTest, ANumberIsAsShortAsItCanBe) {
  EXPECT_EQ(NumberText(30), "30");
  EXPECT_EQ(NumberText(0.25), "0.25");
  EXPECT_EQ(NumberText(-1.5e300), "-1.5e+300");
}

TEST(NumberTextTest, ANumberHasTheDigitsThatWereAskedFor) {
  EXPECT_EQ(FixedText(99.96, 1), "100.0");
  EXPECT_EQ(FixedText(2.5, 4), "2.5000");
  EXPECT_EQ(FixedText(std::numeric_limits<double>::quiet_NaN(), 4), "nan");
  EXPECT_EQ(FixedText(-std::numeric_limits<double>::max(), 50).size(), 361);  // the longest
}

}  // namespace
}  // namespace paceline

#include "paceline/base/proc_bytes.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(ProcBytesTest, AreThoseOfTheNamedLine) {
  constexpr std::string_view kText =
      "MemTotal:       64 kB\nMemAvailable:   12 kB\nHugePages:  3\n";
  EXPECT_EQ(ProcBytes(kText, "MemAvailable:"), 12 * 1024U);
  EXPECT_EQ(ProcBytes(kText, "MemTotal:"), 64 * 1024U);
  EXPECT_EQ(ProcBytes(kText, "SwapFree:"), std::nullopt);
  EXPECT_EQ(ProcBytes("MemTotal: many kB\n", "MemTotal:"), std::nullopt);
  EXPECT_EQ(ProcBytes("", "MemTotal:"), std::nullopt);
}

}  // namespace
}  // namespace paceline

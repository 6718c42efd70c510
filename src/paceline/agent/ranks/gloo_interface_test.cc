#include "paceline/agent/ranks/gloo_interface.h"

#include "gtest/gtest.h"

namespace paceline::agent {
namespace {

constexpr char kNoName[] = "no-such-host.invalid";

TEST(GlooInterfaceTest, AJobOfOneHostNeedsNone) {
  EXPECT_EQ(GlooInterface("127.0.0.1", kNoName), "");
  EXPECT_EQ(GlooInterface("127.0.0.1", "localhost"), "");
}

// The loopback address stands for an address of this host that others can reach, because a test
// cannot know another one.
TEST(GlooInterfaceTest, AnAddressOfNoInterfaceNamesNone) {
  EXPECT_EQ(GlooInterface("192.0.2.1", kNoName), "");
}

}  // namespace
}  // namespace paceline::agent

#include "paceline/wire/client/resolve.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "paceline/wire/server/listener.h"

namespace paceline::wire {
namespace {

constexpr addrinfo kNumber = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};

TEST(ResolveTest, FindsTheAddressOfANumber) {
  const AddressList found = Resolve("127.0.0.1", "29400", kNumber);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->ai_family, AF_INET);
}

TEST(ResolveTest, FindsNothingUnderANameWhereANumberIsWanted) {
  EXPECT_EQ(Resolve("pod-0.train", "29400", kNumber), nullptr);
}

TEST(ResolveTest, LooksAgainWhileNamesSpread) {
  int look_count = 0;
  WhileNamesSpread([&] { return ++look_count == 3; });
  EXPECT_EQ(look_count, 3);
}

// A numeric address cannot change, so there is no retry. Otherwise the test would take ten seconds.
TEST(ResolveTest, AnAddressOfAnotherHostIsRefusedAtOnce) {
  const auto listener = Listener::Open("192.0.2.1:0");
  EXPECT_TRUE(absl::IsNotFound(listener.status())) << listener.status();
}

}  // namespace
}  // namespace paceline::wire

#include "paceline/wire/security/peer_limits.h"

#include "gtest/gtest.h"

namespace paceline::wire {
namespace {

constexpr Instant At(int64_t seconds) { return Instant::FromNanoseconds(seconds * 1'000'000'000); }

TEST(PeerHost, LosesThePortOnly) {
  EXPECT_EQ(PeerHost("ipv4:10.0.0.1:4711"), "ipv4:10.0.0.1");
  EXPECT_EQ(PeerHost("ipv6:%5B::1%5D:4711"), "ipv6:%5B::1%5D");
  EXPECT_EQ(PeerHost("unix:/a:b"), "unix:/a:b");
  EXPECT_EQ(PeerHost(""), "");
}

TEST(FailureLimit, ABurstThenOneNowAndThen) {
  FailureLimit limit;
  for (uint32_t i = 0; i < FailureLimit::kBurst; ++i) EXPECT_TRUE(limit.Take("a", At(100)));
  EXPECT_FALSE(limit.Take("a", At(100)));
  EXPECT_TRUE(limit.Take("b", At(100))) << "another address is not concerned";
  EXPECT_FALSE(limit.Take("a", At(102)));
  EXPECT_TRUE(limit.Take("a", At(103)));
  EXPECT_FALSE(limit.Take("a", At(103)));
  for (uint32_t i = 0; i < FailureLimit::kBurst; ++i) EXPECT_TRUE(limit.Take("a", At(10'000)));
  EXPECT_FALSE(limit.Take("a", At(10'000)));
}

TEST(FailureLimit, TheTableIsBoundedAndCleansItself) {
  FailureLimit limit;
  const auto flood = [&](int64_t second) {
    for (size_t i = 0; i < 2 * FailureLimit::kPeersMax; ++i) {
      limit.Take(std::to_string(second) + "-" + std::to_string(i), At(second));
    }
  };
  flood(1);
  EXPECT_EQ(limit.peer_count(), FailureLimit::kPeersMax);
  EXPECT_FALSE(limit.Take("late", At(1))) << "those without room share one bucket, now empty";
  flood(1000);
  EXPECT_EQ(limit.peer_count(), FailureLimit::kPeersMax) << "the old ones have left";
}

TEST(StreamLimit, CountsWhatIsOpen) {
  StreamLimit limit(2);
  EXPECT_TRUE(limit.Take("a"));
  EXPECT_TRUE(limit.Take("a"));
  EXPECT_FALSE(limit.Take("a"));
  EXPECT_TRUE(limit.Take("b"));
  limit.Release("a");
  EXPECT_TRUE(limit.Take("a"));
  EXPECT_FALSE(limit.Take("a"));
}

}  // namespace
}  // namespace paceline::wire

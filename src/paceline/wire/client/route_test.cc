#include "paceline/wire/client/route.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::wire {
namespace {

std::vector<std::string> Relays(int count) {
  std::vector<std::string> relays;
  for (int i = 0; i < count; ++i) relays.push_back("relay" + std::to_string(i) + ":29401");
  return relays;
}

TEST(Route, WithoutRelaysItIsTheMaster) {
  Route route("master:1", {}, "host");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(route.address(), "master:1");
    EXPECT_FALSE(route.is_relay());
    route.Failed();
  }
}

TEST(Route, GoesToTheMasterAfterThreeRoundsOfFourRelaysAndBeginsAgain) {
  Route route("master:1", Relays(16), "host");
  std::vector<std::string> tried;
  for (; route.is_relay(); route.Failed()) tried.push_back(route.address());
  ASSERT_EQ(tried.size(), 12u);
  EXPECT_EQ(std::set(tried.begin(), tried.end()).size(), 4u);
  for (size_t i = 4; i < tried.size(); ++i) EXPECT_EQ(tried[i], tried[i - 4]);
  EXPECT_EQ(route.address(), "master:1");
  route.Failed();
  EXPECT_EQ(route.address(), tried.front());
}

TEST(Route, TheOrderIsTheHostsOwnAndDoesNotDependOnTheList) {
  std::vector<std::string> relays = Relays(16);
  const Route one("master:1", relays, "host7");
  std::swap(relays.front(), relays.back());
  relays.push_back(relays[3]);  // named twice
  EXPECT_EQ(Route("master:1", relays, "host7").address(), one.address());
}

// 10,000 hosts over 16 relays: 625 each on average, within five standard deviations (24 each). A
// dead relay's share goes to all others.
TEST(Route, SharesAreEvenBeforeAndAfterADeath) {
  std::map<std::string, int> first;
  std::map<std::string, int> second_of_dead;
  const std::string dead = "relay5:29401";
  for (int host = 0; host < 10'000; ++host) {
    Route route("master:1", Relays(16), "host" + std::to_string(host));
    ++first[route.address()];
    if (route.address() != dead) continue;
    route.Failed();
    ++second_of_dead[route.address()];
  }
  ASSERT_EQ(first.size(), 16u);
  for (const auto& [relay, count] : first) EXPECT_NEAR(count, 625, 120) << relay;
  ASSERT_EQ(second_of_dead.size(), 15u);
  for (const auto& [relay, count] : second_of_dead) EXPECT_NEAR(count, 42, 33) << relay;
}

}  // namespace
}  // namespace paceline::wire

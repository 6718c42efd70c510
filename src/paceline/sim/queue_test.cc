#include "paceline/sim/queue.h"

#include <vector>

#include "gtest/gtest.h"

namespace paceline::sim {
namespace {

Instant At(int64_t ms) { return Instant() + Duration::Milliseconds(ms); }

TEST(EventQueue, RunsByTimeThenByOrderOfAsking) {
  EventQueue queue;
  std::vector<int> order;
  queue.At(At(2), [&] { order.push_back(3); });
  queue.At(At(1), [&] { order.push_back(1); });
  queue.At(At(1), [&] { order.push_back(2); });
  while (!queue.empty()) queue.RunNext();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(queue.now(), At(2));
}

TEST(EventQueue, TakesThePastForNow) {
  EventQueue queue;
  Instant seen;
  queue.At(At(5), [&] { queue.At(At(1), [&] { seen = queue.now(); }); });
  while (!queue.empty()) queue.RunNext();
  EXPECT_EQ(seen, At(5));
}

}  // namespace
}  // namespace paceline::sim

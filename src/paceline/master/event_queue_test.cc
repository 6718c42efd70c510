#include "paceline/master/event_queue.h"

#include <thread>

#include "gtest/gtest.h"

namespace paceline::master {
namespace {

constexpr Duration kLong = Duration::Seconds(60);

MasterEvent Beat(uint64_t connection) {
  return wire::ServerEvent(wire::AgentSaid{ConnectionId(connection), wire::Heartbeat{}});
}
MasterEvent Gone(uint64_t connection) {
  return wire::ServerEvent(wire::AgentDisconnected{ConnectionId(connection), "gone"});
}

TEST(EventQueue, OnlyABeatCanWait) {
  EXPECT_TRUE(CanWait(Beat(1)));
  EXPECT_FALSE(CanWait(Gone(1)));
  EXPECT_FALSE(CanWait(wire::ServerEvent(wire::AgentSaid{ConnectionId(1), wire::Leaving{}})));
  EXPECT_FALSE(CanWait(JournalEvent(RecordsDurable{RecordSeq(1)})));
}

TEST(EventQueue, KeepsTheOrder) {
  EventQueue queue;
  queue.Post(Beat(1));
  queue.Post(Gone(2));
  queue.Post(Beat(3));
  const std::vector<MasterEvent> events = queue.Take(kLong);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(CanWait(events[0]));
  EXPECT_FALSE(CanWait(events[1]));
  EXPECT_TRUE(CanWait(events[2]));
}

TEST(EventQueue, AFullOneRefusesButTakesWhatMustNotBeLost) {
  EventQueue queue;
  for (size_t i = 0; i < EventQueue::kEventsMax; ++i) ASSERT_TRUE(queue.TryPost(Beat(1)));
  EXPECT_FALSE(queue.TryPost(Beat(1)));
  queue.Post(Gone(1));
  EXPECT_EQ(queue.Take(Duration()).size(), EventQueue::kEventsMax + 1);
}

// Each event must wake the loop in any state. A lost wake-up would hang here until the test's own
// limit.
TEST(EventQueue, EveryPostWakesTheLoop) {
  EventQueue queue;
  constexpr uint64_t kRounds = 2000;
  std::thread poster([&] {
    for (uint64_t i = 0; i < kRounds; ++i) queue.Post(i % 3 == 0 ? Gone(i) : Beat(i));
  });
  uint64_t taken = 0;
  while (taken < kRounds) taken += queue.Take(Duration::Infinite()).size();
  EXPECT_EQ(taken, kRounds);
  // Alone, after a heartbeat, and each time the loop becomes idle.
  std::thread second([&] {
    for (uint64_t i = 0; i < 50; ++i) {
      queue.Post(Beat(i));
      std::this_thread::yield();
      queue.Post(Gone(i));
    }
  });
  for (taken = 0; taken < 100;) taken += queue.Take(Duration::Infinite()).size();
  poster.join();
  second.join();
  EXPECT_EQ(taken, 100u);
}

}  // namespace
}  // namespace paceline::master

#include "paceline/agent/socket/reactor.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

namespace paceline::agent {
namespace {

TEST(ReactorTest, RunsTimersInOrderAndSkipsCancelledOnes) {
  auto reactor = Reactor::Create();
  ASSERT_TRUE(reactor.ok());
  std::string order;
  const int64_t now = MonotonicNs();
  (*reactor)->CallAt(now + 2, [&] { order += "b"; });
  (*reactor)->CallAt(now + 1, [&] { order += "a"; });
  const auto cancelled = (*reactor)->CallAt(now + 3, [&] { order += "x"; });
  (*reactor)->Cancel(cancelled);
  (*reactor)->CallAt(now + 1'000'000, [&] { (*reactor)->Stop(); });
  (*reactor)->Run();
  EXPECT_EQ(order, "ab");
}

TEST(ReactorTest, TakesWorkFromOtherThreads) {
  auto reactor = Reactor::Create();
  ASSERT_TRUE(reactor.ok());
  int sum = 0;
  std::thread other([&] {
    for (int i = 1; i <= 100; ++i) (*reactor)->Post([&sum, i] { sum += i; });
    (*reactor)->Post([&] { (*reactor)->Stop(); });
  });
  (*reactor)->Run();
  other.join();
  EXPECT_EQ(sum, 5050);
}

TEST(ReactorTest, ACallbackMayUnwatchItself) {
  auto reactor = Reactor::Create();
  ASSERT_TRUE(reactor.ok());
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Fd reader(ends[0]);
  const Fd writer(ends[1]);
  int calls = 0;
  const std::string alive = "captured";
  ASSERT_TRUE((*reactor)
                  ->Watch(reader.get(), EPOLLIN,
                          [&, alive](uint32_t) {
                            (*reactor)->Unwatch(reader.get());
                            calls += alive == "captured" ? 1 : 100;
                            (*reactor)->CallAt(MonotonicNs(), [&] { (*reactor)->Stop(); });
                          })
                  .ok());
  ASSERT_EQ(::write(writer.get(), "x", 1), 1);
  (*reactor)->Run();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace paceline::agent

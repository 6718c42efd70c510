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

// Two descriptors are readable at once. The first callback closes the other descriptor, and its
// number goes to a pipe that nobody wrote to.
TEST(ReactorTest, AnEventOfAClosedDescriptorDoesNotGoToTheNextOwnerOfItsNumber) {
  auto reactor = Reactor::Create();
  ASSERT_TRUE(reactor.ok());
  std::array<std::array<int, 2>, 3> pipes{};
  for (auto& ends : pipes) ASSERT_EQ(::pipe(ends.data()), 0);
  int calls = 0;
  int wrong_calls = 0;
  const auto take = [&](int other) {
    ++calls;
    (*reactor)->Unwatch(other);
    ASSERT_EQ(::dup2(pipes[2][0], other), other);
    ASSERT_TRUE((*reactor)->Watch(other, EPOLLIN, [&](uint32_t) { ++wrong_calls; }).ok());
    (*reactor)->CallAt(MonotonicNs(), [&] { (*reactor)->Stop(); });
  };
  for (const int i : {0, 1}) {
    ASSERT_EQ(::write(pipes[i][1], "x", 1), 1);
    const int other = pipes[1 - i][0];
    ASSERT_TRUE(
        (*reactor)->Watch(pipes[i][0], EPOLLIN, [&take, other](uint32_t) { take(other); }).ok());
  }
  (*reactor)->Run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(wrong_calls, 0);
  for (const auto& ends : pipes) {
    for (const int fd : ends) ::close(fd);
  }
}

}  // namespace
}  // namespace paceline::agent

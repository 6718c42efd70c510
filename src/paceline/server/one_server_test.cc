#include "paceline/server/one_server.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "paceline/base/test_dir.h"

namespace paceline::server {
namespace {

// A child that is server 0 of the directory, and stands still.
pid_t FrozenServer(const std::string& directory, const std::string& job) {
  int pipe[2];
  EXPECT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = BecomeServer(directory, 0, job);
    const char told = held.ok() ? 'y' : 'n';
    if (::write(pipe[1], &told, 1) == 1) ::raise(SIGSTOP);
    ::_exit(0);
  }
  ::close(pipe[1]);
  char told = 0;
  EXPECT_EQ(::read(pipe[0], &told, 1), 1);
  EXPECT_EQ(told, 'y');
  ::close(pipe[0]);
  return child;
}

TEST(OneServerTest, AFrozenProcessOfTheSameJobIsKilled) {
  const TestDir dir;
  const pid_t child = FrozenServer(dir.path(), "job-1");
  const auto mine = BecomeServer(dir.path(), 0, "job-1");
  ASSERT_TRUE(mine.ok()) << mine.status();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

// Some shared file systems report it with the number of a process that is of this host.
TEST(OneServerTest, AProcessOfTheSameJobOnAnotherHostIsWaitedFor) {
  const TestDir dir;
  const pid_t child = FrozenServer(dir.path(), "job-1");
  dir.Write("server-0.lock", "job-1\nanother-boot");
  std::atomic<bool> has_begun = false;
  bool was_alive = false;
  std::thread other([&] {
    while (!has_begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    was_alive = ::kill(child, 0) == 0 && ::waitpid(child, nullptr, WNOHANG) == 0;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  });
  has_begun = true;
  const auto mine = BecomeServer(dir.path(), 0, "job-1");
  other.join();
  EXPECT_TRUE(mine.ok()) << mine.status();
  EXPECT_TRUE(was_alive);
}

TEST(OneServerTest, ADirectoryBelongsToTheJobThatItNames) {
  const TestDir dir;
  const std::string tables = dir.path() + "/a/tables";
  EXPECT_FALSE(IsOfJob(tables, "job-1"));
  ASSERT_TRUE(NameJob(tables, "job-1").ok());
  EXPECT_TRUE(IsOfJob(tables, "job-1"));
  EXPECT_FALSE(IsOfJob(tables, "job-10"));
  ASSERT_TRUE(NameJob(tables, "job-10").ok());
  EXPECT_FALSE(IsOfJob(tables, "job-1"));
}

TEST(OneServerTest, OtherServersAndLaterJobsAreFree) {
  const TestDir dir;
  {
    const auto first = BecomeServer(dir.path(), 0, "a job with a long name");
    const auto other = BecomeServer(dir.path(), 1, "a job with a long name");
    EXPECT_TRUE(first.ok() && other.ok());
  }
  EXPECT_TRUE(BecomeServer(dir.path(), 0, "job-2").ok());
}

TEST(OneServerTest, ADirectoryThatIsNotThereIsNamed) {
  const TestDir dir;
  const auto none = BecomeServer(dir.path() + "/none", 0, "job-1");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("none/server-0.lock"), std::string::npos);
}

}  // namespace
}  // namespace paceline::server

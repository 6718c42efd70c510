#include "paceline/agent/logs/rank_logs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"

namespace paceline::agent {
namespace {

TEST(RankLogsTest, AnAppendingRankLosesOnlyItsMiddle) {
  const TestDir dir;
  constexpr uint64_t kKept = 64 << 10;
  RankLogs logs(dir.path(), {.head_bytes = kKept, .tail_bytes = kKept, .generations_kept = 2});
  logs.OpenGeneration(1);
  const std::string path = logs.StdoutPath(1, 0);
  const Fd writer(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string block(kKept, 'x');
  for (int i = 0; i < 10; ++i) ASSERT_EQ(::write(writer.get(), block.data(), kKept), kKept);
  logs.Trim(1);
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(static_cast<uint64_t>(found.st_size), 10 * kKept);
  EXPECT_LE(static_cast<uint64_t>(found.st_blocks) * 512, 2 * kKept + 8192);
  ASSERT_EQ(::write(writer.get(), "end", 3), 3);
  EXPECT_EQ(ReadTail(path, 4), "xend");
  EXPECT_EQ(ReadText(path, 4), "xxxx");
}

TEST(RankLogsTest, OldGenerationsGoButTheFirstStays) {
  const TestDir dir;
  RankLogs logs(dir.path(), {.generations_kept = 2});
  for (uint64_t generation = 1; generation <= 5; ++generation) {
    logs.OpenGeneration(generation);
    ASSERT_TRUE(ReplaceFile(logs.StderrPath(generation, 0), "x", 0600).ok());
  }
  const auto exists = [&dir](const char* name) {
    return std::filesystem::exists(dir.path() + "/" + name);
  };
  EXPECT_TRUE(exists("g1"));
  EXPECT_FALSE(exists("g2"));
  EXPECT_FALSE(exists("g3"));
  EXPECT_TRUE(exists("g4"));
  EXPECT_TRUE(exists("g5"));
}

// A log directory with higher generations, as of another job: the new generation counted as the
// oldest and was deleted at once.
TEST(RankLogsTest, WhatWasJustMadeStaysBesideHigherNumbers) {
  const TestDir dir;
  RankLogs logs(dir.path(), {.generations_kept = 2});
  for (uint64_t generation = 1000; generation <= 1005; ++generation) {
    ASSERT_TRUE(MakeDirs(dir.path() + "/g" + std::to_string(generation), 0700).ok());
  }
  logs.OpenGeneration(1);
  logs.OpenGeneration(2);
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/g2"));
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/g1000"));
}

TEST(RankLogsTest, AllNodesOfAJobHaveABoundTogether) {
  const TestDir dir;
  constexpr uint64_t kBytes = 64 << 10;
  RankLogs first(dir.path() + "/a", {.total_bytes = 6 * kBytes});
  RankLogs second(dir.path() + "/b", {.total_bytes = 6 * kBytes});
  for (uint64_t generation = 1; generation <= 4; ++generation) {
    for (RankLogs* logs : {&first, &second}) {
      logs->OpenGeneration(generation);
      const std::string text(kBytes, 'x');
      ASSERT_TRUE(ReplaceFile(logs->StdoutPath(generation, 0), text, 0600).ok());
    }
  }
  first.KeepTotal(4);
  second.KeepTotal(4);
  const auto exists = [&dir](const char* name) {
    return std::filesystem::exists(dir.path() + "/" + name);
  };
  for (const char* name : {"a/g1", "b/g1", "a/g3", "b/g3", "a/g4", "b/g4"}) {
    EXPECT_TRUE(exists(name)) << name;
  }
  EXPECT_FALSE(exists("a/g2"));
  EXPECT_FALSE(exists("b/g2"));
}

TEST(RankLogsTest, AShortLivedRankIsTrimmedWhenTheNextWorldBegins) {
  const TestDir dir;
  constexpr uint64_t kKept = 64 << 10;
  RankLogs logs(dir.path(), {.head_bytes = kKept, .tail_bytes = kKept});
  logs.OpenGeneration(1);
  ASSERT_TRUE(ReplaceFile(logs.StdoutPath(1, 0), std::string(10 * kKept, 'x'), 0600).ok());
  logs.OpenGeneration(2);
  struct stat found {};
  ASSERT_EQ(::stat(logs.StdoutPath(1, 0).c_str(), &found), 0);
  EXPECT_LE(static_cast<uint64_t>(found.st_blocks) * 512, 2 * kKept + 8192);
}

}  // namespace
}  // namespace paceline::agent

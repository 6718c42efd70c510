#include "paceline/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "paceline/base/status_macros.h"
#include "paceline/base/test_dir.h"

namespace paceline {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// By the clock of the lines. std::time reads one that stays behind by up to a tick of the kernel,
// so that it may name the second before.
std::time_t SecondNow() {
  return std::chrono::system_clock::to_time_t(
      std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
}

TEST(LogTest, WritesPairsAndQuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(FormatLogLine("started", {}), "started");
  EXPECT_EQ(FormatLogLine("rank_exited", {{"node", "node0"}, {"rank", 3}, {"asked", false}}),
            "rank_exited node=node0 rank=3 asked=false");
  EXPECT_EQ(FormatLogLine("x", {{"why", "exit code 1"}, {"empty", ""}, {"q", "a\"b\n\x01"}}),
            R"(x why="exit code 1" empty="" q="a\"b\n\x01")");
  EXPECT_EQ(FormatLogLine("x", {{"took", Duration::Milliseconds(20)}}), "x took=\"20 ms\"");
}

TEST(LogTest, AppendsToAFile) {
  const TestDir dir;
  const std::string path = dir.path() + "/log";
  ASSERT_TRUE(LogToFile(path).ok());
  LogInfo("shown", {{"n", 1}});
  LogToStderr();
  const std::string text = Read(path);
  EXPECT_NE(text.find("Z info shown n=1\n"), std::string::npos) << text;
}

TEST(LogTest, BeginsALineWithTheTimeInUtcAndTheLevel) {
  const TestDir dir;
  const std::string path = dir.path() + "/log";
  const std::time_t before = SecondNow();
  ASSERT_TRUE(LogToFile(path).ok());
  LogWarning("event");
  LogError("event");
  LogToStderr();
  const std::string text = Read(path);
  EXPECT_THAT(text, testing::MatchesRegex(
                        "[0-9-]{10}T[0-9:]{8}[.][0-9]{6}Z warning event\n[^\n]*Z error event\n"));
  std::tm parts{};
  ASSERT_NE(::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts), nullptr) << text;
  EXPECT_GE(::timegm(&parts), before);
  EXPECT_LE(::timegm(&parts), SecondNow());
}

TEST(LogTest, GoesOnInAnotherFile) {
  const TestDir dir;
  const std::string first = dir.path() + "/first";
  const std::string second = dir.path() + "/second";
  ASSERT_TRUE(LogToFile(first).ok());
  LogInfo("one");
  ASSERT_TRUE(LogToFile(second).ok());
  LogInfo("two");
  ASSERT_FALSE(LogToFile("/proc/no/such/folder/log").ok());
  LogInfo("three");
  LogToStderr();
  LogInfo("on_stderr");
  ASSERT_TRUE(LogToFile(first).ok());
  LogInfo("four");
  LogToStderr();
  EXPECT_THAT(Read(first), testing::MatchesRegex("[^\n]* info one\n[^\n]* info four\n"));
  EXPECT_THAT(Read(second), testing::MatchesRegex("[^\n]* info two\n[^\n]* info three\n"));
}

TEST(LogTest, LinesOfManyThreadsAreWhole) {
  constexpr size_t kThreads = 4, kLines = 200, kTimeWidth = 27;
  const TestDir dir;
  const std::string path = dir.path() + "/log";
  ASSERT_TRUE(LogToFile(path).ok());
  std::vector<std::thread> threads;
  for (size_t n = 0; n < kThreads; ++n) {
    threads.emplace_back([n] {
      for (size_t line = 0; line < kLines; ++line) LogInfo("line", {{"of", n}, {"n", line}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  LogToStderr();
  std::istringstream text(Read(path));
  std::set<std::string> lines;  // without their times
  for (std::string line; std::getline(text, line);) lines.insert(line.substr(kTimeWidth));
  EXPECT_EQ(lines.size(), kThreads * kLines);
  EXPECT_EQ(lines.count(" info line of=3 n=0"), 1u);
}

TEST(LogTest, SaysWhyAFileCannotBeOpened) {
  const absl::Status status = LogToFile("/proc/no/such/folder/log");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(Text(status).find("/proc/no/such/folder/log"), std::string_view::npos);
}

}  // namespace
}  // namespace paceline

#include "paceline/base/log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "paceline/base/status_macros.h"

namespace paceline {
namespace {

TEST(LogTest, WritesPairsAndQuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(FormatLogLine("started", {}), "started");
  EXPECT_EQ(FormatLogLine("rank_exited", {{"node", "node0"}, {"rank", 3}, {"asked", false}}),
            "rank_exited node=node0 rank=3 asked=false");
  EXPECT_EQ(FormatLogLine("x", {{"why", "exit code 1"}, {"empty", ""}, {"q", "a\"b\n\x01"}}),
            R"(x why="exit code 1" empty="" q="a\"b\n\x01")");
  EXPECT_EQ(FormatLogLine("x", {{"took", Duration::Milliseconds(20)}}), "x took=\"20 ms\"");
}

TEST(LogTest, AppendsToAFileAndRespectsTheLevel) {
  const std::string path = testing::TempDir() + "/paceline_log_test.log";
  std::remove(path.c_str());
  ASSERT_TRUE(LogToFile(path).ok());
  LogDebug("hidden");
  LogInfo("shown", {{"n", 1}});
  SetLogLevel(LogLevel::kError);
  LogWarning("hidden");
  SetLogLevel(LogLevel::kInfo);
  LogToStderr();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("Z info shown n=1\n"), std::string::npos) << text.str();
  EXPECT_EQ(text.str().find("hidden"), std::string::npos);
  std::remove(path.c_str());
}

TEST(LogTest, SaysWhyAFileCannotBeOpened) {
  const absl::Status status = LogToFile("/proc/no/such/folder/log");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(Text(status).find("/proc/no/such/folder/log"), std::string_view::npos);
}

}  // namespace
}  // namespace paceline

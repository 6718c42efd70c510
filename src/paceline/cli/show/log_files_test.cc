#include "paceline/cli/show/log_files.h"

#include <filesystem>

#include "gtest/gtest.h"
#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"

namespace paceline::cli {
namespace {

class LogFiles : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::string full = root_ + "/" + path;
    ASSERT_TRUE(MakeDirs(full.substr(0, full.rfind('/')), 0700).ok());
    ASSERT_TRUE(ReplaceFile(full, text, 0600).ok());
  }
  std::vector<std::string> Names(const LogSelection& selection) {
    std::vector<std::string> names;
    for (const LogFile& file : FindLogFiles(root_, selection)) {
      names.push_back(file.path.substr(root_.size() + 1));
    }
    return names;
  }

  const TestDir dir_;
  const std::string root_ = dir_.path();
};

using Paths = std::vector<std::string>;

TEST_F(LogFiles, FindsTheNewestWorldOfAllNodes) {
  Write("node0/g1/rank0.out", "");
  Write("node0/g2/rank0.out", "");
  Write("node0/g2/rank10.err", "");
  Write("node0/g2/rank2.err", "");
  Write("node1/g1/rank1.out", "");
  Write("node0/agent.log", "");
  Write("node0/g2/rankx.out", "");
  Write("node0/g2/rank1.out.tmp", "");
  Write("master.log", "");
  EXPECT_EQ(Names({}), (Paths{"node0/g2/rank0.out", "node0/g2/rank2.err", "node0/g2/rank10.err"}));
  EXPECT_EQ(Names({.errors_only = true}), (Paths{"node0/g2/rank2.err", "node0/g2/rank10.err"}));
  EXPECT_EQ(Names({.node = "node1"}), (Paths{"node1/g1/rank1.out"}));
  EXPECT_EQ(Names({.rank = 0, .generation = 1}), (Paths{"node0/g1/rank0.out"}));
  EXPECT_EQ(Names({.rank = 0, .is_newest_only = false}),
            (Paths{"node0/g1/rank0.out", "node0/g2/rank0.out"}));
}

TEST_F(LogFiles, OnlyTheRootMayBeALink) {
  namespace fs = std::filesystem;
  const TestDir other;
  ASSERT_TRUE(ReplaceFile(other.path() + "/rank3.out", "secret\n", 0600).ok());
  Write("node0/g1/rank0.out", "told\n");
  fs::create_symlink(other.path() + "/rank3.out", root_ + "/node0/g1/rank1.out");
  fs::create_directory_symlink(other.path(), root_ + "/node0/g2");
  fs::create_directory_symlink(root_ + "/node0", root_ + "/node1");
  fs::create_directory_symlink(root_, other.path() + "/logs");
  const std::vector<LogFile> files =
      FindLogFiles(other.path() + "/logs", {.is_newest_only = false});
  std::string told;
  for (const LogFile& file : files) {
    for (const std::string& line : ReadLastLines(file.path, 10).lines) told += line;
  }
  EXPECT_EQ(told, "told");
  EXPECT_EQ(SizeOf(root_ + "/node0/g1/rank1.out"), 0u);
}

TEST_F(LogFiles, NewLinesAreToldWhole) {
  Write("a", "one\ntwo\nthr");
  const std::string path = root_ + "/a";
  LogText text = ReadNewLines(path, 0);
  EXPECT_EQ(text.lines, (Paths{"one", "two"}));
  EXPECT_EQ(text.end, 8U);
  EXPECT_TRUE(ReadNewLines(path, text.end).lines.empty());
  Write("a", "one\ntwo\nthree\n");
  text = ReadNewLines(path, text.end);
  EXPECT_EQ(text.lines, (Paths{"three"}));
  EXPECT_EQ(text.end, 14U);
}

TEST_F(LogFiles, LastLinesIncludeTheUnfinishedOneAndSkipHoles) {
  Write("a", std::string("begin\n") + std::string(100, '\0') + "after the hole\nlast");
  EXPECT_EQ(ReadLastLines(root_ + "/a", 2).lines, (Paths{"after the hole", "last"}));
  EXPECT_TRUE(ReadLastLines(root_ + "/a", 0).lines.empty());
  EXPECT_TRUE(ReadLastLines(root_ + "/missing", 2).lines.empty());
}

}  // namespace
}  // namespace paceline::cli

#include "paceline/cli/show/rank_tail.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"

namespace paceline::cli {
namespace {

void AppendTo(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

TEST(RankTailTest, ReadsOnlyRankFiles) {
  EXPECT_EQ(ParseRankFile("rank12.err"), std::pair(12u, true));
  EXPECT_EQ(ParseRankFile("rank0.out"), std::pair(0u, false));
  for (const char* name : {"rank.out", "rank1", "rank-1.out", "agent.log", "rank1.outx", ""}) {
    EXPECT_FALSE(ParseRankFile(name).has_value()) << name;
  }
}

TEST(RankTailTest, FollowsNewGenerationsAndPartialLines) {
  const TestDir dir;
  auto reactor = agent::Reactor::Create();
  ASSERT_TRUE(reactor.ok());
  std::string seen;
  auto tail = RankTail::Start(**reactor, dir.path(), {"node0"}, true, [&](RankLine line) {
    seen += std::to_string(line.rank) + (line.is_stderr ? "!" : ":") + line.text + ";";
    if (line.text == "end") (*reactor)->Stop();
  });
  ASSERT_TRUE(tail.ok());
  std::thread writer([&] {
    ASSERT_TRUE(MakeDirs(dir.path() + "/node0/g1", 0700).ok());
    const std::string out = dir.path() + "/node0/g1/rank3.out";
    AppendTo(out, "one\ntw");
    AppendTo(out, "o\n10%\r20%\r30%\r\n");
    ASSERT_TRUE(MakeDirs(dir.path() + "/node0/g2", 0700).ok());
    AppendTo(dir.path() + "/node0/g2/rank3.err", "end\n");
  });
  (*reactor)->Run();
  writer.join();
  (*tail)->Drain();
  EXPECT_EQ(seen, "3:one;3:two;3:30%;3!end;");
}

TEST(RankTailTest, KeepsNoFileOfOldGenerationsOpen) {
  const TestDir dir;
  auto reactor = agent::Reactor::Create();
  ASSERT_TRUE(reactor.ok());
  std::string seen;
  auto tail = RankTail::Start(**reactor, dir.path(), {"node0"}, true,
                              [&](RankLine line) { seen += line.text + ";"; });
  ASSERT_TRUE(tail.ok());
  std::string wanted;
  for (int generation = 1; generation <= 20; ++generation) {
    const std::string folder = dir.path() + "/node0/g" + std::to_string(generation);
    ASSERT_TRUE(MakeDirs(folder, 0700).ok());
    AppendTo(folder + "/rank0.out", "line\nno end " + std::to_string(generation));
    (*tail)->Drain();
    wanted += "line;no end " + std::to_string(generation) + ";";
  }
  EXPECT_EQ(seen, wanted);
  EXPECT_EQ((*tail)->open_file_count(), 2u);
  AppendTo(dir.path() + "/node0/g1/rank0.out", "late\n");
  (*tail)->Drain();
  EXPECT_EQ(seen, wanted) << "an old generation is not read from its start again";
}

}  // namespace
}  // namespace paceline::cli

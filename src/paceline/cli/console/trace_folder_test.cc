#include "paceline/cli/console/trace_folder.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline::cli {
namespace {

constexpr uint64_t kWorld = 3;

Instant TraceAt(int64_t ms) { return Instant::FromNanoseconds(ms * 1'000'000); }

RankLine Err(uint32_t rank, const std::string& text) { return {"node0", rank, true, text, kWorld}; }

std::string Shown(const std::vector<RankLine>& lines) {
  std::string text;
  for (const RankLine& line : lines) text += std::to_string(line.rank) + "|" + line.text + "\n";
  return text;
}

class TraceFolderTest : public ::testing::Test {
 protected:
  // A trace as torch prints it; nothing of it is shown yet.
  void AddTrace(uint32_t rank, const std::string& headline) {
    const std::string begin = "[rank" + std::to_string(rank) + "]: ";
    for (const std::string& line :
         {std::string("Traceback (most recent call last):"), std::string("  File \"t.py\", line 3"),
          std::string("    dist.all_reduce(t)"), headline, std::string("  where  t.py:3")}) {
      EXPECT_EQ(Shown(folder_.Add(TraceAt(0), Err(rank, begin + line))), "");
    }
  }
  TraceFolder folder_{Duration::Milliseconds(100)};
};

TEST_F(TraceFolderTest, TheCauseIsShownLastAndWholeAndOthersInOneLine) {
  AddTrace(1, "KeyError: 'labelz'");
  AddTrace(0, "RuntimeError: Connection closed by peer");
  AddTrace(2, "RuntimeError: Connection closed by peer");
  EXPECT_EQ(Shown(folder_.Blame(kWorld, 1)),
            "0|RuntimeError: Connection closed by peer  (its trace: paceline logs --rank 0 "
            "--generation 3)\n"
            "2|RuntimeError: Connection closed by peer  (its trace: paceline logs --rank 2 "
            "--generation 3)\n"
            "1|[rank1]: Traceback (most recent call last):\n"
            "1|[rank1]:   File \"t.py\", line 3\n"
            "1|[rank1]:     dist.all_reduce(t)\n"
            "1|[rank1]: KeyError: 'labelz'\n"
            "1|[rank1]:   where  t.py:3\n");
  EXPECT_TRUE(folder_.NextDeadline().is_max());
  EXPECT_EQ(Shown(folder_.Add(TraceAt(1), Err(0, "more of it"))), "");
  EXPECT_EQ(Shown(folder_.Add(TraceAt(1), Err(1, "more of it"))), "1|more of it\n");
}

TEST_F(TraceFolderTest, ATraceAfterTheDecisionIsFoldedToo) {
  EXPECT_EQ(Shown(folder_.Blame(kWorld, 1)), "");
  AddTrace(0, "RuntimeError: Connection reset");
  EXPECT_EQ(
      Shown(folder_.TakeDue(TraceAt(100))),
      "0|RuntimeError: Connection reset  (its trace: paceline logs --rank 0 --generation 3)\n");
}

TEST_F(TraceFolderTest, ATraceWithoutAFailureIsShownWhole) {
  AddTrace(0, "ValueError: the script catches this");
  EXPECT_EQ(folder_.NextDeadline(), TraceAt(100));
  EXPECT_EQ(folder_.TakeDue(TraceAt(99)).size(), 0U);
  EXPECT_EQ(folder_.TakeDue(TraceAt(100)).size(), 5U);
  EXPECT_EQ(Shown(folder_.Add(TraceAt(101), Err(0, "goes on"))), "0|goes on\n");
}

TEST_F(TraceFolderTest, AFailureOfAnotherWorldFoldsNothing) {
  AddTrace(0, "ValueError: the script catches this");
  EXPECT_EQ(folder_.Blame(kWorld - 1, 1).size(), 0U);
  EXPECT_EQ(folder_.TakeAll().size(), 5U);
}

TEST_F(TraceFolderTest, OnlyTracesWait) {
  EXPECT_EQ(Shown(folder_.Add(TraceAt(0), Err(0, "a warning"))), "0|a warning\n");
  RankLine out = Err(0, "Traceback (most recent call last):");
  out.is_stderr = false;
  EXPECT_EQ(folder_.Add(TraceAt(0), out).size(), 1U);
  EXPECT_TRUE(BeginsTrace("terminate called after throwing an instance of 'gloo::IoException'"));
  EXPECT_TRUE(BeginsTrace("  File \"train.py\", line 1"));
  EXPECT_FALSE(BeginsTrace("[rank]: Traceback (most recent call last):"));
}

TEST_F(TraceFolderTest, ATraceWithoutEndIsShown) {
  AddTrace(0, "ValueError: long");
  size_t shown = 0;
  for (int i = 0; i < 3000 && shown == 0; ++i) shown = folder_.Add(TraceAt(1), Err(0, "x")).size();
  EXPECT_EQ(shown, 2000U);
}

}  // namespace
}  // namespace paceline::cli

#include "paceline/cli/console/line_folder.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline::cli {
namespace {

Instant At(int64_t ms) { return Instant::FromNanoseconds(ms * 1'000'000); }

std::string Text(const std::vector<FoldedLine>& lines) {
  std::string text;
  for (const FoldedLine& folded : lines) {
    text += folded.line.text + "/" + std::to_string(folded.line.rank) + "x" +
            std::to_string(folded.ranks) + " ";
  }
  return text;
}

RankLine Line(uint32_t rank, const std::string& text, bool is_stderr = false) {
  return {"node0", rank, is_stderr, text};
}

TEST(LineFolderTest, FoldsBlocksOfEqualLines) {
  LineFolder folder(Duration::Milliseconds(30));
  for (const uint32_t rank : {0u, 1u, 2u}) {
    for (const char* text : {"a", "b", "a"}) folder.Add(At(rank), Line(rank, text));
  }
  EXPECT_EQ(Text(folder.TakeDue(At(10))), "");
  EXPECT_EQ(Text(folder.TakeDue(At(30))), "a/0x3 b/0x3 a/0x3 ");
  EXPECT_TRUE(folder.NextDeadline().is_max());
}

TEST(LineFolderTest, NeverReordersOneRanksLines) {
  LineFolder folder(Duration::Milliseconds(30));
  folder.Add(At(0), Line(0, "a"));
  folder.Add(At(0), Line(1, "b"));
  folder.Add(At(0), Line(1, "a"));
  EXPECT_EQ(Text(folder.TakeAll()), "a/0x1 b/1x1 a/1x1 ");
}

TEST(LineFolderTest, KeepsStreamsAndRepeatsApart) {
  LineFolder folder(Duration::Milliseconds(30));
  folder.Add(At(0), Line(0, "a"));
  folder.Add(At(0), Line(1, "a", true));
  folder.Add(At(0), Line(0, "a"));
  EXPECT_EQ(Text(folder.TakeAll()), "a/0x1 a/1x1 a/0x1 ");
}

TEST(LineFolderTest, ALateLineIsShownAlone) {
  LineFolder folder(Duration::Milliseconds(30));
  folder.Add(At(0), Line(0, "a"));
  EXPECT_EQ(folder.NextDeadline(), At(30));
  EXPECT_EQ(Text(folder.TakeDue(At(31))), "a/0x1 ");
  folder.Add(At(40), Line(1, "a"));
  EXPECT_EQ(Text(folder.TakeAll()), "a/1x1 ");
}

}  // namespace
}  // namespace paceline::cli

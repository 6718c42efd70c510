#include "paceline/cli/console/text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "paceline/cli/console/error.h"
#include "paceline/cli/console/error_codes.h"
#include "paceline/cli/console/output.h"
#include "paceline/cli/settings/value.h"
#include "paceline/model/problem.h"

namespace paceline::cli {
namespace {

TEST(Value, Durations) {
  EXPECT_EQ(ParseDuration("250ms"), Duration::Milliseconds(250));
  EXPECT_EQ(ParseDuration("1.5 s"), Duration::Milliseconds(1500));
  EXPECT_EQ(ParseDuration("5m"), Duration::Seconds(300));
  EXPECT_EQ(ParseDuration("0"), Duration());
  EXPECT_EQ(ParseDuration("never"), Duration::Infinite());
  for (const char* bad : {"", "5", "-1s", "s", "1e3s", "1.s", ".5s", "1.2.3s", "1 fortnight",
                          "99999999999999999999s", "9223372036854775807h"}) {
    EXPECT_FALSE(ParseDuration(bad).has_value()) << bad;
  }
  for (const char* exact : {"250ms", "90s", "2m", "1h", "0s", "7us", "never"}) {
    EXPECT_EQ(FormatDuration(*ParseDuration(exact)), exact);
  }
}

TEST(Value, SizesAndNumbers) {
  EXPECT_EQ(ParseSize("10GiB"), uint64_t{10} << 30);
  EXPECT_EQ(ParseSize("1.5KB"), 1500u);
  EXPECT_FALSE(ParseSize("10").has_value());
  EXPECT_EQ(ParseInteger(" +1_000 "), 1000);
  EXPECT_EQ(ParseInteger("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  for (const char* bad : {"", "-", "1_", "_1", "1__0", "0x10", "1.0", "9223372036854775808"}) {
    EXPECT_FALSE(ParseInteger(bad).has_value()) << bad;
  }
  EXPECT_EQ(ParseNumber("1e-1"), 0.1);
  EXPECT_FALSE(ParseNumber("0x1p3").has_value());
  EXPECT_EQ(ParseCommaList("a,,b,c"), (std::vector<std::string>{"a,b", "c"}));
}

TEST(Text, ForeignTextIsHarmless) {
  EXPECT_EQ(Visible("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(Visible("a\r\nb\tc"), "a\\x0d\\x0ab c");
  EXPECT_EQ(Visible("x\xe2\x80\xae y"), "x\\u{202e} y");
  EXPECT_EQ(Visible("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");
  EXPECT_EQ(Visible("\xc2\x9b"), "\\x9b");
  EXPECT_EQ(Visible("größe → ok"), "größe → ok");
}

TEST(Text, WidthAndTables) {
  EXPECT_EQ(Width("größe"), 5u);
  EXPECT_EQ(Clip("abcdef", 4), "abc…");
  EXPECT_EQ(Clip("abc", 3), "abc");
  EXPECT_EQ(AsciiSigns("✓ a → b…"), "ok a -> b...");
  EXPECT_EQ(Table({{"A", "B"}, {"long", "x"}}, 0), "A     B\nlong  x\n");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
}

TEST(Text, Nearest) {
  static constexpr std::string_view kWords[] = {"status", "stop", "events"};
  EXPECT_EQ(Nearest("staus", kWords), "status");
  EXPECT_EQ(Nearest("sotp", kWords), "stop");
  EXPECT_EQ(Nearest("zebra", kWords), "");
  EXPECT_EQ(Nearest(std::string(100'000, 's'), kWords), "");
}

TEST(Output, ColourOrder) {
  EXPECT_TRUE(ChooseColor("always", {{"NO_COLOR", "1"}}, false));
  EXPECT_FALSE(ChooseColor("never", {{"CLICOLOR_FORCE", "1"}}, true));
  EXPECT_FALSE(ChooseColor("", {{"NO_COLOR", "1"}, {"CLICOLOR_FORCE", "1"}}, true));
  EXPECT_TRUE(ChooseColor("auto", {{"NO_COLOR", ""}, {"CLICOLOR_FORCE", "1"}}, false));
  EXPECT_FALSE(ChooseColor("auto", {{"CLICOLOR", "0"}}, true));
  EXPECT_FALSE(ChooseColor("auto", {{"TERM", "dumb"}}, true));
  EXPECT_TRUE(ChooseColor("auto", {}, true));
  EXPECT_FALSE(ChooseColor("auto", {}, false));
}

TEST(Error, FourPartsInOrder) {
  const Problem problem{
      .code = "PL-E012", .what = "there is no \x1b[2J", .where = "a\nb", .why = "w", .fix = "f"};
  EXPECT_EQ(RenderProblem(problem),
            "error[PL-E012]: there is no \\x1b[2J\n"
            "  where  a\n"
            "         b\n"
            "  why    w\n"
            "  fix    f\n");
  EXPECT_EQ(RenderProblemJson({.code = "PL-E001", .what = "x"}),
            R"({"schema":"paceline.error/1","code":"PL-E001","message":"x","cause":"","where":"",)"
            R"("fix":"","docs":"docs/errors.md#PL-E001"})");
}

TEST(Error, StatusCarriesItsProblem) {
  const Problem problem{.code = "PL-E031", .what = "a", .where = "b", .why = "c", .fix = "d"};
  EXPECT_EQ(ProblemFrom(ToStatus(absl::StatusCode::kUnavailable, problem)), problem);
  EXPECT_EQ(ProblemFrom(absl::UnavailableError("gone")).code, "PL-E030");
  EXPECT_EQ(ProblemOf(absl::UnavailableError("gone")), std::nullopt);
}

TEST(Error, CodesAreOrderedUniqueAndFound) {
  std::set<std::string_view> seen;
  for (const ErrorCode& row : ErrorCodes()) {
    EXPECT_TRUE(seen.insert(row.code).second) << row.code;
    EXPECT_EQ(FindErrorCode(row.code), &row);
    EXPECT_FALSE(row.title.ends_with(".")) << row.code;
    EXPECT_TRUE(row.text.ends_with(".")) << row.code;
  }
  EXPECT_EQ(FindErrorCode("e12")->code, "PL-E012");
  EXPECT_EQ(FindErrorCode("12")->code, "PL-E012");
  EXPECT_EQ(FindErrorCode("w1")->code, "PL-W001");
  EXPECT_EQ(FindErrorCode("PL-E999"), nullptr);
  EXPECT_EQ(FindErrorCode(""), nullptr);
}

TEST(Text, LinesOfATracebackStayAndEscapesAreShown) {
  EXPECT_EQ(VisibleLines("a\x1b[2J\n  b\n"), "a\\x1b[2J\n  b");
  EXPECT_EQ(VisibleLines("a\n\nb"), "a\n\nb");
}

// The policy of a page has the hash of its script. So a sign that was replaced would stop the
// script.
TEST(OutputTest, AFileOnStandardOutputKeepsItsBytes) {
  FILE* out = std::tmpfile();
  ASSERT_NE(out, nullptr);
  OutputOptions options;
  options.utf8 = false;
  Output output(options, out, out);
  output.FileBytes("a · b\n");
  output.Data("a · b\n");
  std::rewind(out);
  std::string read(64, '\0');
  read.resize(std::fread(read.data(), 1, read.size(), out));
  std::fclose(out);
  EXPECT_EQ(read, "a · b\na - b\n");
}

TEST(Text, ATerminalGetsColoursAndProgressBarsOnly) {
  for (const std::string_view kept : {"plain ✓ é", "\x1b[1;38:2:1:2:3mred\x1b[0m",
                                      "\r 50%|##  |\x1b[K\x1b[A", "a\tb\b", "latin \xE9t\xE9"}) {
    EXPECT_EQ(ForTerminal(kept), kept);
  }
  const std::pair<std::string_view, std::string_view> dropped[] = {
      {"a\x1b]0;title\ab", "ab"},
      {"a\x1b]52;c;bHM=\x1b\\b", "ab"},
      {"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
      {"a\x1bP1;2|x\x1b\\b", "ab"},
      {"a\x1b[2J\x1b[1;1Hb\x1b[?25l\x1b[6n\x1b[>4m", "ab"},
      {"a\x1b"
       "cb\x1b(0c\x1b#8",
       "abc"},
      {"a\ab\vc\fd\x7F", "abcd"},
      {"a\xC2\x9B"
       "2Jb\x9B"
       "c",
       "a2Jbc"},
      {"a\x1b", "a"},
      {"a\x1b[12", "a"},
      {"a\x1b]0;no end", "a"},
  };
  for (const auto& [text, shown] : dropped) EXPECT_EQ(ForTerminal(text), shown) << Visible(text);
}

}  // namespace
}  // namespace paceline::cli

#include "paceline/cli/console/tool.h"

#include "gtest/gtest.h"

namespace paceline::cli {
namespace {

TEST(RunTool, RunsInTheEnvironmentThatIsGiven) {
  const auto result = RunTool({"sh", "-c", "echo $GIVEN; echo $HOME"}, "",
                              {{"PATH", "/usr/bin:/bin"}, {"GIVEN", "here"}});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->out, "here\n\n");
}

TEST(RunTool, GivesInputAndTakesBothOutputs) {
  const auto result =
      RunTool({"sh", "-c", "cat; echo no >&2; exit 3"}, "many words", {{"PATH", "/usr/bin:/bin"}});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->out, "many words");
  EXPECT_EQ(result->err, "no\n");
}

TEST(RunTool, DoesNotWaitForAReaderOfALongInput) {
  const std::string input(4 << 20, 'x');
  const auto result = RunTool({"cat"}, input, {{"PATH", "/usr/bin:/bin"}});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->out.size(), input.size());
}

TEST(RunTool, OutlivesAProgramThatReadsNothing) {
  const std::string input(4 << 20, 'x');
  const auto result =
      RunTool({"sh", "-c", "exec 0<&-; sleep 0.1; exit 3"}, input, {{"PATH", "/usr/bin:/bin"}});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->exit_code, 3);
}

TEST(RunTool, NamesTheProgramThatIsMissing) {
  const auto result = RunTool({"no-such-tool"}, "", {{"PATH", "/usr/bin:/bin"}});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.problem().code, "PL-E045");
  EXPECT_EQ(result.problem().what, "no-such-tool cannot be run");
}

}  // namespace
}  // namespace paceline::cli

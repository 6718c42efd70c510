#include "paceline/cli/console/error.h"

#include "gtest/gtest.h"

namespace paceline::cli {
namespace {

const Problem kFirst{.code = "PL-E034",
                     .what = "the journal is damaged",
                     .where = "/runs/a/journal.db\nrecord 7",
                     .why = "it is no database",
                     .fix = "keep it"};
const Problem kLast{.code = "PL-E060", .what = "training failed", .fix = "look"};

TEST(FirstProblem, IsFoundAmongOtherWords) {
  const std::string text =
      "12:00:01 starting\npaceline: " + RenderProblem(kFirst) + "and on\n" + RenderProblem(kLast);
  EXPECT_EQ(FirstProblemIn(text), kFirst);
  EXPECT_EQ(FirstProblemIn(RenderProblem(kFirst) + RenderProblem(kLast)), kFirst);
  EXPECT_EQ(FirstProblemIn(RenderProblem(kLast)), kLast);
}

TEST(FirstProblem, MayBeMissingOrCutOff) {
  EXPECT_EQ(FirstProblemIn(""), std::nullopt);
  EXPECT_EQ(FirstProblemIn(RenderProblem(kFirst, {.severity = "warn"})), std::nullopt);
  const std::string whole = RenderProblem(kFirst);
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto problem = FirstProblemIn(whole.substr(0, size));
    EXPECT_EQ(problem.has_value() ? problem->code : kFirst.code, kFirst.code) << size;
  }
}

}  // namespace
}  // namespace paceline::cli

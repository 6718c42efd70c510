#include "paceline/logclass/rule_file.h"

#include <gtest/gtest.h>

#include "paceline/logclass/builtin.h"

namespace paceline::logclass {
namespace {

constexpr char kGood[] = R"(# a comment
[[rule]]
class = "disk_full"   # and one behind a value
role = "cause"
rung = "R9"
pattern = 'No space (left|there)'
advice = "free \"space\""
example = "OSError: No space left on device"
)";

// The problem of a file that is kGood with one replaced line, and lines behind it.
Problem ProblemOfFile(const std::string& old_line, const std::string& new_line,
                      const std::string& behind = "") {
  std::string text = kGood;
  const size_t at = text.find(old_line);
  if (at == text.npos) return {};
  text.replace(at, old_line.size(), new_line);
  text += behind;
  const auto made = MakeRules({{"my.toml", text}});
  return made.ok() ? Problem{} : ProblemOf(made.status()).value_or(Problem{});
}

void ExpectProblem(const Problem& problem, const std::string& where, const std::string& what) {
  EXPECT_EQ(problem.code, "PL-E017") << what;
  EXPECT_EQ(problem.where, where) << what;
  EXPECT_NE(problem.what.find(what), std::string::npos) << problem.what;
  EXPECT_FALSE(problem.why.empty()) << what;
  EXPECT_FALSE(problem.fix.empty()) << what;
}

TEST(RuleFileTest, ReadsARule) {
  const auto rules = ReadRules(kGood, "my.toml");
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_EQ(rules->size(), 1U);
  EXPECT_EQ(rules->front().name, "disk_full");
  EXPECT_EQ(rules->front().advice, "free \"space\"");
  EXPECT_EQ(rules->front().line, 2U);
  EXPECT_TRUE(MakeRules({{"my.toml", kGood}}).ok());
}

TEST(RuleFileTest, ALineThatIsNoRuleIsNamed) {
  ExpectProblem(ProblemOfFile("rung = \"R9\"", "rung"), "my.toml:5", "neither a key");
  ExpectProblem(ProblemOfFile("[[rule]]", ""), "my.toml:3", "before the first rule");
  ExpectProblem(ProblemOfFile("rung", "rang"), "my.toml:5", "no key rang");
  ExpectProblem(ProblemOfFile("rung = \"R9\"", "rung = \"R9"), "my.toml:5", "not a string");
  ExpectProblem(ProblemOfFile("rung = \"R9\"", "rung = 9"), "my.toml:5", "not a string");
  ExpectProblem(ProblemOfFile("rung = \"R9\"", "class = \"x\""), "my.toml:5", "twice in this");
  ExpectProblem(ProblemOfFile("rung = \"R9\"", "own = 1"), "my.toml:5", "not true");
}

TEST(RuleFileTest, ARuleThatIsNotCompleteIsNamed) {
  ExpectProblem(ProblemOfFile("rung = \"R9\"", ""), "my.toml:2", "lacks the key rung");
  ExpectProblem(ProblemOfFile("\"R9\"", "\"R10\""), "my.toml:2", "rung of disk_full");
  ExpectProblem(ProblemOfFile("\"cause\"", "\"root\""), "my.toml:2", "role of disk_full");
  ExpectProblem(ProblemOfFile("\"disk_full\"", "\"Disk full\""), "my.toml:2", "no usable name");
}

TEST(RuleFileTest, APatternMustBeOneAndMatchSomething) {
  ExpectProblem(ProblemOfFile("No space (left|there)", "No space (left"), "my.toml:2",
                "no regular expression");
  ExpectProblem(ProblemOfFile("No space (left|there)", "(?=space)"), "my.toml:2",
                "no regular expression");
  ExpectProblem(ProblemOfFile("No space (left|there)", ".*"), "my.toml:2", "the empty text");
  ExpectProblem(ProblemOfFile("No space (left|there)", "(a{1,1000}){1,1000}"), "my.toml:2",
                "no regular expression");
}

TEST(RuleFileTest, AClassStandsOnce) {
  const Problem problem = ProblemOfFile("#", "#", kGood + std::string("\n"));
  ExpectProblem(problem, "my.toml:10", "disk_full stands twice");
  EXPECT_EQ(problem.why, "it is already at my.toml:2");
}

TEST(RuleFileTest, AnExampleBelongsToItsOwnRule) {
  ExpectProblem(ProblemOfFile("OSError: No space left on device", "Disk full"), "my.toml:2",
                "example of disk_full");
  const std::string broader =
      "[[rule]]\nclass = \"any\"\nrole = \"cause\"\nrung = \"R3\"\npattern = 'space'\n"
      "advice = \"look\"\nexample = \"No space left\"\n";
  const Problem problem = ProblemOfFile("#", "#", broader);
  ExpectProblem(problem, "my.toml:9", "example of any");
  EXPECT_EQ(problem.why, "it belongs to disk_full at my.toml:2");
}

}  // namespace
}  // namespace paceline::logclass

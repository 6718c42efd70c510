#include "paceline/cli/settings/settings.h"

#include <gtest/gtest.h>

#include "paceline/base/prng.h"
#include "paceline/cli/flags/torchrun_flags.h"

namespace paceline::cli {
namespace {

Problem ProblemIn(std::string_view text) {
  const auto parsed = ParseSettingsFile(text, "paceline.toml");
  return parsed.ok() ? Problem{} : parsed.problem();
}

TEST(Settings, DefaultsAreValidAndComeFromTheStructs) {
  const SettingValues values;
  for (const Setting& setting : Settings()) {
    std::string expected;
    if (setting.default_text.empty()) continue;
    EXPECT_TRUE(IsValueOf(setting, setting.default_text, &expected)) << setting.key;
  }
  EXPECT_EQ(values.Time("timers.lost_after"), Timers{}.lost_after);
  EXPECT_EQ(values.Time("timers.orphan_after"), Timers{}.orphan_after);
}

TEST(Settings, FileValues) {
  const auto parsed = ParseSettingsFile(
      "[job]\nnproc_per_node = 2\nreplace_nodes = true\n[launch]\npreload = [\"a,b\", \"c\"]\n"
      "[timers]\nlost_after = \"2s\"\n",
      "p");
  ASSERT_TRUE(parsed.ok()) << parsed.problem().what;
  ASSERT_EQ(parsed->size(), 4u);
  SettingValues values;
  for (const FileSetting& setting : *parsed) values.Set(setting.key, {setting.text, "p"});
  EXPECT_EQ(values.Text("job.nproc_per_node"), "2");
  EXPECT_TRUE(values.OnOff("job.replace_nodes"));
  EXPECT_EQ(values.List("launch.preload"), (std::vector<std::string>{"a,b", "c"}));
  EXPECT_EQ(values.Time("timers.lost_after"), Duration::Seconds(2));
}

TEST(Settings, UnknownKeyShowsItsLineAndTheNearestName) {
  const Problem problem = ProblemIn("[timers]\nlost_aftr = \"2s\"\n");
  EXPECT_EQ(problem.code, "PL-E012");
  EXPECT_EQ(problem.fix, "did you mean timers.lost_after?");
  EXPECT_EQ(problem.where,
            "paceline.toml:2\n"
            "| lost_aftr = \"2s\"\n"
            "| ^~~~~~~~~");
}

TEST(Settings, MistakesHaveCodes) {
  EXPECT_EQ(ProblemIn("[timers\n").code, "PL-E011");
  EXPECT_EQ(ProblemIn("[timer]\nlost_after = \"1s\"\n").code, "PL-E012");
  EXPECT_EQ(ProblemIn("lost_after = \"1s\"\n").fix, "put it under [timers]");
  EXPECT_EQ(ProblemIn("[timers]\nlost_after = 1\n").code, "PL-E013");
  EXPECT_EQ(ProblemIn("[timers]\nlost_after = \"1\"\n").code, "PL-E013");
  EXPECT_EQ(ProblemIn("[timers]\nlost_after = \"0s\"\n").code, "PL-E013");
  EXPECT_EQ(ProblemIn("[job]\nspares = -1\n").code, "PL-E013");
  EXPECT_EQ(ProblemIn("[job]\ngrow = \"soon\"\n").code, "PL-E013");
}

TEST(Settings, Precedence) {
  const auto line = ParseRunLine({"--spares", "5", "t.py"});
  ASSERT_TRUE(line.ok());
  Environment environment = {{"PET_NNODES", "2:3"},
                             {"PET_NPROC_PER_NODE", "2"},
                             {"PACELINE_JOB_NPROC_PER_NODE", "3"},
                             {"PACELINE_JOB_SPARES", "4"}};
  const auto values = LoadSettings({.environment = environment, .line = &*line});
  ASSERT_TRUE(values.ok()) << values.problem().what;
  EXPECT_EQ(values->Text("job.nnodes"), "2:3");
  EXPECT_EQ(values->Get("job.nnodes").origin, "PET_NNODES");
  EXPECT_EQ(values->Text("job.nproc_per_node"), "3");
  EXPECT_EQ(values->Text("job.spares"), "5");
  EXPECT_EQ(values->Get("job.spares").origin, "--spares");
}

TEST(Settings, BadVariablesAreNamed) {
  const auto bad = LoadSettings({.environment = {{"PACELINE_TIMERS_LOST_AFTER", "1"}}});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.problem().code, "PL-E015");
  const auto pet = LoadSettings({.environment = {{"PET_STANDALONE", "yes"}}});
  ASSERT_FALSE(pet.ok());
  EXPECT_EQ(pet.problem().code, "PL-E015");
  const auto near = MisspeltVariables({{"PACELINE_JOB_SPARE", "1"}, {"PACELINE_SLOT", "0"}});
  ASSERT_EQ(near.size(), 1u);
  EXPECT_EQ(near[0].fix, "did you mean PACELINE_JOB_SPARES?");
}

TEST(Settings, LettersOutsideOfStringsAreAnErrorAndNoMore) {
  for (const char* text : {"\u00e9 = 1\n", "[job]\u00e9\n", "[job]\nname = \u3001\n"}) {
    const auto parsed = ParseSettingsFile(text, "paceline.toml");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.problem().code, "PL-E011");
  }
}

TEST(Settings, RandomFilesNeverCrash) {
  Prng prng(7);
  static constexpr std::string_view kPieces[] = {
      "[job]\n", "[timers]\n", "lost_after", " = ",        "\"1s\"", "\n",   "spares", "3",
      "[",       "]",          "\"",         "'''",        "{",      "}",    "a.b",    "true",
      "1e400",   "\\u",        "#",          "2026-01-01", ",",      "\xff", "[[",     "="};
  for (int round = 0; round < 5'000; ++round) {
    std::string text;
    for (uint64_t piece = prng.Below(14); piece > 0; --piece) {
      text += kPieces[prng.Below(std::size(kPieces))];
      if (prng.Below(10) == 0) text += static_cast<char>(prng.Below(256));
    }
    const auto parsed = ParseSettingsFile(text, "f");
    const std::string shown = parsed.ok() ? "fine" : RenderProblem(parsed.problem());
    EXPECT_FALSE(shown.empty());
  }
}

}  // namespace
}  // namespace paceline::cli

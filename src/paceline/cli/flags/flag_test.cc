#include "paceline/cli/flags/flag.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "paceline/base/prng.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/flags/torchrun_flags.h"
#include "paceline/cli/run/flags.h"
#include "paceline/cli/settings/setting.h"
#include "paceline/cli/settings/value.h"
#include "paceline/sim/main.h"

namespace paceline::cli {
namespace {

using Words = std::vector<std::string>;

std::string CodeOf(const Words& args) {
  const auto line = ParseRunLine(args);
  return line.ok() ? "" : line.problem().code;
}

std::string ValueOf(const Words& args, std::string_view dest) {
  const auto line = ParseRunLine(args);
  if (!line.ok()) return line.problem().code;
  const Given* given = line->Find(dest);
  return given == nullptr ? "absent" : given->value;
}

TEST(Flag, BothSpellingsBothForms) {
  EXPECT_EQ(ValueOf({"--nproc-per-node", "2", "t.py"}, "nproc_per_node"), "2");
  EXPECT_EQ(ValueOf({"--nproc_per_node=2", "t.py"}, "nproc_per_node"), "2");
  EXPECT_EQ(ValueOf({"--nproc-per=2", "t.py"}, "nproc_per_node"), "2");
  EXPECT_EQ(ValueOf({"-r3", "t.py"}, "redirects"), "3");
  EXPECT_EQ(ValueOf({"-mt3", "t.py"}, "tee"), "3");
  EXPECT_EQ(ValueOf({"--node-rank", "-1", "t.py"}, "node_rank"), "-1");
}

Problem ProblemOf(std::string_view command, const Words& args) {
  const Command* found = FindCommand(command);
  const auto line = ParseFlags({.command = "c", .tables = TablesOf(*found)}, args);
  return line.ok() ? Problem{} : line.problem();
}

TEST(Flag, NumbersOfThingsAreNotNegative) {
  for (const Words& args :
       {Words{"--rank", "-1"}, {"--generation", "-3"}, {"--generation", "0"}, {"-n", "-5"}}) {
    EXPECT_EQ(ProblemOf("logs", args).code, "PL-E003") << args[0];
  }
  EXPECT_EQ(ProblemOf("logs", {"--rank", "-1"}).why, "it takes a whole number of at least 0");
  EXPECT_EQ(ProblemOf("stacks", {"--rank", "-1"}).code, "PL-E003");
  EXPECT_EQ(ProblemOf("events", {"--from", "-1"}).code, "PL-E003");
  EXPECT_EQ(ProblemOf("ckpt", {"--step", "-1"}).code, "PL-E003");
  EXPECT_EQ(ProblemOf("logs", {"--rank", "0", "-n", "0"}).code, "");
}

TEST(Flag, ARefusedDurationNamesItsLimits) {
  const std::string longest(kLongestDuration);
  for (const std::string text : {"99999999999999h", "2562048h", "-5s"}) {
    const Problem problem = ProblemOf("stop", {"--stop-grace=" + text});
    EXPECT_EQ(problem.code, "PL-E003") << text;
    EXPECT_NE(problem.why.find("from 0 to " + longest), std::string::npos) << problem.why;
  }
  EXPECT_EQ(ProblemOf("stop", {"--stop-grace", longest}).code, "");
  std::string expected;
  const Flag size{.kind = FlagKind::kSize};
  EXPECT_TRUE(IsValueOf(size, kLargestSize, &expected));
  EXPECT_FALSE(IsValueOf(size, "8388608TiB", &expected));
  EXPECT_NE(expected.find(kLargestSize), std::string::npos) << expected;
  const Flag some{.kind = FlagKind::kSize, .minimum = 1};
  EXPECT_FALSE(IsValueOf(some, "0", &expected));
  EXPECT_TRUE(expected.starts_with("a size from 1 to ")) << expected;
}

TEST(Flag, LaterOneWins) {
  EXPECT_EQ(ValueOf({"--nnodes", "2", "--nnodes=3", "t.py"}, "nnodes"), "3");
}

TEST(Flag, EverythingAfterTheScriptIsTheScripts) {
  const auto line =
      ParseRunLine({"--nnodes", "2", "t.py", "--nnodes", "5", "--no", "-x", "--json"});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->positionals, (Words{"t.py", "--nnodes", "5", "--no", "-x", "--json"}));
  EXPECT_EQ(line->Find("nnodes")->value, "2");
}

TEST(Flag, SeparatorIsDroppedOnceAsArgparseDoes) {
  EXPECT_EQ(ParseRunLine({"t.py", "--", "a"})->positionals, (Words{"t.py", "a"}));
  EXPECT_EQ(ParseRunLine({"t.py", "--", "--", "a"})->positionals, (Words{"t.py", "--", "a"}));
  EXPECT_EQ(ParseRunLine({"--", "-t.py", "--", "a"})->positionals, (Words{"-t.py", "--", "a"}));
}

TEST(Flag, MistakesHaveCodes) {
  EXPECT_EQ(CodeOf({"--nprc-per-node", "2", "t.py"}), "PL-E001");
  EXPECT_EQ(CodeOf({"--nnodes"}), "PL-E002");
  EXPECT_EQ(CodeOf({"--nnodes", "--standalone", "t.py"}), "PL-E002");
  EXPECT_EQ(CodeOf({"--standalone=1", "t.py"}), "PL-E002");
  EXPECT_EQ(CodeOf({"--max-restarts", "many", "t.py"}), "PL-E003");
  EXPECT_EQ(CodeOf({"--stop-grace", "30", "t.py"}), "PL-E003");
  EXPECT_EQ(CodeOf({"--log", "x", "t.py"}), "PL-E004");
}

TEST(Flag, NearestNameIsSuggestedAndTheWordPointedAt) {
  const auto line = ParseRunLine({"--sparse", "1", "t.py"});
  ASSERT_FALSE(line.ok());
  EXPECT_EQ(line.problem().fix, "did you mean --spares?");
  EXPECT_EQ(line.problem().where,
            "paceline run --sparse 1 t.py\n"
            "             ^~~~~~~~");
}

TEST(Flag, OursAreNeverAbbreviated) {
  EXPECT_EQ(CodeOf({"--spare", "1", "t.py"}), "PL-E001");
  EXPECT_EQ(ValueOf({"--local-r", "0", "t.py"}, "local_ranks_filter"), "0");
}

TEST(Flag, NoSpellingStandsTwice) {
  std::set<std::string_view> seen;
  for (const FlagTable table : {TorchrunFlags(), RunFlags(), GlobalFlags()}) {
    for (const Flag& flag : table) {
      for (const std::string_view spelling : flag.spellings) {
        if (spelling.empty()) continue;
        EXPECT_TRUE(seen.insert(spelling).second) << spelling;
      }
    }
  }
}

// The first words of each line of flags, as `  -o, --out FILE`.
TEST(Flag, HelpGivesEachSpellingOneMeaning) {
  for (const Command& command : Commands()) {
    std::set<std::string> seen;
    for (const std::string& line : Split(HelpOf(command, {}), '\n')) {
      if (!line.starts_with("  -")) continue;
      for (const std::string& name : Split(line.substr(2, line.find("  ", 2) - 2), ',')) {
        const std::string_view spelling = Trimmed(name).substr(0, Trimmed(name).find(' '));
        if (!spelling.starts_with('-')) continue;  // a value such as KIND,…
        EXPECT_TRUE(seen.insert(std::string(spelling)).second) << command.name << " " << spelling;
      }
    }
    EXPECT_TRUE(seen.contains("--json")) << command.name;
  }
}

TEST(Flag, EverySettingOfAFlagExists) {
  for (const FlagTable table : {TorchrunFlags(), RunFlags(), GlobalFlags()}) {
    for (const Flag& flag : table) {
      if (!flag.setting.empty()) {
        EXPECT_NE(FindSetting(flag.setting), nullptr) << flag.setting;
      }
    }
  }
}

// Any words at all: an answer, never a crash. Pieces of real flags make deep paths likely.
TEST(Flag, RandomWordsNeverCrash) {
  Prng prng(20);
  static constexpr std::string_view kPieces[] = {
      "--",  "-",      "=",      "nproc",  "-per-node", "_node",    "--nnodes", "3",
      "-m",  "-r",     "--tee=", " ",      "\n",        "\xff\xfe", "--no",     "-1",
      "1:4", "on",     "",       "-mr",    "--log",     "é",        "\x1b[31m", "--stop-grace",
      "30s", "--grow", "now",    "--json", "-t"};
  for (int round = 0; round < 20'000; ++round) {
    Words args(prng.Below(6));
    for (std::string& word : args) {
      for (uint64_t piece = prng.Below(4); piece > 0; --piece) {
        word += kPieces[prng.Below(std::size(kPieces))];
      }
      if (prng.Below(8) == 0) word += static_cast<char>(prng.Below(256));
    }
    const auto line = ParseRunLine(args);
    if (!line.ok()) {
      EXPECT_FALSE(RenderProblem(line.problem()).empty());
      EXPECT_FALSE(RenderProblemJson(line.problem()).empty());
    }
  }
}

// `--name "$UNSET"` gives a flag the empty word as its value. torchrun ignores such a flag.
TEST(Flag, AnEmptyValueIsRefusedByEachOfOurFlags) {
  size_t count = 0;
  for (const Command& command : Commands()) {
    for (const FlagTable table : TablesOf(command)) {
      for (const Flag& flag : table) {
        const bool is_text = flag.kind == FlagKind::kText || flag.kind == FlagKind::kList;
        if (!is_text || flag.origin == FlagOrigin::kTorchrun) continue;
        const Grammar grammar{.command = std::string(command.name), .tables = {table}};
        const auto line = ParseFlags(grammar, Words{std::string(flag.spellings[0]), ""});
        ASSERT_FALSE(line.ok()) << command.name << " " << flag.spellings[0];
        EXPECT_EQ(line.problem().code, "PL-E003");
        EXPECT_NE(line.problem().fix, "");
        ++count;
      }
    }
  }
  EXPECT_GT(count, 20u);
  EXPECT_EQ(CodeOf({"--rdzv-endpoint", "", "t.py"}), "");
}

// Every whole number that a user types has a least value, here or in its setting. The commands of
// these flags have bounds of their own for them.
TEST(Flag, AWholeNumberHasBounds) {
  const std::set<std::string_view> bounded_later = {
      "submit --spares", "submit --nproc-per-node", "submit --gpus",      "plan --global-batch",
      "plan --sequence", "plan --devices-per-node", "profile --processes"};
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    for (const FlagTable table : TablesOf(command)) {
      for (const Flag& flag : table) {
        if (flag.kind != FlagKind::kInteger || !flag.setting.empty()) continue;
        const std::string name = std::string(command.name) + " " + std::string(flag.spellings[0]);
        EXPECT_EQ(flag.minimum == INT64_MIN, bounded_later.contains(name)) << name;
      }
    }
  }
}

TEST(Flag, TheSimulatorRefusesWhatItCannotRun) {
  const Grammar grammar{.command = "paceline sim", .tables = {SimFlags()}};
  for (const Words& words :
       {Words{"--seeds", "0"}, Words{"--nodes", "0"}, Words{"--until", "99999999999"},
        Words{"--seed", "-1"}, Words{"--cpu-seconds", "0"}, Words{"--saves", "maybe"}}) {
    const auto line = ParseFlags(grammar, words);
    ASSERT_FALSE(line.ok()) << words[0];
    EXPECT_EQ(line.problem().code, "PL-E003") << words[0];
  }
  EXPECT_TRUE(ParseFlags(grammar, Words{"--seeds", "20"}).ok());
}

// The simulator reads its words by itself, but only what the table has comes through to it.
TEST(Flag, TheSimulatorsFlagsAreAllInTheTable) {
  const FlagTable table = SimFlags();
  const std::string_view help = sim::HelpOfSim();
  size_t count = 0;
  for (size_t at = help.find("\n  --"); at != help.npos; at = help.find("\n  --", at + 1)) {
    const std::string_view flag = help.substr(at + 3, help.find(' ', at + 3) - at - 3);
    EXPECT_TRUE(std::any_of(table.begin(), table.end(), [&](const Flag& known) {
      return std::find(known.spellings.begin(), known.spellings.end(), flag) !=
             known.spellings.end();
    })) << flag;
    ++count;
  }
  EXPECT_GT(count, 10u);
}

}  // namespace
}  // namespace paceline::cli

// Each file of testdata/ is a scenario: a script, a line "---", and the job's output. They are the
// shortest description of paceline's behaviour. PACELINE_REWRITE=1 rewrites the outputs.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "paceline/core/testing/scenario.h"

namespace paceline::core::testing {
namespace {

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(PACELINE_TESTDATA_DIR)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string Read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string ScriptOf(const std::string& text) { return text.substr(0, text.find("---\n")); }

class ScenarioTest : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(ScenarioTest, SaysWhatIsExpected) {
  const std::string text = Read(GetParam());
  const std::string script = ScriptOf(text);
  const ScenarioResult result = RunScenario(script);
  ASSERT_EQ(result.error, "");
  EXPECT_EQ(result.rank_conflict, "");
  std::string said = script + "---\n";
  for (const std::string& line : result.trace) said += line + "\n";
  if (std::getenv("PACELINE_REWRITE") != nullptr) {
    std::ofstream(GetParam()) << said;
  } else {
    EXPECT_EQ(said, text) << "PACELINE_REWRITE=1 rewrites " << GetParam();
  }
  if (result.phase == Phase::kFinished) {
    EXPECT_EQ(result.living_ranks, 0U);
  }
}

// In each scenario the master dies with every prefix of the journal on disk. Each time the job must
// end in the same way, and no rank may live twice.
TEST_P(ScenarioTest, SurvivesMasterCrashAtEveryRecord) {
  const std::string script = ScriptOf(Read(GetParam()));
  if (script.find("master") != std::string::npos) return;  // the scenario has its own crash
  const ScenarioResult undisturbed = RunScenario(script);
  for (size_t records = 1; records <= undisturbed.journal.size(); ++records) {
    const ScenarioResult result = RunScenario(script, {.crash_at_record = records});
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.rank_conflict, "") << "crash at record " << records;
    if (undisturbed.phase == Phase::kFinished) {
      EXPECT_EQ(result.living_ranks, 0U) << "crash at record " << records;
    }
    const auto settled = [](Phase phase) {
      return phase == Phase::kStarting ? Phase::kRunning : phase;
    };
    EXPECT_EQ(settled(result.phase), settled(undisturbed.phase)) << "crash at record " << records;
  }
}

INSTANTIATE_TEST_SUITE_P(Stories, ScenarioTest, ::testing::ValuesIn(Files()),
                         [](const auto& info) { return info.param.stem().string(); });

}  // namespace
}  // namespace paceline::core::testing

// Each file of testdata/ is a scenario: a script, a line "---", and the job's output. They are the
// shortest description of paceline's behaviour. PACELINE_REWRITE=1 rewrites the outputs.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
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

// How a scenario ended, without what may depend on the moment of a crash: times, numbers of records
// and worlds, rungs that were tried in between, and which member has a seat.
std::string EndOf(const ScenarioResult& result) {
  const Phase settled = result.phase == Phase::kStarting ? Phase::kRunning : result.phase;
  std::string text(PhaseName(settled));
  text += result.living_ranks > 0 ? ", with ranks" : ", without ranks";
  if (result.phase == Phase::kFinished) {
    // What follows the first comma has the last failure's step and nodes.
    text += ", exit code " + std::to_string(result.exit_code) + ": " +
            result.final_reason.substr(0, result.final_reason.find(','));
    if (result.exit_code == 0) text += ", step " + std::to_string(result.step);
  }
  for (const std::string& name : result.members) text += "\nmember: " + name;
  std::set<std::string> failures;
  for (const Record& record : result.journal) {
    const auto* failed = std::get_if<RankFailed>(&record.fact);
    if (failed != nullptr && failed->charged) failures.insert(failed->cause.headline);
  }
  for (const std::string& headline : failures) text += "\nfailure: " + headline;
  return text;
}

// Scenarios whose end depends on the moment of a crash, with the reason. All others end alike.
const std::map<std::string, std::string> kEndsDiffer = {
    {"a_node_dies_under_notice",
     "n2 dies and is launched again while no master runs, so its ranks fail and it is never lost"},
};

// In each scenario the master dies with every prefix of the journal on disk. Each time the job must
// end in the same way, and no rank may live twice.
TEST_P(ScenarioTest, SurvivesMasterCrashAtEveryRecord) {
  const std::string script = ScriptOf(Read(GetParam()));
  const ScenarioResult undisturbed = RunScenario(script);
  if (undisturbed.has_master_fault) GTEST_SKIP() << "the script has its own fault of the master";
  const bool may_differ = kEndsDiffer.contains(GetParam().stem().string());
  size_t differing = 0;
  for (size_t records = 1; records <= undisturbed.journal.size(); ++records) {
    const ScenarioResult result = RunScenario(script, {.crash_at_record = records});
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.rank_conflict, "") << "crash at record " << records;
    if (EndOf(result) == EndOf(undisturbed)) continue;
    // The crash costs time, so the script may be over before the job has settled.
    const Duration more = Duration::Seconds(20);
    const std::string end = EndOf(RunScenario(script, {.crash_at_record = records, .more = more}));
    const std::string expected = EndOf(RunScenario(script, {.more = more}));
    if (end != expected) ++differing;
    if (!may_differ) {
      EXPECT_EQ(end, expected) << "crash at record " << records;
    }
  }
  if (may_differ) {
    EXPECT_GT(differing, 0U) << "remove this scenario from kEndsDiffer";
  }
}

INSTANTIATE_TEST_SUITE_P(Stories, ScenarioTest, ::testing::ValuesIn(Files()),
                         [](const auto& info) { return info.param.stem().string(); });

}  // namespace
}  // namespace paceline::core::testing

#include "paceline/cli/job/job_place.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/test_dir.h"

namespace paceline::cli {
namespace {

class KnownNames : public testing::Test {
 protected:
  KnownNames() { EXPECT_TRUE(MakeDirs(dir_.path() + "/jobs", 0700).ok()); }

  // A job that has ended.
  void Add(const std::string& id, const std::string& name) {
    const std::string run_dir = dir_.path() + "/runs/" + id;
    ASSERT_TRUE(MakeDirs(run_dir, 0700).ok());
    nlohmann::json card = {{"schema", "paceline.job/1"}, {"id", id}, {"name", name}};
    ASSERT_TRUE(ReplaceFile(run_dir + "/job.json", PrintJson(card), 0600).ok());
    card["run_dir"] = run_dir;
    ASSERT_TRUE(ReplaceFile(dir_.path() + "/jobs/" + id + ".json", PrintJson(card), 0600).ok());
  }
  Result<JobPlace> Find(const std::string& asked) {
    return FindJob({{"PACELINE_RUNTIME_DIR", dir_.path()}}, asked);
  }

  const TestDir dir_;
};

TEST_F(KnownNames, AWholeNameWinsOverNamesThatBeginWithIt) {
  Add("st-11aa", "st");
  Add("sta-22bb", "sta");
  Add("stb1-33cc", "stb1");
  const auto found = Find("st");
  ASSERT_TRUE(found.ok()) << found.problem().what;
  EXPECT_EQ(found->id, "st-11aa");
  EXPECT_EQ(Find("sta-2")->id, "sta-22bb");
  EXPECT_EQ(Find("stb1-33cc")->id, "stb1-33cc");
}

TEST_F(KnownNames, TheSentenceSaysWhatSeveralJobsShare) {
  Add("sta-22bb", "sta");
  Add("stb-33cc", "stb");
  const auto begun = Find("st");
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.problem().code, "PL-E023");
  EXPECT_EQ(begun.problem().what, "2 jobs have ids that begin with that; say which one");
  Add("sta-44dd", "sta");
  const auto named = Find("sta");
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.problem().what, "2 jobs have that name; say which one");
  EXPECT_EQ(Find("nosuch").problem().code, "PL-E024");
}

}  // namespace
}  // namespace paceline::cli

#include "paceline/cli/job/find_job.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/test_dir.h"
#include "paceline/cli/job/master_end.h"
#include "paceline/cli/job/run_dir.h"
#include "paceline/cli/run/resume_here.h"

namespace paceline::cli {
namespace {

class KnownNames : public testing::Test {
 protected:
  KnownNames() { EXPECT_TRUE(MakeDirs(dir_.path() + "/jobs", 0700).ok()); }

  // A job that has ended, or whose launcher is this process. Each is newer than those before it.
  void Add(const std::string& id, const std::string& name, const std::string& cwd = "/elsewhere",
           bool is_running = false, double started = 0) {
    const std::string run_dir = dir_.path() + "/runs/" + id;
    ASSERT_TRUE(MakeDirs(run_dir, 0700).ok());
    nlohmann::json card = {{"schema", "paceline.job/1"},
                           {"id", id},
                           {"name", name},
                           {"cwd", cwd},
                           {"created", ++created_}};
    if (started > 0) card["started"] = started;
    if (is_running) {
      card["launcher_pid"] = getpid();
      card["launcher"]["start_time"] = agent::StartTimeOf(getpid());
    }
    ASSERT_TRUE(ReplaceFile(run_dir + "/job.json", PrintJson(card), 0600).ok());
    card["run_dir"] = run_dir;
    ASSERT_TRUE(ReplaceFile(dir_.path() + "/jobs/" + id + ".json", PrintJson(card), 0600).ok());
  }
  Result<JobPlace> Find(const std::string& asked, JobUse use = JobUse::kShow) {
    auto found = FindJob(environment_, asked, use, "/here");
    if (!found.ok()) return found.problem();
    return found->place;
  }
  // The job that a command in /here takes, with its note if there is one, or the error's code.
  std::string Here(JobUse use, const std::string& directory = "/here") {
    const auto found = FindJob(environment_, "", use, directory);
    if (!found.ok()) return found.problem().code + ": " + found.problem().why;
    return found->place.id + (found->note.empty() ? "" : "; " + found->note);
  }

  const TestDir dir_;
  const Environment environment_ = {{"PACELINE_RUNTIME_DIR", dir_.path()}};
  double created_ = 0;
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

TEST_F(KnownNames, AnIdThatIsNoNameIsOfNoJob) {
  Add("st-11aa", "st");
  const std::string run_dir = dir_.path() + "/runs/st-11aa";
  for (const char* id : {"../../precious", "..", "a/b", "\x1b[31m", ""}) {
    const nlohmann::json card = {{"schema", "paceline.job/1"}, {"id", id}};
    ASSERT_TRUE(ReplaceFile(run_dir + "/job.json", PrintJson(card), 0600).ok());
    const auto found = Find(run_dir);
    ASSERT_FALSE(found.ok()) << id;
    EXPECT_EQ(found.problem().code, "PL-E025") << id;
  }
}

TEST_F(KnownNames, WhatChangesAJobTakesNoneOfAnotherUser) {
  if (getuid() != 0) GTEST_SKIP() << "only root can give a file away";
  Add("st-11aa", "st");
  const std::string run_dir = dir_.path() + "/runs/st-11aa";
  ASSERT_EQ(chown((run_dir + "/job.json").c_str(), 65534, 65534), 0);
  const auto found = Find(run_dir, JobUse::kChange);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.problem().code, "PL-E024");
  EXPECT_EQ(found.problem().why, "it belongs to user 65534");
  EXPECT_TRUE(FindJob(environment_, run_dir, JobUse::kShow, "/here").ok());
}

TEST_F(KnownNames, APipeInThePlaceOfAFileReadsAsEmpty) {
  Add("st-11aa", "st");
  const std::string run_dir = dir_.path() + "/runs/st-11aa";
  ASSERT_EQ(unlink((run_dir + "/job.json").c_str()), 0);
  ASSERT_EQ(mkfifo((run_dir + "/job.json").c_str(), 0600), 0);
  EXPECT_EQ(Find(run_dir).problem().code, "PL-E025");
}

TEST_F(KnownNames, WhatChangesAJobTakesNoBeginOfAnId) {
  Add("train-22bb", "train", "/there", true);
  Add("st-11aa", "st");
  for (const char* whole : {"train", "train-22bb"}) {
    EXPECT_EQ(Find(whole, JobUse::kChange)->id, "train-22bb");
  }
  EXPECT_EQ(Find("train-2")->id, "train-22bb");
  const auto begun = Find("train-2", JobUse::kChange);
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.problem().code, "PL-E024");
  EXPECT_NE(begun.problem().why.find("train-22bb (started in /there)"), std::string::npos);
  EXPECT_EQ(Find("nosuch", JobUse::kChange).problem().code, "PL-E024");
  EXPECT_EQ(*RunDirOf("train", environment_), Find("train")->run_dir);
  EXPECT_EQ(*RunDirOf("no/such", environment_), "no/such");
  EXPECT_EQ(RunDirOf("train-2", environment_).problem().where, "--run-dir train-2");
}

TEST_F(KnownNames, WhereNothingRunsNoFlagIsAdvised) {
  const auto none = FindJob(environment_, "", JobUse::kChange, "/here");
  EXPECT_EQ(none.problem().fix.find("--job"), std::string::npos) << none.problem().fix;
  Add("old-1", "old", "/there");
  const auto ended = FindJob(environment_, "", JobUse::kChange, "/here");
  EXPECT_EQ(ended.problem().fix.find("--job"), std::string::npos) << ended.problem().fix;
}

TEST_F(KnownNames, WhatChangesAJobTakesNoneOfAnotherDirectory) {
  EXPECT_EQ(Here(JobUse::kChange), "PL-E022: no job of this user is known there");
  Add("lone-1", "lone", "/there", true);
  EXPECT_EQ(Here(JobUse::kChange),
            "PL-E022: jobs of other directories run: lone-1 (started in /there)");
  EXPECT_EQ(Find("lone")->id, "lone-1");
  Add("mine-1", "mine", "/here");
  EXPECT_EQ(Here(JobUse::kChange),
            "mine-1; note: this is mine-1, which has ended; lone-1 (started in /there) runs, and "
            "--job names it");
  Add("mine-2", "mine", "/here", true);
  Add("mine-3", "mine", "/here");
  EXPECT_EQ(Here(JobUse::kChange), "mine-2");
  Add("mine-4", "mine", "/here", true);
  EXPECT_EQ(Here(JobUse::kChange), "PL-E023: mine-4 (started in /here), mine-2 (started in /here)");
}

TEST_F(KnownNames, WhatShowsAJobPrefersTheNewestOfThisDirectory) {
  Add("old-1", "old", "/there");
  EXPECT_EQ(Here(JobUse::kShow),
            "old-1; note: no job was started in this directory; this is old-1 (started in /there)");
  Add("lone-1", "lone", "/there", true);
  Add("last-1", "last", "/there");
  EXPECT_EQ(Here(JobUse::kShow),
            "lone-1; note: no job was started in this directory; this is lone-1 (started in "
            "/there)");
  Add("lone-2", "lone", "/there", true);
  EXPECT_EQ(Here(JobUse::kWatch),
            "PL-E023: lone-2 (started in /there), lone-1 (started in /there)");
  Add("mine-1", "mine", "/here", true);
  EXPECT_EQ(Here(JobUse::kShow), "mine-1");
  Add("mine-2", "mine", "/here");
  EXPECT_EQ(Here(JobUse::kShow),
            "mine-2; note: this is mine-2, which has ended; mine-1 (started in /here) runs, and "
            "--job names it");
  EXPECT_EQ(Here(JobUse::kWatch), "mine-1");
}

TEST_F(KnownNames, TheNewestJobIsTheOneThatWasResumedLast) {
  Add("mine-1", "mine", "/here", false, /*started=*/10);
  Add("mine-2", "mine", "/here");
  EXPECT_EQ(Here(JobUse::kShow), "mine-1");
  EXPECT_EQ(Here(JobUse::kChange), "mine-1");
}

TEST_F(KnownNames, WhatAScriptActsUponIsOfThisDirectory) {
  EXPECT_TRUE(Here(JobUse::kHere).starts_with("PL-E022"));
  Add("old-1", "old", "/there");
  EXPECT_EQ(Here(JobUse::kHere), "PL-E022: no job of yours runs on this host");
  EXPECT_EQ(FindJob(environment_, "", JobUse::kHere, "/here").problem().fix,
            "the same command with --job and a name of `paceline ps --all`");
  Add("lone-1", "lone", "/there", true);
  EXPECT_EQ(Here(JobUse::kHere),
            "PL-E022: jobs of other directories run: lone-1 (started in /there)");
  EXPECT_EQ(Find("lone-", JobUse::kHere)->id, "lone-1");
  Add("mine-1", "mine", "/here");
  EXPECT_EQ(Here(JobUse::kHere), "mine-1");
}

TEST_F(KnownNames, ResumeTakesTheOneJobOfItsDirectory) {
  const auto resumed = [&] {
    const auto job = JobToResume(environment_, "/here");
    return job.ok() ? job->id : job.problem().code + ": " + job.problem().why;
  };
  Add("old-1", "old", "/there");
  EXPECT_EQ(resumed(), "PL-E026: none has failed, was stopped or was killed");
  Add("mine-1", "mine", "/here", true);
  EXPECT_EQ(resumed(), "PL-E026: still running: mine-1");
  Add("mine-2", "mine", "/here");
  EXPECT_EQ(resumed(), "mine-2");
  Add("mine-3", "mine", "/here");
  const std::string runs = dir_.path() + "/runs/";
  EXPECT_EQ(resumed(), "PL-E023: mine-3 in " + runs + "mine-3, mine-2 in " + runs + "mine-2");
}

TEST_F(KnownNames, AMasterThatWasKilledIsToldOfForAMinute) {
  Add("mine-1", "mine");
  const std::string run_dir = dir_.path() + "/runs/mine-1";
  constexpr int64_t kSecondNs = 1'000'000'000;
  EXPECT_EQ(MasterEndText(run_dir, 100 * kSecondNs), "");
  KeepMasterEnd(run_dir, {.pid = 12, .status = SIGKILL, .at_ns = 100 * kSecondNs});
  EXPECT_TRUE(MasterEndText(run_dir, 101 * kSecondNs)
                  .starts_with("the master before it, process 12, was killed by SIGKILL from "))
      << MasterEndText(run_dir, 101 * kSecondNs);
  EXPECT_EQ(MasterEndText(run_dir, 99 * kSecondNs), "");
  EXPECT_EQ(MasterEndText(run_dir, 200 * kSecondNs), "");
  EXPECT_EQ(Find(run_dir)->id, "mine-1");
  KeepMasterEnd(run_dir, {.pid = 12, .is_known = false, .at_ns = 100 * kSecondNs});
  EXPECT_NE(MasterEndText(run_dir, 101 * kSecondNs).find("could not see how"), std::string::npos);
}

TEST_F(KnownNames, AJobIsOfItsRunDirectoryToo) {
  Add("mine-1", "mine", "/here");
  EXPECT_EQ(Here(JobUse::kChange, dir_.path() + "/runs/mine-1/logs"), "mine-1");
  EXPECT_TRUE(Here(JobUse::kChange, dir_.path() + "/runs").starts_with("PL-E022"));
}

}  // namespace
}  // namespace paceline::cli

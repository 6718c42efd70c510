#include "paceline/cli/run/resume_note.h"

#include <gtest/gtest.h>

#include "paceline/cli/flags/torchrun_flags.h"

namespace paceline::cli {
namespace {

const std::vector<std::string> kFirstCommand = {"--nproc-per-node", "1", "--name=a", "ck.py", "20"};

std::string NoteOf(std::vector<std::string> words) {
  words.insert(words.begin(), {"--resume", "--run-dir", "runs/a"});
  const auto line = ParseRunLine(words);
  EXPECT_TRUE(line.ok());
  return IgnoredByResume(*line, kFirstCommand);
}

TEST(ResumeNote, NamesOtherFlagsAndAnotherScript) {
  const std::string note = NoteOf({"--nproc-per-node", "2", "--name", "a", "ok.py", "hel lo"});
  EXPECT_NE(note.find("ignores: --nproc-per-node 2, ok.py 'hel lo'. "), std::string::npos) << note;
  EXPECT_NE(note.find("leave --resume out and name another --run-dir"), std::string::npos) << note;
}

TEST(ResumeNote, NamesOtherArgumentsOfTheSameScript) {
  EXPECT_NE(NoteOf({"ck.py", "30"}).find("ignores: ck.py 30. "), std::string::npos);
}

TEST(ResumeNote, IsSilentAboutTheSameCommandAndWhatHasAnEffect) {
  EXPECT_EQ(NoteOf({}), "");
  EXPECT_EQ(NoteOf({"--nproc_per_node=1", "ck.py", "20"}), "");
  EXPECT_EQ(NoteOf({"--detach", "--ckpt-every", "10", "-q", "--no-progress"}), "");
}

TEST(ResumeNote, KeepsTheFirstCommandsFlagsThatNoFileHas) {
  const std::vector<std::string> first = {"--ckpt-every", "5",      "--ckpt-keep=2",
                                          "--plan",       "p.json", "--passthrough-exit",
                                          "--detach",     "ck.py",  "--ckpt-every"};
  const auto today = ParseRunLine({"--resume", "--ckpt-keep", "7"});
  ASSERT_TRUE(today.ok());
  const ParsedLine line = WithFirstFlags(*today, first, "/jobs");
  EXPECT_EQ(line.Text("ckpt_every"), "5");
  EXPECT_EQ(line.Text("ckpt_keep"), "7") << "today's word counts";
  EXPECT_EQ(line.Text("plan"), "/jobs/p.json");
  EXPECT_TRUE(line.Has("passthrough_exit"));
  EXPECT_FALSE(line.Has("detach"));
  EXPECT_EQ(IgnoredByResume(line, first), "");
}

TEST(ResumeNote, HidesASecret) {
  const std::string note = NoteOf({"--join", "paceline-join:v1:secret"});
  EXPECT_NE(note.find("ignores: --join. "), std::string::npos) << note;
}

}  // namespace
}  // namespace paceline::cli

#include "paceline/cli/run/earlier_runs.h"

#include "gtest/gtest.h"

namespace paceline::cli {
namespace {

wire::JobEvent Earlier(uint64_t seq, std::string kind, std::string sentence = "") {
  wire::JobEvent event;
  event.seq = seq;
  event.kind = std::move(kind);
  event.sentence = std::move(sentence);
  return event;
}

TEST(EarlierRuns, NothingIsSaidOfNothing) { EXPECT_EQ(EarlierRuns().Text("job-1"), ""); }

TEST(EarlierRuns, OneLineTellsOfAllRuns) {
  EarlierRuns before;
  before.Add(Earlier(1, "job_created"));
  before.Add(Earlier(2, "world_formed"));
  wire::JobEvent failed = Earlier(3, "rank_failed");
  failed.step = 41;
  before.Add(failed);
  before.Add(Earlier(4, "job_finished", "the job has ended with exit code 1: ValueError"));
  before.Add(Earlier(5, "job_resumed"));
  before.Add(Earlier(6, "world_formed"));
  EXPECT_EQ(before.last_seq(), 6u);
  std::string text = before.Text("job-1");
  EXPECT_NE(text.find("before: 2 runs since "), std::string::npos) << text;
  EXPECT_NE(text.find(" with 2 worlds, 1 failure of ranks, up to step 41; the last run has not "
                      "ended. `paceline events --job job-1` and `paceline why --job job-1` tell"),
            std::string::npos)
      << text;
  before.Add(
      Earlier(7, "job_finished", "the job has ended with exit code 143: paceline stop\nwas typed"));
  text = before.Text("job-1");
  EXPECT_NE(text.find("the job has ended with exit code 143: paceline stop"), std::string::npos)
      << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

// A world says at which step it begins, and the end of the job at which one it ended.
TEST(EarlierRuns, TheStepIsThatOfTheEnd) {
  EarlierRuns before;
  wire::JobEvent running = Earlier(1, "world_running");
  running.step = 0;
  before.Add(running);
  EXPECT_EQ(before.Text("job-1").find("up to step"), std::string::npos);
  wire::JobEvent end = Earlier(2, "job_finished", "the job has ended with exit code 143");
  end.step = 428;
  before.Add(end);
  EXPECT_NE(before.Text("job-1").find(", up to step 428; "), std::string::npos);
}

}  // namespace
}  // namespace paceline::cli

#include "paceline/cli/show/account.h"

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using wire::JobEvent;

JobEvent Happened(uint64_t seq, std::string kind, std::vector<uint64_t> causes,
                  std::string sentence, std::map<std::string, std::string> details = {}) {
  return {.seq = seq,
          .time_ns = static_cast<int64_t>(seq) * 100'000'000,
          .kind = std::move(kind),
          .sentence = std::move(sentence),
          .causes = std::move(causes),
          .details = std::move(details)};
}

// A rank is killed at step 19, and training goes on from step 17.
std::vector<JobEvent> KilledAtStep19() {
  std::vector<JobEvent> events = {
      Happened(1, "node_joined", {}, "node0 joined with 2 ranks"),
      Happened(2, "world_formed", {1}, "world 1 has 1 node"),
      Happened(3, "world_running", {2}, "world 1 trains"),
      Happened(4, "rank_failed", {2}, "rank 1 on node0 was killed by SIGKILL, at step 19",
               {{"charged", "true"}}),
      Happened(5, "world_ended", {4},
               "world 1 ended at step 19: one of its ranks or nodes is gone"),
      Happened(6, "recovery_decided", {4}, "restart process: a rank on node0 failed",
               {{"rung", "restart process"}}),
      Happened(7, "world_formed", {6}, "world 2 has 1 node"),
      Happened(8, "restore_decided", {7}, "world 2 goes on from step 17"),
      Happened(9, "world_running", {7}, "world 2 trains")};
  events[5].step = 19;
  events[6].generation = events[7].generation = events[8].generation = 2;
  events[7].step = 17;
  return events;
}

Account Told(const std::vector<JobEvent>& events, uint64_t seq) {
  return AccountOf(*Explain(events, seq, "runs/a"), events);
}

TEST(Account, BeginsWithTheCauseAndSaysWhatWasDoneWhatItCostAndWhatHappensNow) {
  const std::vector<JobEvent> events = KilledAtStep19();
  const Account account = Told(events, 6);
  ASSERT_TRUE(account.cause.has_value());
  EXPECT_EQ(account.cause->seq, 4U);
  EXPECT_TRUE(
      CauseText(*account.cause).starts_with("rank 1 on node0 was killed by SIGKILL, at step 19 ("));
  EXPECT_EQ(account.decision->seq, 6U);
  EXPECT_EQ(account.cost, "training again after 500 ms; 2 steps are trained again");
  EXPECT_EQ(account.now, "training goes on");
}

TEST(Account, AFailureLeadsToItsDecision) {
  const Account account = Told(KilledAtStep19(), 4);
  EXPECT_EQ(account.cause->seq, 4U);
  EXPECT_EQ(account.decision->seq, 6U);
}

TEST(Account, ALostNodeIsTheCause) {
  std::vector<JobEvent> events = KilledAtStep19();
  events[3].kind = "node_lost";
  EXPECT_EQ(Told(events, 6).cause->seq, 4U);
}

TEST(Account, WithoutAFailureThereIsNoCause) {
  std::vector<JobEvent> events = KilledAtStep19();
  events[3].kind = "node_joined";
  EXPECT_EQ(Told(events, 6).cause, std::nullopt);
  // Training stopped when the world ended, and not when the node came.
  EXPECT_EQ(Told(events, 6).cost, "training again after 400 ms; 2 steps are trained again");
}

TEST(Account, SaysWhatHappensNow) {
  std::vector<JobEvent> events = KilledAtStep19();
  events.push_back(Happened(10, "rank_failed", {7}, "…", {{"charged", "false"}}));
  EXPECT_EQ(Told(events, 6).now, "training goes on");
  events.push_back(Happened(11, "rank_failed", {7}, "…", {{"charged", "true"}}));
  EXPECT_EQ(Told(events, 6).now, "the next world is not formed yet");
  events.push_back(Happened(12, "wait_began", {11}, "waits for nodes"));
  EXPECT_EQ(Told(events, 6).now, "waits for nodes");
  events.push_back(Happened(13, "stop_decided", {11}, "stops"));
  EXPECT_EQ(Told(events, 6).now, "the job is ending");
  events.push_back(Happened(14, "job_finished", {}, "finished", {{"exit_code", "1"}}));
  EXPECT_EQ(Told(events, 6).now, "the job has ended with exit code 1");
}

TEST(Account, OfASuspectedHangSaysThatNoStepComes) {
  const std::vector<JobEvent> events = {
      Happened(1, "world_running", {}, "world 1 trains"),
      Happened(2, "hang_judged", {1}, "Rank 1 on a does not go on.", {{"acts", "false"}})};
  EXPECT_EQ(Told(events, 2).now, "a hang is suspected");
  wire::JobStatus status{
      .phase = "running", .pending = "no step for 28 s: Rank 1 …", .master_pid = 7};
  const Explanation why = *Explain(events, 2, "runs/a");
  EXPECT_EQ(AccountOf(why, events, status).now, "training goes on");  // it went on by itself
  status.since_step = Duration::Seconds(28);
  status.hang = wire::HangStatus{.seq = 2, .ranks = {1}, .sentence = "Rank 1 …"};
  EXPECT_EQ(AccountOf(why, events, status).now, "no step for 28 s");
  status.hang.reset();
  status.pending = "no step for 28 s; its ranks are examined again in 2 s";
  EXPECT_EQ(AccountOf(why, events, status).now, status.pending);
  status.pending = "no step for 28 s: Rank 1 …";
  status.hang = wire::HangStatus{.seq = 2, .ranks = {1}, .sentence = "Rank 1 …"};
  status.hang->seq = 3;  // another one than that which is explained
  EXPECT_EQ(AccountOf(why, events, status).now, "no step for 28 s: Rank 1 …");
}

TEST(Account, OfAHangThatEndedByItselfSaysThatTrainingGoesOn) {
  const std::vector<JobEvent> events = {
      Happened(1, "world_running", {}, "world 1 trains"),
      Happened(2, "hang_judged", {1}, "Rank 1 on a does not go on.", {{"acts", "false"}}),
      Happened(3, "hang_ended", {2}, "the hang ended by itself after 28 s")};
  EXPECT_EQ(Told(events, 2).now, "training goes on");
}

// The next master recorded it long after the rank had died.
TEST(Account, TheCostOfADeathWithoutAMasterBeginsWithTheDeath) {
  std::vector<JobEvent> events = KilledAtStep19();
  events[3].details["died_ms"] = "39500";
  EXPECT_EQ(Told(events, 6).cost, "training again after 40 s; 2 steps are trained again");
}

TEST(Account, TheCostOfAHangBeginsWithItsLastStep) {
  std::vector<JobEvent> events = KilledAtStep19();
  events[3] = Happened(4, "hang_judged", {2}, "Rank 1 on node0 was stopped.",
                       {{"acts", "true"}, {"quiet_ms", "39500"}});
  EXPECT_EQ(Told(events, 6).cost, "training again after 40 s; 2 steps are trained again");
}

}  // namespace
}  // namespace paceline::cli

#include "paceline/cli/show/explain.h"

#include "gtest/gtest.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/core/checkpoint/storage_wait.h"

namespace paceline::cli {
namespace {

using wire::JobEvent;

JobEvent Event(uint64_t seq, std::string kind, std::vector<uint64_t> causes,
               std::map<std::string, std::string> details = {}) {
  return {.seq = seq,
          .time_ns = static_cast<int64_t>(seq) * 100'000'000,
          .kind = std::move(kind),
          .sentence = "event " + std::to_string(seq),
          .causes = std::move(causes),
          .details = std::move(details)};
}

// A rank fails twice; the second failure takes another with it.
std::vector<JobEvent> TwoIncidents() {
  return {Event(1, "job_created", {}),
          Event(2, "node_joined", {}),
          Event(3, "world_formed", {2}),
          Event(4, "world_running", {3}),
          Event(5, "rank_failed", {3}, {{"charged", "true"}}),
          Event(6, "world_ended", {5}),
          Event(7, "recovery_decided", {5}, {{"rung", "restart process"}}),
          Event(8, "world_formed", {7}),
          Event(9, "world_running", {8}),
          Event(10, "rank_failed", {8}, {{"charged", "true"}}),
          Event(11, "world_ended", {10}),
          Event(12, "rank_failed", {8}, {{"charged", "false"}}),
          Event(13, "recovery_decided", {10}, {{"rung", "restart process"}}),
          Event(14, "world_formed", {13}),
          Event(15, "world_running", {14})};
}

std::vector<uint64_t> SeqsOf(const std::vector<JobEvent>& events) {
  std::vector<uint64_t> seqs;
  for (const JobEvent& event : events) seqs.push_back(event.seq);
  return seqs;
}

TEST(Explain, TheLastIncidentIsTheLastDecision) {
  EXPECT_EQ(LastIncident(TwoIncidents()), 13U);
  EXPECT_EQ(LastIncident({Event(1, "job_created", {})}), std::nullopt);
}

TEST(Explain, WhatIsOnlyToldIsAnIncidentToo) {
  std::vector<JobEvent> events = TwoIncidents();
  events.push_back(Event(16, "rank_slow", {14}));
  events.push_back(Event(17, "rank_no_longer_slow", {14}));
  EXPECT_EQ(LastIncident(events), 16U);
  EXPECT_EQ(Explain(events, 16, "runs/a")->next, "paceline status; nothing is done about it");
}

// A rank that loads for long is named at each start. It does not hide why the world was started.
TEST(Explain, ARankThatWasNamedBeforeItsWorldRanIsNoIncident) {
  std::vector<JobEvent> events = TwoIncidents();
  events.push_back(Event(16, "hang_judged", {14}));
  events.back().details["acts"] = "false";
  EXPECT_EQ(LastIncident(events), 16U);
  events.push_back(Event(17, "world_running", {14}));
  EXPECT_EQ(LastIncident(events), 13U);
}

TEST(Explain, ProcessesThatWereStartedAgainAreAnIncident) {
  for (const char* kind : {"agent_returned", "master_took_over"}) {
    std::vector<JobEvent> events = TwoIncidents();
    events.push_back(Event(16, kind, {14}));
    ASSERT_EQ(LastIncident(events), 16U);
    EXPECT_EQ(Explain(events, 16, "runs/a")->next, "nothing to do: training goes on");
  }
  EXPECT_EQ(LastIncident({Event(1, "job_created", {}), Event(2, "master_took_over", {})}),
            std::nullopt);
}

TEST(Explain, ABadLossIsAnIncidentWhereThereIsNoOther) {
  std::vector<JobEvent> events = {Event(1, "job_created", {}), Event(2, "world_running", {}),
                                  Event(3, "loss_went_bad", {2})};
  EXPECT_EQ(LastIncident(events), 3U);
  EXPECT_EQ(Explain(events, 3, "runs/a")->next, "paceline status; nothing is done about it");
  events = TwoIncidents();
  events.push_back(Event(16, "loss_went_bad", {14}));
  EXPECT_EQ(LastIncident(events), 13U);
}

TEST(Explain, AFailureThatExplainsAnEarlierOneIsTheFirstFault) {
  std::vector<JobEvent> events = TwoIncidents();
  events.push_back(Event(16, "rank_failed", {10}, {{"charged", "false"}, {"explains", "true"}}));
  events.push_back(Event(17, "rank_failed", {14}, {{"charged", "false"}, {"explains", "true"}}));
  const auto why = Explain(events, 13, "runs/a");
  EXPECT_EQ(why->first_fault->seq, 16U) << "17 explains another one";
  EXPECT_EQ(why->follow_ons, 2U);
}

TEST(Explain, AFailureOfOneHostIsSoughtThere) {
  std::vector<JobEvent> events = {
      Event(1, "rank_failed", {}, {{"charged", "true"}, {"headline", "OSError: no (t.py:1)"}}),
      Event(2, "stop_decided", {1}), Event(3, "job_finished", {2}, {{"exit_code", "1"}})};
  events[0].node = "B";
  events[0].step = 3;
  events[2].sentence =
      "the job has ended with exit code 1: your script fails, each time on B: OSError";
  EXPECT_EQ(Explain(events, 2, "r")->next,
            "find what fails on B at t.py:1 and on no other node, then paceline run --resume "
            "--run-dir r");
}

TEST(Explain, TheClassOfAFailureSaysWhatToDo) {
  std::vector<JobEvent> events = {
      Event(1, "rank_failed", {}, {{"charged", "true"}, {"headline", "OSError: no (t.py:1)"}}),
      Event(2, "stop_decided", {1}), Event(3, "job_finished", {2}, {{"exit_code", "1"}})};
  const auto next = [&](const std::string& name, const std::string& role) {
    events[0].details["class"] = name;
    events[0].details["role"] = role;
    const std::string text = Explain(events, 2, "r")->next;
    return text.substr(0, text.find(", then paceline run"));
  };
  EXPECT_EQ(next("disk_full", "cause"),
            "free space on the file system that the message names, or write to another one");
  EXPECT_EQ(next("exception", "cause"), "fix t.py:1") << "a general class knows less";
  EXPECT_EQ(next("connection_reset", "cascade"), "fix t.py:1");
  EXPECT_EQ(next("of_a_later_version", "cause"), "fix t.py:1");
  EXPECT_EQ(next("", ""), "fix t.py:1");
}

TEST(Explain, EvidenceStaysWithinItsIncident) {
  const auto why = Explain(TwoIncidents(), 13, "runs/a");
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(SeqsOf(why->evidence), (std::vector<uint64_t>{10}));
  EXPECT_EQ(SeqsOf(why->outcome), (std::vector<uint64_t>{14, 15}));
  EXPECT_EQ(why->first_fault->seq, 10U);
  EXPECT_EQ(why->follow_ons, 1U);
  EXPECT_EQ(*why->cost, Duration::Milliseconds(500));
  EXPECT_EQ(why->next, "nothing to do: training goes on");
}

// A pod is deleted an hour after its node joined. Its world ends before the decision is recorded.
TEST(Explain, TheCostOfADepartureCountsFromTheEndOfItsWorld) {
  std::vector<JobEvent> events = {Event(1, "job_created", {}),
                                  Event(2, "node_joined", {}),
                                  Event(3, "world_formed", {2}),
                                  Event(4, "world_running", {3}),
                                  Event(5, "node_noticed", {2}),
                                  Event(6, "node_left", {5}),
                                  Event(7, "world_ended", {6}),
                                  Event(8, "recovery_decided", {6}, {{"rung", "restart process"}}),
                                  Event(9, "world_formed", {8}),
                                  Event(10, "world_running", {9})};
  for (size_t i = 4; i < events.size(); ++i) events[i].time_ns += int64_t{3600} * 1'000'000'000;
  const auto why = Explain(events, 8, "runs/a");
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(SeqsOf(why->evidence), (std::vector<uint64_t>{5, 6}));
  EXPECT_EQ(*why->cost, Duration::Milliseconds(300));
}

TEST(Explain, TheCostOfAFailureDoesNotCountFromTheWorldBefore) {
  const auto why = Explain(TwoIncidents(), 10, "runs/a");
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(SeqsOf(why->evidence), (std::vector<uint64_t>{8}));
  EXPECT_EQ(*why->cost, Duration::Milliseconds(500));
}

TEST(Explain, AnOlderIncidentEndsWhereTrainingWentOn) {
  const auto why = Explain(TwoIncidents(), 7, "runs/a");
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(SeqsOf(why->outcome), (std::vector<uint64_t>{8, 9}));
  EXPECT_EQ(why->follow_ons, 0U);
}

// Layers move for no failure: the decision names only the world that it ends.
TEST(Explain, AMoveOfLayersBeginsWithItsDecision) {
  const std::vector<JobEvent> events = {
      Event(1, "node_joined", {}),
      Event(2, "world_formed", {1}),
      Event(3, "world_running", {2}),
      Event(250, "recovery_decided", {2}, {{"rung", "move layers"}}),
      Event(251, "world_ended", {250}),
      Event(252, "world_formed", {250}),
      Event(272, "world_running", {252})};
  const auto why = Explain(events, 250, "runs/a");
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(why->evidence.empty());
  EXPECT_EQ(*why->cost, Duration::Milliseconds(2200));
}

TEST(Explain, SaysWhichPlanTookOver) {
  std::vector<JobEvent> events = TwoIncidents();
  events.push_back(Event(16, "parallel_plan_chosen", {14}));  // told of after the first step
  events.push_back(Event(17, "parallel_plan_chosen", {14}));  // a later one of the same world
  EXPECT_EQ(SeqsOf(Explain(events, 13, "runs/a")->outcome), (std::vector<uint64_t>{14, 16, 15}));
  EXPECT_EQ(Explain(events, 13, "runs/a")->next, "nothing to do: training goes on");
  EXPECT_EQ(SeqsOf(Explain(events, 7, "runs/a")->outcome), (std::vector<uint64_t>{8, 9}));
  events[14] = Event(15, "parallel_plan_chosen", {14});
  events[15] = Event(16, "world_running", {14});
  EXPECT_EQ(SeqsOf(Explain(events, 13, "runs/a")->outcome), (std::vector<uint64_t>{14, 15, 16}));
}

TEST(Explain, AFailureLeadsToWhatWasDecided) {
  const auto why = Explain(TwoIncidents(), 5, "runs/a");
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->first_fault->seq, 5U);
  EXPECT_EQ(SeqsOf(why->outcome), (std::vector<uint64_t>{6, 7, 8, 9}));
}

TEST(Explain, ListsWhatWasTriedSinceTheLastProgress) {
  std::vector<JobEvent> events = TwoIncidents();
  EXPECT_EQ(SeqsOf(Explain(events, 13, "runs/a")->tried), (std::vector<uint64_t>{7}));
  EXPECT_TRUE(Explain(events, 7, "runs/a")->tried.empty());
  events[8].kind = "progress_made";
  EXPECT_TRUE(Explain(events, 13, "runs/a")->tried.empty());
}

// Event 7 of the two incidents is the decision that event 13 follows without progress.
TEST(Explain, AChangeOfTheSizeWithoutAFailureIsNoTry) {
  std::vector<JobEvent> events = TwoIncidents();
  events[6].details["rung"] = "none";
  EXPECT_TRUE(Explain(events, 13, "runs/a")->tried.empty()) << "it grew";
  events[6].details["rung"] = "resize";
  EXPECT_EQ(SeqsOf(Explain(events, 13, "runs/a")->tried), (std::vector<uint64_t>{7}))
      << "a failure came first";
  events[0] = Event(1, "size_chosen", {});
  events[6].causes = {1};
  EXPECT_TRUE(Explain(events, 13, "runs/a")->tried.empty()) << "a user asked for it";
}

TEST(Explain, ANodeThatWasTakenOutIsNamedOnceAndMayComeBack) {
  std::vector<JobEvent> events = TwoIncidents();
  events.resize(12);
  events[11] = Event(12, "node_evicted", {10});
  events[11].node = "B";
  events.push_back(Event(13, "recovery_decided", {12}, {{"rung", "shrink"}}));
  events.push_back(Event(14, "world_formed", {13}));
  events.push_back(Event(15, "world_running", {14}));
  const auto why = Explain(events, 13, "runs/a");
  EXPECT_EQ(SeqsOf(why->evidence), (std::vector<uint64_t>{10, 12}));
  EXPECT_EQ(SeqsOf(why->tried), (std::vector<uint64_t>{7}));
  EXPECT_EQ(
      why->next,
      "fix what failed on B, then start it there again as before; the job goes on without it");
  events[11].details["excluded_host"] = "rack1-host3";
  EXPECT_EQ(
      Explain(events, 13, "runs/a")->next,
      "fix what failed on the host rack1-host3; the platform starts B on another host, and the "
      "job goes on");
}

TEST(Explain, WaitingSaysWhatToDo) {
  std::vector<JobEvent> events = TwoIncidents();
  events.push_back(Event(16, "node_lost", {14}));
  events.push_back(Event(17, "recovery_decided", {16}, {{"rung", "wait"}}));
  events.push_back(Event(18, "wait_began", {17}));
  const auto why = Explain(events, *LastIncident(events), "runs/a");
  EXPECT_EQ(SeqsOf(why->evidence), (std::vector<uint64_t>{16}));
  EXPECT_FALSE(why->cost.has_value());
  EXPECT_EQ(why->next, "start a node on another host; paceline status says what is missing");
}

TEST(Explain, TheNextStepOfAFailedJobCanBeTypedAsItStands) {
  const std::vector<JobEvent> events = {Event(1, "rank_failed", {}, {{"charged", "true"}}),
                                        Event(2, "stop_decided", {1}),
                                        Event(3, "job_finished", {2}, {{"exit_code", "1"}})};
  EXPECT_EQ(Explain(events, 2, "runs/a b")->next,
            "fix what failed, then paceline run --resume --run-dir 'runs/a b'; that repeats the "
            "same command");
}

// The master names no cause of the end.
std::vector<JobEvent> Failed(const std::string& headline, const char* how = "exited",
                             const char* code = "1", const char* step_count = "3") {
  return {Event(1, "world_formed", {}),
          Event(2, "rank_failed", {1},
                {{"charged", "true"},
                 {"headline", headline},
                 {"how", how},
                 {"code", code},
                 {"step_count", step_count}}),
          Event(3, "recovery_decided", {2}, {{"rung", "stop"}}),
          Event(4, "stop_decided", {3}, {{"exit_code", "1"}}),
          Event(5, "job_finished", {}, {{"exit_code", "1"}})};
}

TEST(Explain, AFailedJobIsExplainedByItsLastFailure) {
  const std::vector<JobEvent> events = Failed("ValueError: bad batch (a b/train.py:31)");
  ASSERT_EQ(LastIncident(events), 4U);
  const auto why = Explain(events, 4, "runs/a");
  EXPECT_EQ(SeqsOf(why->evidence), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(SeqsOf(why->outcome), (std::vector<uint64_t>{5}));
  ASSERT_TRUE(why->first_fault.has_value());
  EXPECT_EQ(why->next, "fix a b/train.py:31, then paceline run --resume --run-dir runs/a");
}

TEST(Explain, TheNextStepFitsTheFailure) {
  const auto next = [](const std::vector<JobEvent>& events) {
    return Explain(events, 4, "runs/a")->next;
  };
  EXPECT_TRUE(next(Failed("was killed by SIGKILL", "signaled", "9"))
                  .starts_with("find what sent SIGKILL (`dmesg -T`"));
  EXPECT_TRUE(next(Failed("exited with code 3")).starts_with("fix what failed, then "));
  EXPECT_TRUE(next(Failed("ValueError: (a:b)")).starts_with("fix what failed, then "));
  std::vector<JobEvent> full = Failed("was killed by SIGKILL", "signaled", "9");
  full[1].details["cgroup_oom"] = "true";
  EXPECT_TRUE(next(full).starts_with("give its ranks more memory or less to hold, then "));
}

// --resume starts the command of spec.json again, so it cannot mend a command line.
TEST(Explain, ACommandThatHasNeverTrainedIsNotOnlyResumed) {
  const auto next = [](const std::vector<JobEvent>& events, const char* run_dir = "runs/a") {
    return Explain(events, 4, run_dir)->next;
  };
  const std::string refused =
      "exited with code 2; its last line on stderr was: t.py: error: unrecognized arguments: -x";
  EXPECT_EQ(next(Failed(refused, "exited", "2", "0")),
            "mend the command line of your script, and type `paceline run` anew: --resume repeats "
            "the same command");
  EXPECT_EQ(next(Failed(refused, "exited", "2", "0"), ""),
            "mend the command line of your script, and submit the job anew");
  EXPECT_EQ(next(Failed("ModuleNotFoundError: No module named 'x' (t.py:1)", "exited", "1", "0")),
            "install the module, or fix t.py:1, then paceline run --resume --run-dir runs/a; that "
            "repeats the same command");
  // Its command line was taken once.
  std::vector<JobEvent> resumed = Failed(refused, "exited", "2", "0");
  resumed[0].step = 40;
  EXPECT_EQ(next(resumed), "fix what failed, then paceline run --resume --run-dir runs/a");
}

TEST(Explain, StorageThatRefusesIsToBeRepaired) {
  const std::vector<JobEvent> events = {
      Event(1, "job_created", {}),
      Event(2, "world_formed", {}),
      Event(3, "checkpoint_not_stored", {}, {{"directory", "/runs/a"}}),
      Event(4, "rank_failed", {2}, {{"charged", "true"}, {"headline", "not stored (a.py:7)"}}),
      Event(5, "stop_decided", {4}, {{"exit_code", "11"}}),
      Event(6, "job_finished", {5}, {{"exit_code", "11"}})};
  EXPECT_TRUE(Explain(events, 5, "/r")->next.starts_with("repair the storage, then paceline run"));
  const std::vector<JobEvent> running(events.begin(), events.begin() + 3);
  EXPECT_TRUE(Explain(running, 3, "/r")->next.starts_with("/runs/a: make room there "));
}

TEST(Explain, AJobThatEndedWellHasNothingToDo) {
  const std::vector<JobEvent> events = {Event(1, "world_formed", {}),
                                        Event(2, "stop_decided", {}, {{"exit_code", "0"}}),
                                        Event(3, "job_finished", {}, {{"exit_code", "0"}})};
  EXPECT_EQ(Explain(events, *LastIncident(events), "runs/a")->next,
            "nothing to do: the job has finished");
}

TEST(Explain, AfterAGoodEndTheLastRecoveryIsTheIncident) {
  std::vector<JobEvent> events = TwoIncidents();
  events.push_back(Event(16, "stop_decided", {}, {{"exit_code", "0"}}));
  events.push_back(Event(17, "job_finished", {}, {{"exit_code", "0"}}));
  EXPECT_EQ(LastIncident(events), 13U);
  EXPECT_EQ(Explain(events, 13, "runs/a")->next, "nothing to do: the job has finished");
}

// `paceline run --resume` beside the launcher that has resumed the job would be refused.
TEST(Explain, AJobThatWasResumedNeedsNoCommand) {
  std::vector<JobEvent> events = TwoIncidents();
  events.push_back(Event(16, "rank_failed", {14}, {{"charged", "true"}, {"headline", "E (a:3)"}}));
  events.push_back(Event(17, "stop_decided", {16}, {{"exit_code", "1"}}));
  events.push_back(Event(18, "job_finished", {}, {{"exit_code", "1"}}));
  EXPECT_NE(Explain(events, 17, "/r")->next.find("paceline run --resume"), std::string::npos);
  events.push_back(Event(19, "job_resumed", {}));
  for (const bool is_running : {false, true}) {
    if (is_running) events.push_back(Event(20, "world_formed", {}));
    ASSERT_EQ(LastIncident(events), 17U);
    for (const uint64_t seq : {17U, 18U}) {
      const auto why = Explain(events, seq, "/r");
      EXPECT_EQ(why->outcome.back().kind, "job_resumed") << seq;
      EXPECT_EQ(why->next, "nothing to do: the job was resumed") << seq;
    }
  }
}

TEST(Explain, TheWorldAfterAResumeIsThereBecauseOfIt) {
  std::vector<JobEvent> events = {Event(1, "world_formed", {}),
                                  Event(2, "stop_decided", {}, {{"exit_code", "143"}}),
                                  Event(3, "job_finished", {}, {{"exit_code", "143"}}),
                                  Event(4, "job_resumed", {}),
                                  Event(5, "recovery_decided", {1}, {{"rung", "restart process"}}),
                                  Event(6, "world_formed", {5}),
                                  Event(7, "world_running", {6})};
  ASSERT_EQ(LastIncident(events), 5U);
  EXPECT_EQ(SeqsOf(Explain(events, 5, "/r")->evidence), (std::vector<uint64_t>{4}));
  events.push_back(Event(8, "rank_failed", {6}, {{"charged", "true"}}));
  events.push_back(Event(9, "recovery_decided", {8}, {{"rung", "restart process"}}));
  EXPECT_EQ(SeqsOf(Explain(events, 9, "/r")->evidence), (std::vector<uint64_t>{8}));
}

TEST(Explain, AStepWithALostPartNeedsNoRepairOfStorage) {
  const std::vector<JobEvent> events = {
      Event(1, "stop_decided", {}, {{"exit_code", "11"}}),
      Event(2, "job_finished", {},
            {{"exit_code", "11"},
             {"reason", "done; step 4 is not in storage: " + std::string(core::kPartIsLost)}})};
  EXPECT_TRUE(Explain(events, 2, "/r")->next.starts_with("on each host: paceline run --resume"));
}

TEST(Explain, AnEndThatDiffersFromItsStopIsTheIncident) {
  const std::vector<JobEvent> events = {Event(1, "stop_decided", {}, {{"exit_code", "0"}}),
                                        Event(2, "job_finished", {}, {{"exit_code", "11"}})};
  EXPECT_EQ(LastIncident(events), 2U);
}

TEST(Explain, AReasonIsToldOnce) {
  JobEvent stop = Event(1, "recovery_decided", {}, {{"rung", "stop"}});
  stop.sentence = "stop: it fails: badly";
  JobEvent decided = Event(2, "stop_decided", {});
  decided.sentence = "paceline ends the job with exit code 1: it fails: badly";
  JobEvent finished = Event(3, "job_finished", {});
  finished.sentence =
      "the job has ended with exit code 1: it fails: badly; step 5 is not in storage";
  ReasonTold told;
  EXPECT_EQ(told.Shorten(stop), "stop: it fails: badly");
  EXPECT_EQ(told.Shorten(Event(9, "rank_failed", {})), "event 9");
  EXPECT_EQ(told.Shorten(decided), "paceline ends the job with exit code 1");
  EXPECT_EQ(told.Shorten(finished), finished.sentence);
}

// A hang that was only named, and what ended it.
std::vector<JobEvent> NamedHang() {
  return {Event(1, "world_formed", {}), Event(2, "hang_judged", {1}, {{"acts", "false"}})};
}

TEST(Explain, AHangThatWasNamedSaysWhatIsDoneAboutItLater) {
  std::vector<JobEvent> events = NamedHang();
  const auto next = [&] { return Explain(events, 2, "runs/a")->next; };
  EXPECT_EQ(next(), "paceline why --evidence; nothing was restarted for it");
  events[1].details["later"] = "paceline ends the rank after 30 s";
  EXPECT_EQ(next(), "paceline why --evidence; paceline ends the rank after 30 s");
}

TEST(Explain, AHangThatWasNamedIsToldAfterTheJobWasStopped) {
  for (const char* code : {"0", "143"}) {
    std::vector<JobEvent> events = NamedHang();
    events.push_back(Event(3, "stop_decided", {2}, {{"exit_code", code}}));
    events.push_back(Event(4, "job_finished", {}, {{"exit_code", code}}));
    events[2].sentence = "paceline ends the job with exit code 143: SIGTERM";
    const auto why = Explain(events, *LastIncident(events), "runs/a");
    ASSERT_TRUE(why->hang.has_value()) << code;
    EXPECT_EQ(why->hang->seq, 2U);
    EXPECT_EQ(why->hang_end, "Then paceline ends the job with exit code 143: SIGTERM.");
  }
}

TEST(Explain, AHangThatWasNamedIsToldIfTheJobEndsOtherwiseThanItStopped) {
  std::vector<JobEvent> events = NamedHang();
  events.push_back(Event(3, "stop_decided", {2}, {{"exit_code", "0"}}));
  events.push_back(Event(4, "job_finished", {}, {{"exit_code", "11"}}));
  ASSERT_EQ(LastIncident(events), 4U);
  const auto why = Explain(events, 4, "runs/a");
  ASSERT_TRUE(why->hang.has_value());
  EXPECT_EQ(why->hang_end, "Then event 4.");
}

TEST(Explain, AHangThatWasNamedIsToldAfterItsRankWasEnded) {
  std::vector<JobEvent> events = NamedHang();
  events.push_back(Event(3, "rank_failed", {1, 2}, {{"charged", "true"}, {"how", "signaled"}}));
  events.push_back(Event(4, "recovery_decided", {3}, {{"rung", "restart process"}}));
  const auto why = Explain(events, *LastIncident(events), "runs/a");
  ASSERT_TRUE(why->hang.has_value());
  EXPECT_EQ(why->hang_end, "Then event 3.");
}

TEST(Explain, AHangThatEndedByItselfSaysSo) {
  std::vector<JobEvent> events = NamedHang();
  events.push_back(Event(3, "hang_ended", {2}));
  events[2].sentence = "the hang ended by itself after 28 s";
  ASSERT_EQ(LastIncident(events), 2U);
  const auto why = Explain(events, 2, "runs/a");
  EXPECT_EQ(why->hang_end, "Then the hang ended by itself after 28 s.");
}

TEST(Explain, AHangThatPacelineEndedItselfHasNoOtherEnd) {
  std::vector<JobEvent> events = NamedHang();
  events[1].details["acts"] = "true";
  events.push_back(Event(3, "rank_failed", {2}, {{"charged", "true"}}));
  events.push_back(Event(4, "recovery_decided", {3}, {{"rung", "restart process"}}));
  EXPECT_EQ(Explain(events, 4, "runs/a")->hang_end, "");
}

TEST(Explain, HostileCausesEnd) {
  const auto why =
      Explain({Event(1, "rank_failed", {1, 2, 99}), Event(2, "rank_failed", {1})}, 2, "runs/a");
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(SeqsOf(why->evidence), (std::vector<uint64_t>{1}));
  EXPECT_FALSE(Explain(TwoIncidents(), 0, "runs/a").has_value());
  EXPECT_FALSE(Explain(TwoIncidents(), 16, "runs/a").has_value());
}

}  // namespace
}  // namespace paceline::cli

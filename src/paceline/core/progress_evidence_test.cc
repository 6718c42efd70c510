// Evidence that a script makes progress without reporting any.

#include <string>

#include "gtest/gtest.h"
#include "paceline/core/finish.h"
#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

ExitCause Killed() {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kSignaled;
  cause.code = 9;
  return cause;
}

ExitCause Raised() {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kExited;
  cause.code = 1;
  cause.fingerprint = "ValueError@train.py:31";
  cause.headline = "ValueError: bad batch (train.py:31)";
  return cause;
}

// A job of one node with one rank.
class ProgressEvidence : public ::testing::Test {
 protected:
  ProgressEvidence() { Begin(); }

  void Begin() {
    JobSpec spec;
    spec.job_id = "evidence";
    spec.nproc_per_node = 1;
    job_.Step(now_, JobSubmitted{spec});
    job_.Step(now_, MasterStarted{1});
    NodeReport report = TestReport("n1");
    report.slots = 1;
    job_.Step(now_, NodeRegistered{ConnectionId(1), report});
  }

  // Its rank reports, and a second passes.
  void Tell(RankReport rank) {
    rank.generation = job_.state().world->generation;
    rank.pid = 9;
    NodeReported report{.node = NodeId(1),
                        .connection = ConnectionId(1),
                        .generation = rank.generation,
                        .store_port = NextPort()};
    report.ranks.push_back(rank);
    Keep(job_.Step(now_, report));
    Pass(10);
  }

  void Pass(int beats) {
    for (int i = 0; i < beats; ++i) {
      now_ += Duration::Milliseconds(100);
      Keep(job_.Step(now_, NodeReported{.node = NodeId(1),
                                        .connection = ConnectionId(1),
                                        .generation = job_.state().generation,
                                        .store_port = NextPort()}));
      Keep(job_.Step(now_, TimePassed{}));
    }
  }

  // A world trains `steps` steps, writes `files` checkpoints and ends with that report.
  void Attempt(RankReport at_end, const ExitCause& cause) {
    for (int i = 0; i < 200 && !job_.state().world.has_value(); ++i) Pass(1);
    if (!job_.state().world.has_value()) return;
    RankReport rank = at_end;
    rank.state = RankReport::State::kStepping;
    rank.step_count = 1;
    rank.saved_files = 0;
    if (at_end.step >= 0) rank.step = at_end.step - at_end.step_count + 1;
    Tell(rank);
    rank = at_end;
    rank.state = RankReport::State::kStepping;
    Tell(rank);
    rank.state = RankReport::State::kExited;
    rank.exit = cause;
    Tell(rank);
  }

  // Its rank has that step in memory.
  void Save(int64_t step, uint64_t branch) {
    const Generation generation = job_.state().world->generation;
    CheckpointReport report;
    report.generation = generation;
    report.terms = CheckpointTerms{.directory = "/ckpt"};
    report.place = "n1";
    report.address = "n1:1";
    report.images.push_back({.rank = Rank(0),
                             .place = "n1",
                             .saved = {generation.value(), step, branch},
                             .world_size = 1,
                             .file_bytes = 8,
                             .file_root = 1,
                             .root = 2});
    Keep(job_.Step(now_, CheckpointReported{NodeId(1), ConnectionId(1), report}));
    Pass(2);
  }

  bool IsOver() const {
    return job_.state().phase == Phase::kStopping || job_.state().phase == Phase::kFinished;
  }

  uint32_t NextPort() { return 30'000 + (port_++ % 1'000); }
  void Keep(const Actions& actions) {
    for (const Record& record : actions.records) {
      const auto* made = std::get_if<ProgressMade>(&record.fact);
      if (made != nullptr && !made->evidence.empty()) evidence_ = made->evidence;
      if (const auto* ended = std::get_if<WorldEnded>(&record.fact)) ended_ = *ended;
    }
  }

  Job job_;
  Instant now_ = Instant::FromNanoseconds(1'000'000'000);
  uint32_t port_ = 0;
  std::string evidence_;  // of the last progress without steps
  WorldEnded ended_;      // the last one
};

TEST_F(ProgressEvidence, KillsWithoutAnySignOfProgressEndTheJob) {
  for (int i = 0; i < 8 && !IsOver(); ++i) Attempt({.step_count = 20}, Killed());
  EXPECT_TRUE(IsOver());
}

TEST_F(ProgressEvidence, AScriptThatFinishesACheckpointInEachAttemptLivesOn) {
  for (int i = 0; i < 20; ++i) Attempt({.step_count = 20, .saved_files = 1}, Killed());
  EXPECT_FALSE(IsOver()) << job_.state().final_reason;
  EXPECT_EQ(evidence_, "a rank finished a checkpoint");
}

// A script that calls pl.saved() and tells no step.
TEST_F(ProgressEvidence, OnlyTheWorkAfterTheLastSaveIsLost) {
  const auto is_at = [](int64_t count, int64_t saved) {
    return RankReport{
        .state = RankReport::State::kStepping, .step_count = count, .saved_step = saved};
  };
  Tell(is_at(1, -1));
  for (int64_t count = 10; count <= 90; ++count) Tell(is_at(count, count / 10 * 10));
  Tell(is_at(95, 90));
  RankReport dead = is_at(95, 90);
  dead.state = RankReport::State::kExited;
  dead.exit = Killed();
  Tell(dead);
  EXPECT_EQ(ended_.lost_steps, 5);
  EXPECT_EQ(ended_.lost_work, Duration::Seconds(2));
}

TEST_F(ProgressEvidence, AFileDoesNotExcuseTheSameFailureAtTheSameStep) {
  for (int i = 0; i < 8 && !IsOver(); ++i) {
    Attempt({.step_count = 20, .saved_files = 1}, Raised());
  }
  EXPECT_TRUE(IsOver());
  EXPECT_EQ(job_.state().budget.same_failure_count, 3U);
}

TEST_F(ProgressEvidence, TheOptimizersOwnStepExcusesItWhenItIsHigherEachTime) {
  for (int64_t i = 1; i <= 20; ++i) Attempt({.step = i * 20, .step_count = 20}, Raised());
  EXPECT_FALSE(IsOver()) << job_.state().final_reason;
}

// Epochs of 20 steps that start at 0 again; one kill in each.
TEST_F(ProgressEvidence, AFurtherPassOverTheStepsIsProgressOnceItIsSaved) {
  for (const bool begins_anew : {false, true}) {
    int attempts = 0;
    for (; attempts < 12 && !IsOver(); ++attempts) {
      for (int i = 0; i < 200 && !job_.state().world.has_value(); ++i) Pass(1);
      if (!job_.state().world.has_value()) break;
      RankReport rank{.state = RankReport::State::kStepping, .step = 19, .step_count = 20};
      Tell(rank);
      Save(begins_anew ? 5 : 19, begins_anew ? 1 : 0);
      rank.state = RankReport::State::kExited;
      rank.exit = Killed();
      Tell(rank);
    }
    EXPECT_EQ(!begins_anew, IsOver()) << attempts;
    job_ = Job();
    evidence_.clear();
    Begin();
  }
}

TEST_F(ProgressEvidence, LongTrainingLivesOnThoughItsStepsBeginAnew) {
  for (int i = 0; i < 20; ++i) {
    Attempt({.step_count = 500}, Killed());
    for (int wait = 0; wait < 200 && !job_.state().world.has_value(); ++wait) Pass(1);
    ASSERT_TRUE(job_.state().world.has_value()) << job_.state().final_reason;
    Tell({.state = RankReport::State::kStepping, .step_count = 300});
    Pass(700);
  }
  EXPECT_FALSE(IsOver());
  EXPECT_NE(evidence_.find("much longer than a restart takes"), std::string::npos) << evidence_;
}

TEST_F(ProgressEvidence, SamplesThatNoAttemptRepeatsExcuseEveryFailure) {
  LeasedWorkDone work;
  for (int i = 0; i < 20; ++i) {
    work.samples += 10;
    Keep(job_.Step(now_, work));
    Attempt({.step_count = 20}, Raised());
  }
  EXPECT_FALSE(IsOver()) << job_.state().final_reason;
  EXPECT_EQ(evidence_, "10 leased samples acknowledged since the last failure");
  for (int i = 0; i < 8 && !IsOver(); ++i) Attempt({.step_count = 20}, Raised());
  EXPECT_TRUE(IsOver());
}

// The lease host hears of a death only after the failure was charged.
TEST_F(ProgressEvidence, TheSearchForABadSampleIsNotEndedByTheBudget) {
  LeasedWorkDone work{.samples = 36};
  for (int i = 0; i < 20; ++i) {
    Attempt({.step_count = 0}, Killed());
    ++work.searches;
    Keep(job_.Step(now_, work));
  }
  EXPECT_FALSE(IsOver()) << job_.state().final_reason;
  EXPECT_EQ(evidence_, "the search for a sample on which workers die went on");
}

// A script without collectives trains on one node while the other cannot start its ranks. Its steps
// were taken for progress, so that the broken node was tried for ever.
class BrokenNode : public ::testing::Test {
 protected:
  void Begin(uint32_t nodes_min, uint32_t ranks_per_node = 1) {
    ranks_per_node_ = ranks_per_node;
    JobSpec spec;
    spec.job_id = "broken";
    spec.nproc_per_node = ranks_per_node;
    spec.nodes_min = nodes_min;
    spec.nodes_max = 2;
    job_.Step(now_, JobSubmitted{spec});
    job_.Step(now_, MasterStarted{1});
    for (uint32_t id = 1; id <= 2; ++id) {
      NodeReport report = TestReport("n" + std::to_string(id));
      report.slots = ranks_per_node;
      job_.Step(now_, NodeRegistered{ConnectionId(id), report});
    }
  }

  void Tell(uint32_t id, std::vector<RankReport> ranks) {
    for (RankReport& rank : ranks) {
      rank.generation = job_.state().world->generation;
      rank.rank = Rank((id - 1) * ranks_per_node_ + rank.local_rank);
    }
    const Actions actions = job_.Step(now_, NodeReported{.node = NodeId(id),
                                                         .connection = ConnectionId(id),
                                                         .generation = job_.state().generation,
                                                         .store_port = ++port_,
                                                         .ranks = std::move(ranks)});
    for (const Record& record : actions.records) {
      if (std::holds_alternative<NodeEvicted>(record.fact)) ++evicted_;
      if (std::holds_alternative<WorldRunning>(record.fact)) running_ = Sentence(record);
    }
  }

  // Node 1 steps, node 2 does not start. True while there are such worlds.
  bool Attempt(int64_t step) {
    for (int i = 0; i < 3000 && !job_.state().world.has_value(); ++i) Beat();
    if (!job_.state().world.has_value() || job_.state().world->seats.size() < 2) return false;
    RankReport stepping;
    stepping.pid = 7;
    stepping.state = RankReport::State::kStepping;
    stepping.step = step;
    stepping.step_count = 5;
    Tell(1, {stepping});
    RankReport broken;
    broken.state = RankReport::State::kExited;
    broken.exit.kind = ExitCause::Kind::kNotStarted;
    broken.exit.headline = "fork: Cannot allocate memory";
    Tell(2, {broken});
    return true;
  }

  // The rank of node 1 returns, which breaks the connection of the rank of node 2 at that place.
  // True while there are such worlds.
  bool EarlyEnd(int64_t step, int64_t step_count, const std::string& place) {
    for (int i = 0; i < 3000 && !job_.state().world.has_value(); ++i) Beat();
    if (!job_.state().world.has_value() || job_.state().world->seats.size() < 2) return false;
    RankReport ended;
    ended.step = step;
    ended.step_count = step_count;
    ended.state = RankReport::State::kExited;
    ended.exit.kind = ExitCause::Kind::kExited;
    Tell(1, {ended});
    RankReport peer = ended;
    peer.exit.code = 1;
    peer.exit.fingerprint = "RuntimeError@" + place;
    peer.exit.headline = "RuntimeError: Connection closed by peer (" + place + ")";
    Tell(2, {peer});
    return true;
  }

  // The first world makes five steps. Each later one goes on after them, and makes none.
  int EarlyEnds() {
    if (!EarlyEnd(4, 5, "train.py:20")) return 0;
    int attempts = 1;
    while (attempts < 20 && EarlyEnd(-1, 0, "train.py:9")) ++attempts;
    return attempts;
  }

  void Beat() {
    now_ += Duration::Milliseconds(100);
    for (uint32_t id = 1; id <= 2; ++id) Tell(id, {});
    job_.Step(now_, TimePassed{});
  }

  // Both nodes report these ranks until the world is said to run.
  void RunUntilTold(const std::vector<RankReport>& ranks) {
    for (int i = 0; i < 400 && running_.empty(); ++i) {
      now_ += Duration::Milliseconds(100);
      for (const uint32_t id : {1, 2}) Tell(id, ranks);
    }
  }

  int Attempts() {
    int attempts = 0;
    while (attempts < 20 && Attempt(10 * (attempts + 1))) ++attempts;
    return attempts;
  }

  Job job_;
  Instant now_;
  uint32_t port_ = 5000;
  uint32_t ranks_per_node_ = 1;
  int evicted_ = 0;
  std::string running_;
};

// Scripts import for long, or do something else than training.
TEST_F(BrokenNode, AWorldWithoutAStepIsNotSaidToTrain) {
  Begin(/*nodes_min=*/2);
  const RankReport running{.pid = 7, .state = RankReport::State::kRunning};
  RunUntilTold({running});
  EXPECT_EQ(running_,
            "world 1 has run for 30 s, and no rank has made a step that paceline can count");
}

// Some ranks evaluate or serve, and never make a step.
TEST_F(BrokenNode, AWorldInWhichSomeRanksStepIsSaidToTrain) {
  Begin(/*nodes_min=*/2, /*ranks_per_node=*/2);
  const RankReport stepping{
      .local_rank = 0, .pid = 7, .state = RankReport::State::kStepping, .step = 8, .step_count = 9};
  const RankReport running{.local_rank = 1, .pid = 8, .state = RankReport::State::kRunning};
  RunUntilTold({stepping, running});
  EXPECT_EQ(running_, "world 1 trains, at step 8");
}

// The connection of the peers of a rank whose script returned breaks. The cause is that rank.
TEST_F(BrokenNode, AFailureOfAPeerNamesTheRankThatHadEnded) {
  Begin(/*nodes_min=*/2);
  RankReport ended;
  ended.state = RankReport::State::kExited;
  ended.exit.kind = ExitCause::Kind::kExited;
  Tell(1, {ended});
  RankReport peer = ended;
  peer.exit.code = 1;
  peer.exit.headline = "RuntimeError: Connection closed by peer (train.py:9)";
  Tell(2, {peer});
  EXPECT_EQ(job_.state().budget.last_headline,
            "RuntimeError: Connection closed by peer (train.py:9); rank 0 on n1 had ended with "
            "exit code 0 before");
}

// The place where a peer's connection breaks is chance. It was compared, so a fourth world was
// tried, and the job ended with "before its first step".
TEST_F(BrokenNode, AnEarlyEndIsTheSameFailureWhereverAPeerBreaks) {
  Begin(/*nodes_min=*/2);
  EXPECT_EQ(EarlyEnds(), 3);
  EXPECT_EQ(job_.state().exit_code, 1);
  EXPECT_EQ(job_.state().final_reason.find("your script fails at step 4, "), 0u)
      << job_.state().final_reason;
}

// The failed rank's node would be taken out for what a rank of another node did.
TEST_F(BrokenNode, APeerOfAnEarlyEndIsNotTakenOut) {
  Begin(/*nodes_min=*/1);
  EXPECT_EQ(EarlyEnds(), 3);
  EXPECT_EQ(evicted_, 0);
  EXPECT_EQ(job_.state().exit_code, 1);
}

TEST_F(BrokenNode, IsTakenOutIfTheOthersCanGoOn) {
  Begin(/*nodes_min=*/1);
  EXPECT_EQ(Attempts(), 3);
  EXPECT_EQ(evicted_, 1);
  ASSERT_TRUE(job_.state().world.has_value());
  EXPECT_EQ(job_.state().world->seats.size(), 1u);
  EXPECT_EQ(DesiredAssignment(job_.state(), NodeId(2)).kind, Assignment::Kind::kLeave);
  EXPECT_EQ(DesiredAssignment(job_.state(), NodeId(2)).exit_code, kExitFenced);
}

TEST_F(BrokenNode, EndsAJobThatNeedsItAfterThreeWorlds) {
  Begin(/*nodes_min=*/2);
  EXPECT_EQ(Attempts(), 3);
  EXPECT_EQ(evicted_, 0);
  EXPECT_EQ(job_.state().exit_code, 1);
}

}  // namespace
}  // namespace paceline::core

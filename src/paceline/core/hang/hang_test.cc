// A world with a quiet rank: which nodes are asked, what is recorded, and what follows.

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/hang/hang.h"
#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

// A job of two nodes with two ranks each, that trains.
class HangTest : public ::testing::Test {
 protected:
  HangTest() {
    spec_.job_id = "hang";
    spec_.nodes_min = spec_.nodes_max = 2;
    spec_.nproc_per_node = 2;
    Begin();
  }

  void Begin() {
    job_ = Job();
    Take(job_.Step(now_, JobSubmitted{spec_}));
    Take(job_.Step(now_, MasterStarted{1}));
    for (const uint64_t id : {1U, 2U}) {
      NodeReport report = TestReport("n" + std::to_string(id));
      report.slots = 2;
      Take(job_.Step(now_, NodeRegistered{ConnectionId(id), report}));
    }
    Beat(false);
  }

  void Take(const Actions& actions) {
    for (const Record& record : actions.records) records_.push_back(record);
    for (const Effect& effect : actions.effects) {
      if (const auto* ask = std::get_if<CollectEvidence>(&effect)) asked_.push_back(*ask);
    }
  }
  // Every rank reports whether it is quiet, and a tenth of a second passes.
  void Beat(bool is_quiet) {
    for (const uint32_t id : {1U, 2U}) {
      NodeReported report{.node = NodeId(id),
                          .connection = ConnectionId(id),
                          .generation = job_.state().generation,
                          .store_port = port_++};
      for (uint32_t local = 0; local < 2; ++local) {
        RankReport rank;
        rank.generation = job_.state().generation;
        rank.rank = Rank((id - 1) * 2 + local);
        rank.local_rank = local;
        rank.pid = 100;
        rank.state = RankReport::State::kStepping;
        rank.step_count = 50;
        rank.is_quiet = is_quiet;
        report.ranks.push_back(rank);
      }
      Take(job_.Step(now_, report));
    }
    Pass(1);
  }
  void Pass(int tenths) {
    for (int i = 0; i < tenths; ++i) {
      now_ += Duration::Milliseconds(100);
      for (const uint32_t id : {1U, 2U}) {
        Take(job_.Step(now_, NodeReported{.node = NodeId(id),
                                          .connection = ConnectionId(id),
                                          .generation = job_.state().generation,
                                          .store_port = port_++}));
      }
      Take(job_.Step(now_, TimePassed{}));
    }
  }
  // Rank 2 on n2 was stopped. All others wait for it in call 8 of the world.
  void Answer(uint32_t id, Duration waited, uint64_t round, char state = 'T') {
    NodeEvidence evidence{.generation = job_.state().generation, .round = round, .ranks = {}};
    for (uint32_t local = 0; local < 2; ++local) {
      RankEvidence rank;
      rank.rank = Rank((id - 1) * 2 + local);
      rank.has_ring = true;
      rank.phase = RankPhase::kForward;
      rank.quiet_for = waited;
      rank.state = rank.rank == Rank(2) ? state : 'S';
      rank.watched = Duration::Milliseconds(500);
      rank.step_p99 = Duration::Milliseconds(100);
      CollectiveSeen seen{.group = "0 0-3", .sequence = 7, .operation = "all_reduce"};
      seen.is_complete = true;
      rank.collectives.push_back(seen);
      if (rank.rank != Rank(2)) {
        seen.sequence = 8;
        seen.age = waited;
        seen.is_complete = false;
        rank.collectives.push_back(seen);
      }
      if (rank.rank == Rank(2)) change_(&rank);
      evidence.ranks.push_back(rank);
    }
    Take(job_.Step(now_, EvidenceCollected{NodeId(id), ConnectionId(id), evidence}));
  }
  // The world stands still for that time, and every question gets its answers.
  void StandStill(int64_t seconds) {
    const Instant begun = now_;
    Beat(true);
    size_t answered = 0;
    while (now_ < begun + Duration::Seconds(seconds)) {
      Pass(10);
      if (asked_.size() == answered) continue;
      answered = asked_.size();
      waited_ = now_ - begun;
      for (const uint32_t id : {1U, 2U}) Answer(id, waited_, asked_.back().round, 'S');
    }
  }
  template <class F>
  std::vector<F> Facts() const {
    std::vector<F> found;
    for (const Record& record : records_) {
      if (const F* fact = std::get_if<F>(&record.fact)) found.push_back(*fact);
    }
    return found;
  }

  JobSpec spec_;
  Instant now_ = Instant::FromNanoseconds(1'000'000'000'000);
  uint32_t port_ = 20'000;
  Job job_;
  std::vector<Record> records_;
  std::vector<CollectEvidence> asked_;
  Duration waited_;  // of the last answers
  // Of rank 2's evidence.
  std::function<void(RankEvidence*)> change_ = [](RankEvidence*) {};
};

TEST_F(HangTest, NobodyIsAskedWhileNobodyIsQuiet) {
  Pass(300);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(HangTest, AQuietRankMakesEveryNodeTellOnce) {
  Beat(true);
  ASSERT_EQ(2u, asked_.size());
  EXPECT_EQ(NodeId(1), asked_[0].node);
  EXPECT_EQ(NodeId(2), asked_[1].node);
  EXPECT_EQ(asked_[0].round, asked_[1].round);
  Pass(10);
  EXPECT_EQ(2u, asked_.size());
}

TEST_F(HangTest, AStoppedRankFailsAndTheVerdictIsItsCause) {
  Beat(true);
  Answer(1, Duration::Seconds(3), 1);
  EXPECT_TRUE(Facts<HangJudged>().empty());
  Answer(2, Duration::Seconds(3), 1);
  ASSERT_EQ(1u, Facts<HangJudged>().size());
  const HangJudged judged = Facts<HangJudged>().front();
  EXPECT_TRUE(judged.acts);
  EXPECT_EQ("stopped", judged.hang);
  EXPECT_EQ(std::vector<Rank>{Rank(2)}, judged.culprits);
  ASSERT_EQ(1u, Facts<RankFailed>().size());
  const RankFailed failed = Facts<RankFailed>().front();
  EXPECT_EQ(ExitCause::Kind::kHung, failed.cause.kind);
  EXPECT_EQ("n2", failed.node_name);
  EXPECT_EQ(Rank(2), failed.rank);
  EXPECT_TRUE(failed.charged);
  Pass(50);
  ASSERT_FALSE(Facts<RecoveryDecided>().empty());
  EXPECT_EQ(Rung::kRestartProcess, Facts<RecoveryDecided>().front().rung);
  EXPECT_EQ(2u, job_.state().world->generation.value());
}

TEST_F(HangTest, ANodeThatDoesNotAnswerIsJudgedWithout) {
  Beat(true);
  Answer(2, Duration::Seconds(3), 1);
  Pass(static_cast<int>(kEvidenceWait.milliseconds() / 100) + 1);
  ASSERT_EQ(1u, Facts<RankFailed>().size());
  EXPECT_EQ(Rank(2), Facts<RankFailed>().front().rank);
}

TEST_F(HangTest, AnswersOfAnotherRoundOrWorldCountForNothing) {
  Beat(true);
  Answer(1, Duration::Seconds(3), 7);
  Answer(2, Duration::Seconds(3), 0);
  Pass(static_cast<int>(kEvidenceWait.milliseconds() / 100) + 1);
  EXPECT_TRUE(Facts<RankFailed>().empty());
}

TEST_F(HangTest, ToldOnceAndAskedAgainLater) {
  Beat(true);
  // Rank 2 sleeps for five seconds: named, but not acted on.
  Answer(1, Duration::Seconds(5), 1, 'S');
  Answer(2, Duration::Seconds(5), 1, 'S');
  ASSERT_EQ(1u, Facts<HangJudged>().size());
  EXPECT_FALSE(Facts<HangJudged>().front().acts);
  Pass(260);
  ASSERT_EQ(4u, asked_.size());
  Answer(1, Duration::Seconds(28), 2, 'S');
  Answer(2, Duration::Seconds(28), 2, 'S');
  EXPECT_EQ(1u, Facts<HangJudged>().size());
  Pass(30);
  Answer(1, Duration::Seconds(31), 3, 'S');
  Answer(2, Duration::Seconds(31), 3, 'S');
  EXPECT_EQ(2u, Facts<HangJudged>().size());
  EXPECT_EQ(1u, Facts<RankFailed>().size());
}

std::vector<RecordSeq> CausesOfLast(const std::vector<Record>& records, const auto& is_wanted) {
  std::vector<RecordSeq> causes;
  for (const Record& record : records) {
    if (is_wanted(record.fact)) causes = record.causes;
  }
  return causes;
}

// `paceline why` tells of the hang by that cause.
TEST_F(HangTest, AStopNamesTheHangThatItEnds) {
  const auto is_stop = [](const Fact& fact) { return std::holds_alternative<StopDecided>(fact); };
  for (const bool lasts : {true, false}) {
    records_.clear();
    Begin();
    Beat(true);
    const uint64_t round = asked_.back().round;
    Answer(1, Duration::Seconds(5), round, 'S');
    Answer(2, Duration::Seconds(5), round, 'S');
    ASSERT_EQ(1u, Facts<HangJudged>().size());
    const RecordSeq judged = records_.back().seq;
    if (!lasts) Beat(false);
    Take(job_.Step(now_, StopRequested{.why = "SIGTERM", .grace = Duration(), .exit_code = 143}));
    EXPECT_EQ(lasts ? std::vector{judged} : std::vector<RecordSeq>(),
              CausesOfLast(records_, is_stop));
  }
}

TEST_F(HangTest, ASignalThatEndsANamedRankHasTheHangAsACause) {
  Beat(true);
  Answer(1, Duration::Seconds(5), 1, 'S');
  Answer(2, Duration::Seconds(5), 1, 'S');
  const RecordSeq judged = records_.back().seq;
  RankReport rank;
  rank.generation = job_.state().generation;
  rank.rank = Rank(2);
  rank.local_rank = 0;
  rank.pid = 100;
  rank.state = RankReport::State::kExited;
  rank.exit.kind = ExitCause::Kind::kSignaled;
  rank.exit.code = 15;
  Take(job_.Step(now_, NodeReported{.node = NodeId(2),
                                    .connection = ConnectionId(2),
                                    .generation = job_.state().generation,
                                    .store_port = port_++,
                                    .ranks = {rank}}));
  ASSERT_EQ(1u, Facts<RankFailed>().size());
  const auto is_failure = [](const Fact& fact) { return std::holds_alternative<RankFailed>(fact); };
  EXPECT_EQ(judged, CausesOfLast(records_, is_failure).back());
}

TEST_F(HangTest, ATellingSaysWhatIsDoneLaterAndIsOpenWhileItLasts) {
  Beat(true);
  EXPECT_EQ(RecordSeq(), job_.hang().told_seq);
  Answer(1, Duration::Seconds(5), 1, 'S');
  Answer(2, Duration::Seconds(5), 1, 'S');
  const HangJudged judged = Facts<HangJudged>().back();
  EXPECT_EQ(Duration::Seconds(5), judged.quiet_for);
  EXPECT_EQ("paceline restarts the processes if they do not go on within 30 s", judged.later);
  EXPECT_EQ(records_.back().seq, job_.hang().told_seq);
  EXPECT_EQ(std::vector<Rank>{Rank(2)}, job_.hang().told_ranks);
  EXPECT_EQ(judged.sentence, job_.hang().told_sentence);
  Beat(false);
  EXPECT_EQ(RecordSeq(), job_.hang().told_seq);
}

TEST_F(HangTest, WhoAsksForItIsOnlyTold) {
  spec_.only_tells_hangs = true;
  Begin();
  Beat(true);
  Answer(1, Duration::Seconds(3), 1);
  Answer(2, Duration::Seconds(3), 1);
  Pass(100);
  ASSERT_EQ(1u, Facts<HangJudged>().size());
  EXPECT_FALSE(Facts<HangJudged>().front().acts);
  EXPECT_EQ("", Facts<HangJudged>().front().later);
  EXPECT_TRUE(Facts<RankFailed>().empty());
}

// The first one: no earlier stretch of that phase shows how long it takes.
TEST_F(HangTest, AFirstEvaluationOfHalfAnHourIsNamedOnceAndNeverRestarted) {
  change_ = [this](RankEvidence* rank) {
    rank->phase = RankPhase::kUnknown;
    const bool computes = waited_.nanoseconds() / 1'000'000'000 % 2 == 0;  // or it reads
    if (computes) rank->cpu = rank->watched;
    rank->idle_for = Duration::Seconds(2);
  };
  StandStill(1800);
  ASSERT_EQ(1u, Facts<HangJudged>().size());
  EXPECT_NE(std::string::npos,
            Facts<HangJudged>().front().sentence.find("it may be evaluating or saving"))
      << Facts<HangJudged>().front().sentence;
  EXPECT_TRUE(Facts<RankFailed>().empty());
  EXPECT_GT(waited_, Duration::Seconds(1700));
}

TEST_F(HangTest, ARankThatDoesNothingInAnUnknownPhaseIsRestartedAfterTenMinutes) {
  change_ = [this](RankEvidence* rank) {
    rank->phase = RankPhase::kUnknown;
    rank->idle_for = waited_ - Duration::Seconds(3);  // since the agent's first look
  };
  StandStill(599);
  ASSERT_EQ(1u, Facts<HangJudged>().size());
  EXPECT_TRUE(Facts<RankFailed>().empty());
  StandStill(620);
  ASSERT_EQ(1u, Facts<RankFailed>().size());
  EXPECT_GE(waited_, Duration::Seconds(603));
  EXPECT_EQ(Rank(2), Facts<RankFailed>().front().rank);
}

TEST_F(HangTest, ARankThatRaisedAndDoesNotEndFailsAsItsExceptionWould) {
  change_ = [this](RankEvidence* rank) {
    rank->phase = RankPhase::kEnd;
    rank->raised = "ValueError: bad batch (train.py:31)";
    rank->raised_as = "ValueError@train.py:31";
    rank->raised_for = waited_;
    rank->idle_for = waited_ - Duration::Seconds(3);
  };
  StandStill(29);
  ASSERT_EQ(1u, Facts<HangJudged>().size());
  EXPECT_FALSE(Facts<HangJudged>().front().acts);
  EXPECT_EQ(
      "paceline ends the rank 30 s after its exception if it does nothing by then, at the latest "
      "after 2 min",
      Facts<HangJudged>().front().later);
  StandStill(35);
  ASSERT_EQ(1u, Facts<RankFailed>().size());
  const ExitCause cause = Facts<RankFailed>().front().cause;
  EXPECT_EQ("ValueError@train.py:31", cause.fingerprint);
  EXPECT_EQ("raised ValueError: bad batch (train.py:31) and did not end", cause.headline);
  EXPECT_LT(waited_, Duration::Seconds(33));
}

// The master was stopped for a minute, and the rank may have continued since the answers.
TEST_F(HangTest, OldAnswersAreAskedForAnew) {
  Beat(true);
  Answer(1, Duration::Seconds(3), 1);
  now_ += Duration::Seconds(60);
  Answer(2, Duration::Seconds(3), 1);
  EXPECT_TRUE(Facts<HangJudged>().empty());
  ASSERT_EQ(4u, asked_.size());
  EXPECT_EQ(2u, asked_.back().round);
}

TEST_F(HangTest, ARankThatGoesOnIsAskedNoMore) {
  Beat(true);
  Beat(false);
  Answer(1, Duration::Seconds(3), 1);
  Answer(2, Duration::Seconds(3), 1);
  Pass(300);
  EXPECT_EQ(2u, asked_.size());
  EXPECT_TRUE(Facts<RankFailed>().empty());
}

TEST_F(HangTest, TheEndOfANamedHangIsRecorded) {
  StandStill(15);
  ASSERT_FALSE(Facts<HangJudged>().empty());
  EXPECT_TRUE(Facts<HangEnded>().empty());
  Beat(false);
  ASSERT_EQ(1u, Facts<HangEnded>().size());
  EXPECT_GE(Facts<HangEnded>().front().lasted, Duration::Seconds(14));
  Beat(false);
  EXPECT_EQ(1u, Facts<HangEnded>().size());
}

// The master that named it is gone. The next one says nothing until it has heard every rank.
TEST_F(HangTest, TheNextMasterRecordsTheEnd) {
  StandStill(15);
  std::vector<Record> durable = records_;
  job_ = Job();
  for (const Record& record : durable) job_.Restore(record);
  Take(job_.Step(now_, MasterStarted{2}));
  for (const uint64_t id : {1U, 2U}) {
    NodeReport report = TestReport("n" + std::to_string(id));
    report.slots = 2;
    report.generation = job_.state().generation;
    EXPECT_TRUE(Facts<HangEnded>().empty());
    for (uint32_t local = 0; local < 2; ++local) {
      RankReport rank;
      rank.generation = job_.state().generation;
      rank.rank = Rank((id - 1) * 2 + local);
      rank.local_rank = local;
      rank.pid = 100;
      rank.state = RankReport::State::kStepping;
      rank.step_count = 60;
      report.ranks.push_back(rank);
    }
    Take(job_.Step(now_, NodeRegistered{ConnectionId(id), report}));
  }
  EXPECT_EQ(1u, Facts<HangEnded>().size());
}

}  // namespace
}  // namespace paceline::core

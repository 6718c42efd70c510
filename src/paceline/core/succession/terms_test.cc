// Masters of several terms: how their worlds are numbered, and whom their nodes listen to.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/job.h"
#include "paceline/core/succession/term_guard.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

TEST(Generations, CarryTheTermOfTheirMaster) {
  EXPECT_EQ(GenerationOf(0, 7), Generation(7));
  const Generation generation = GenerationOf(3, 7);
  EXPECT_EQ(TermOf(generation), 3U);
  EXPECT_EQ(WorldNumber(generation), 7U);
  EXPECT_GT(generation, GenerationOf(2, 1'000));
}

TEST(TermGuard, NeverListensToALowerTermAgain) {
  TermGuard guard;
  EXPECT_TRUE(guard.Admit(0));
  EXPECT_TRUE(guard.Admit(2));
  EXPECT_TRUE(guard.Admit(2)) << "its process was started anew";
  EXPECT_FALSE(guard.Admit(1));
  EXPECT_TRUE(guard.Admit(3));
  EXPECT_EQ(guard.seen(), 3U);
  EXPECT_FALSE(TermGuard(5).Admit(4)) << "the agent before this one had met it";
}

class TermsTest : public ::testing::Test {
 protected:
  TermsTest() {
    spec_.job_id = "terms";
    spec_.nproc_per_node = 1;
    spec_.nodes_min = spec_.nodes_max = 1;
  }

  void Step(const Event& event) {
    now_ += Duration::Milliseconds(10);
    const Actions actions = job_->Step(now_, event);
    journal_.insert(journal_.end(), actions.records.begin(), actions.records.end());
    for (const Effect& effect : actions.effects) {
      if (const auto* told = std::get_if<AssignNode>(&effect)) told_ = told->assignment;
      if (const auto* told = std::get_if<OrderCheckpoint>(&effect)) order_ = told->order;
      if (const auto* refusal = std::get_if<RefuseNode>(&effect)) refused_ = *refusal;
    }
  }
  void StartMaster(uint64_t term, History history, std::optional<Memo> memo = std::nullopt) {
    job_.emplace();
    for (const Record& record : journal_) job_->Restore(record);
    Step(JobSubmitted{spec_});
    Step(MasterStarted{
        .incarnation = ++incarnation_, .term = term, .history = history, .memo = std::move(memo)});
  }
  void Register(NodeReport report) {
    report.job_id = "";
    Step(NodeRegistered{ConnectionId(++connections_), std::move(report)});
  }
  // The node as it is when it trains in that world.
  static NodeReport Trains(Generation generation) {
    NodeReport report = TestReport("node0");
    report.store_port = 29'500;
    report.slots = 1;
    report.generation = generation;
    report.ranks = {{.generation = generation, .pid = 7, .state = RankReport::State::kStepping}};
    report.term = TermOf(generation);
    return report;
  }
  // Its ranks are past their first step.
  void Train() {
    Step(NodeReported{.node = NodeId(1),
                      .connection = ConnectionId(connections_),
                      .generation = world(),
                      .ranks = Trains(world()).ranks});
    ASSERT_EQ(job_->state().phase, Phase::kRunning);
  }
  static NodeReport Fresh() {
    NodeReport report = Trains(Generation());
    report.ranks.clear();
    return report;
  }
  Generation world() const { return job_->state().world->generation; }

  JobSpec spec_;
  std::optional<Job> job_;
  std::vector<Record> journal_;
  Instant now_ = Instant::FromNanoseconds(1'000'000'000);
  uint64_t incarnation_ = 0;
  uint64_t connections_ = 0;
  Assignment told_;
  CheckpointOrder order_;
  std::optional<RefuseNode> refused_;
};

TEST_F(TermsTest, TheFirstWorldOfATermHasItsNumber) {
  StartMaster(1, History::kOwn);
  Register(Fresh());
  EXPECT_EQ(world(), GenerationOf(1, 1));
  EXPECT_EQ(told_.generation, GenerationOf(1, 1));
  EXPECT_NE(Sentence(journal_.back()).find("world 1 has 1 node"), std::string::npos);
}

// The master that was replaced may live, and decide from which step this world begins.
TEST_F(TermsTest, AWorldThatHadNotBegunIsFormedAnew) {
  StartMaster(1, History::kOwn);
  Register(Fresh());
  StartMaster(2, History::kCopy);
  Register(Trains(GenerationOf(1, 1)));
  EXPECT_EQ(TermOf(world()), 2U);
}

TEST_F(TermsTest, AWorldOutlivesItsMaster) {
  StartMaster(1, History::kOwn);
  Register(Fresh());
  Train();
  StartMaster(2, History::kCopy);
  Register(Trains(GenerationOf(1, 1)));
  EXPECT_EQ(world(), GenerationOf(1, 1));
  EXPECT_EQ(told_.kind, Assignment::Kind::kRun);
  EXPECT_EQ(job_->state().generation, GenerationOf(2, WorldNumber(job_->state().solo_last)));
}

// Its block of numbers is of the old term: the master of that term could give one of them, too.
TEST_F(TermsTest, ALoneNodesNextWorldIsOfTheNewTerm) {
  StartMaster(1, History::kOwn);
  Register(Fresh());
  Train();
  StartMaster(2, History::kCopy);
  Register(Trains(GenerationOf(1, 1)));
  NodeReport failed = Trains(GenerationOf(1, 1));
  failed.ranks[0].state = RankReport::State::kExited;
  failed.ranks[0].exit = {.kind = ExitCause::Kind::kExited, .code = 1};
  Step(RankExited{NodeId(1), ConnectionId(connections_), failed.ranks[0]});
  for (int i = 0; i < 1'000 && TermOf(job_->state().generation) == 2; ++i) {
    if (job_->state().world.has_value() && TermOf(world()) == 2) break;
    Step(NodeReported{.node = NodeId(1),
                      .connection = ConnectionId(connections_),
                      .generation = GenerationOf(1, 1),
                      .store_port = 29'501});
  }
  ASSERT_TRUE(job_->state().world.has_value());
  EXPECT_EQ(TermOf(world()), 2U);
  EXPECT_GT(WorldNumber(world()), 1U);
}

TEST_F(TermsTest, AWorldThatTheCopyLacksIsEndedWithoutAFailure) {
  StartMaster(1, History::kOwn);
  Register(Fresh());
  Train();
  const size_t copied = journal_.size();
  StartMaster(2, History::kCopy);
  ASSERT_GT(journal_.size(), copied);
  // It trains in a world that the former master formed after that copy was made.
  Register(Trains(GenerationOf(1, 90)));
  bool has_ended = false;
  for (const Record& record : journal_) {
    EXPECT_FALSE(std::holds_alternative<RankFailed>(record.fact)) << Sentence(record);
    has_ended = has_ended || std::holds_alternative<WorldEnded>(record.fact);
  }
  EXPECT_TRUE(has_ended);
  ASSERT_TRUE(job_->state().world.has_value());
  EXPECT_EQ(world(), GenerationOf(2, 91)) << "people have seen world 90";
}

TEST_F(TermsTest, AWorldThatTheCopyLacksTakesNoStopBack) {
  StartMaster(1, History::kOwn);
  Register(Fresh());
  Train();
  StartMaster(2, History::kCopy);
  Step(StopRequested{.why = "asked", .grace = Duration::Seconds(30), .exit_code = 143});
  ASSERT_EQ(job_->state().phase, Phase::kStopping);
  Register(Trains(GenerationOf(1, 90)));
  for (const Record& record : journal_) {
    EXPECT_FALSE(std::holds_alternative<RecoveryDecided>(record.fact)) << Sentence(record);
  }
  EXPECT_EQ(told_.kind, Assignment::Kind::kLeave);
}

// The former master formed world 90 elsewhere, and no node that this master hears knows it.
TEST_F(TermsTest, AWorldWhoseStepsStorageRefusesIsEnded) {
  StartMaster(1, History::kOwn);
  Register(Fresh());
  Train();
  const CheckpointNotStored refused{.saved = {.generation = world().value(), .step = 20},
                                    .directory = "/ck",
                                    .reason = "step-9-g90 is newer than step-20-g1",
                                    .generation = world()};
  journal_.push_back({.seq = job_->state().last_seq.next(), .at = now_, .fact = refused});
  StartMaster(2, History::kCopy);
  Register(Trains(GenerationOf(1, 1)));
  const auto report = [&](std::string job_id) {
    CheckpointReport seen;
    seen.generation = world();
    seen.stored = {.name = "step-9-g90",
                   .job_id = std::move(job_id),
                   .saved = {.generation = GenerationOf(1, 90).value(), .step = 9},
                   .world_size = 1};
    Step(CheckpointReported{NodeId(1), ConnectionId(connections_), std::move(seen)});
  };
  report("another job");
  EXPECT_EQ(world(), GenerationOf(1, 1));
  report("terms");
  ASSERT_TRUE(job_->state().world.has_value());
  EXPECT_EQ(TermOf(world()), 2U);
  EXPECT_EQ(job_->state().budget.charged_failures, 0U);
}

TEST_F(TermsTest, WorldsAreNumberedOnWhereNobodyKnowsThePast) {
  StartMaster(2, History::kNone);
  Register(Trains(GenerationOf(1, 6)));
  EXPECT_EQ(world(), GenerationOf(2, 7));
  EXPECT_EQ(job_->state().restart_count, 0U);
}

// The node may have a step in memory that its first report tells of.
TEST_F(TermsTest, AMasterWithoutAPastHearsTheNodesBeforeItEnds) {
  StartMaster(2, History::kNone);
  Register(Trains(GenerationOf(1, 6)));
  Step(StopRequested{.why = "SIGTERM", .grace = Duration::Seconds(30), .exit_code = 143});
  EXPECT_TRUE(order_.is_ending);
  EXPECT_FALSE(order_.is_over);
  CheckpointReport last;
  last.place = "node0";
  last.is_final = true;
  Step(CheckpointReported{NodeId(1), ConnectionId(connections_), last});
  Step(TimePassed{});
  EXPECT_TRUE(order_.is_over) << "it has no images";
}

TEST_F(TermsTest, AMasterWithoutAPastAndAWorldSaysWhatItCouldNotStore) {
  spec_.nodes_min = spec_.nodes_max = 2;
  StartMaster(2, History::kNone);
  Register(Fresh());
  ASSERT_FALSE(job_->state().AnyWorldYet());
  Step(StopRequested{.why = "SIGTERM", .grace = Duration::Seconds(30), .exit_code = 143});
  EXPECT_FALSE(order_.problem.empty()) << "the agent keeps its images";
  now_ += Duration::Seconds(60);
  Step(TimePassed{});
  ASSERT_EQ(job_->state().phase, Phase::kFinished);
  EXPECT_NE(job_->state().final_reason.find("may not be in storage"), std::string::npos)
      << job_->state().final_reason;
}

TEST_F(TermsTest, AnOldMasterJudgesNobodyOfANewerOne) {
  StartMaster(1, History::kOwn);
  Register(Fresh());
  const size_t records = journal_.size();
  Register(Trains(GenerationOf(2, 3)));
  ASSERT_TRUE(refused_.has_value());
  EXPECT_EQ(refused_->code, "PL-E111");
  EXPECT_TRUE(refused_->retry) << "it shall ask again, and find the newer master";
  EXPECT_EQ(journal_.size(), records);
}

TEST_F(TermsTest, ALowerTermIsIgnored) {
  StartMaster(2, History::kOwn);
  StartMaster(1, History::kOwn);
  EXPECT_EQ(job_->state().term, 2U);
}

TEST_F(TermsTest, TheMasterSaysWhatItKnowsOfThePast) {
  StartMaster(1, History::kOwn);
  EXPECT_EQ(Sentence(journal_.back()), "a master took over");
  StartMaster(2, History::kCopy);
  EXPECT_EQ(Sentence(journal_.back()),
            "a master took over, the job's 2nd: a node had a copy of the journal, and records up "
            "to here are complete");
  StartMaster(12, History::kNone);
  EXPECT_EQ(Sentence(journal_.back()),
            "a master took over, the job's 12th: no node had a copy of the journal, so what "
            "happened before is not known");
}

TEST_F(TermsTest, BudgetsDoNotRefillWhenAllCopiesAreLost) {
  StartMaster(1, History::kOwn);
  Register(Fresh());
  Train();
  NodeReport failed = Trains(world());
  failed.ranks[0].state = RankReport::State::kExited;
  failed.ranks[0].step = 7;
  failed.ranks[0].exit = {.kind = ExitCause::Kind::kExited, .code = 3};
  Step(RankExited{NodeId(1), ConnectionId(connections_), failed.ranks[0]});
  const Memo memo = MemoOf(job_->state());
  EXPECT_EQ(memo.charged_failures, 1u);
  EXPECT_EQ(memo.last_fingerprint, "exit 3");
  EXPECT_FALSE(memo.exit_code.has_value());

  journal_.clear();
  StartMaster(2, History::kNone, memo);
  EXPECT_EQ(MemoOf(job_->state()), memo);
  EXPECT_EQ(job_->state().phase, Phase::kWaiting);
  EXPECT_EQ(job_->state().budget.failures_without_progress, 1u);
  Register(Fresh());
  EXPECT_GT(WorldNumber(world()), memo.worlds) << "worlds are counted over all terms";

  journal_.clear();
  StartMaster(3, History::kOwn, memo);
  EXPECT_EQ(job_->state().budget.charged_failures, 0u) << "its journal knows better";
}

TEST_F(TermsTest, AnEndedJobStaysEndedWhenAllCopiesAreLost) {
  StartMaster(1, History::kOwn);
  Memo memo{.exit_code = 1, .final_reason = "your script fails"};
  journal_.clear();
  StartMaster(2, History::kNone, memo);
  EXPECT_EQ(job_->state().phase, Phase::kFinished);
  EXPECT_EQ(job_->state().exit_code, 1);
  EXPECT_EQ(MemoOf(job_->state()).exit_code, 1);
}

}  // namespace
}  // namespace paceline::core

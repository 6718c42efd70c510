#include "paceline/core/finish.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/checkpoint/storage_wait.h"
#include "paceline/core/job.h"
#include "paceline/core/turn.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

// One node with one rank, which has saved step 5 in memory only. The test plays its agent.
class FinishTest : public ::testing::Test {
 protected:
  FinishTest() {
    JobSpec spec;
    spec.job_id = "ends";
    spec.max_restarts = 0;
    job_.Step(now_, JobSubmitted{spec});
    job_.Step(now_, MasterStarted{1});
    job_.Step(now_, NodeRegistered{kConnection, TestReport("n1")});
    EXPECT_EQ(job_.state().phase, Phase::kStarting);
    report_.generation = Generation(1);
    report_.terms = CheckpointTerms{.directory = "/d", .keep = 2, .policy = {}};
    report_.place = "n1";
    Report();
    report_.images.push_back({.rank = Rank(0),
                              .place = "n1",
                              .saved = {1, 5},
                              .world_size = 1,
                              .file_bytes = 100,
                              .file_root = 7});
    Report();
  }

  void Report() {
    Take(job_.Step(now_, CheckpointReported{NodeId(1), connection_, report_}));
    Pass(Duration::Milliseconds(100));
  }

  // The node sends heartbeats all the time.
  void Pass(Duration time) {
    for (const Instant end = now_ + time; now_ < end; now_ += Duration::Milliseconds(100)) {
      Take(job_.Step(now_, NodeReported{.node = NodeId(1), .connection = connection_}));
      Take(job_.Step(now_, TimePassed{}));
    }
  }

  // The rank ends well, and storage refuses its step until the job ends without it.
  void EndWithoutStorage() {
    EndRank(0);
    ASSERT_TRUE(order_.persist.has_value());
    for (int minute = 0; minute < 11; ++minute) {
      report_.shards = {{Rank(0), {1, 5}, false, "no room", {}}};
      Report();
      report_.shards.clear();
      Report();
      Pass(Duration::Seconds(60));
    }
    ASSERT_EQ(job_.state().phase, Phase::kFinished);
    ASSERT_EQ(job_.state().exit_code, kExitNotStored);
  }

  // A new master, and a new agent that knows no more than what its host has in memory.
  void Resume(std::vector<MemoryImage> images) {
    Take(job_.Step(now_, MasterStarted{2, /*resumes=*/true}));
    connection_ = ConnectionId(2);
    order_ = {};
    Take(job_.Step(now_, NodeRegistered{connection_, TestReport("n1")}));
    report_ = {};
    report_.place = "n1";
    report_.images = std::move(images);
    if (!report_.images.empty()) Report();
  }

  void EndRank(int code = 1) {
    RankReport rank{.generation = Generation(1), .rank = Rank(0), .pid = 9};
    rank.state = RankReport::State::kExited;
    rank.exit.kind = ExitCause::Kind::kExited;
    rank.exit.code = code;
    if (code != 0) rank.exit.fingerprint = rank.exit.headline = "ValueError: bad batch";
    Take(job_.Step(now_, RankExited{NodeId(1), connection_, rank}));
    report_.is_final = true;
    Report();
  }

  void Take(const Actions& actions) {
    for (const Record& record : actions.records) {
      if (const auto* began = std::get_if<WaitBegan>(&record.fact)) waits_.push_back(began->reason);
    }
    for (const Effect& effect : actions.effects) {
      const auto* told = std::get_if<OrderCheckpoint>(&effect);
      if (told != nullptr) order_ = told->order;
    }
  }

  static constexpr ConnectionId kConnection{1};
  ConnectionId connection_ = kConnection;
  Job job_;
  Instant now_ = Instant::FromNanoseconds(1'000'000'000);
  CheckpointReport report_;
  CheckpointOrder order_;
  std::vector<std::string> waits_;
};

TEST_F(FinishTest, AJobThatFailsWaitsAsLongAsStorageTakesAndSaysSoOnce) {
  EndRank();
  ASSERT_EQ(job_.state().phase, Phase::kStopping);
  ASSERT_TRUE(order_.persist.has_value());
  Pass(kFinishPatience - Duration::Seconds(1));
  EXPECT_TRUE(waits_.empty());
  Pass(Duration::Seconds(60));
  EXPECT_EQ(job_.state().phase, Phase::kStopping);
  ASSERT_EQ(waits_.size(), 1u);
  EXPECT_NE(waits_[0].find("a second stop ends the job"), std::string::npos);
  report_.shards = {{Rank(0), {1, 5}, true, "", {}}};
  Report();
  ASSERT_TRUE(order_.commit.has_value());
  report_.commit = CommitState{order_.commit->name, true, "", 100};
  Report();
  EXPECT_TRUE(order_.is_over);
  EXPECT_EQ(job_.state().phase, Phase::kFinished);
  EXPECT_EQ(job_.state().exit_code, 1);
  EXPECT_EQ(job_.state().checkpoints.committed->saved.step, 5);
}

TEST_F(FinishTest, AStopThatIsAskedForDoesNot) {
  EndRank();
  Pass(kFinishPatience + Duration::Seconds(5));
  ASSERT_EQ(job_.state().phase, Phase::kStopping);
  job_.Step(now_, StopRequested{.why = "asked", .grace = {}, .exit_code = 130});
  Pass(kFinishPatience + Duration::Seconds(1));
  EXPECT_EQ(job_.state().phase, Phase::kFinished);
  EXPECT_EQ(
      job_.state().final_reason,
      "failure 1 is more than --max-restarts 0 allows: ValueError: bad batch on n1; step 5 is "
      "not in storage: the job ended before it was written");
  EXPECT_FALSE(order_.is_over) << "its memory is all that there is";
}

TEST_F(FinishTest, AJobThatOnlyLacksItsLastStepInStorageIsResumedWithoutRanks) {
  EndWithoutStorage();
  Resume(report_.images);
  ASSERT_EQ(job_.state().phase, Phase::kStopping) << job_.Pending();
  EXPECT_EQ(job_.state().last_world.generation, Generation(1)) << "no world is formed for it";
  report_.is_final = true;
  Report();
  ASSERT_TRUE(order_.persist.has_value());
  ASSERT_TRUE(order_.terms.has_value());
  EXPECT_EQ(order_.terms->directory, "/d");
  EXPECT_EQ(order_.terms->keep, kKeepAll) << "the script's number is unknown";
  report_.shards = {{Rank(0), {1, 5}, true, "", {}}};
  Report();
  ASSERT_TRUE(order_.commit.has_value());
  report_.commit = CommitState{order_.commit->name, true, "", 100};
  Report();
  EXPECT_TRUE(order_.is_over);
  Pass(kFinishPatience + Duration::Seconds(1));  // this agent does not report that it leaves
  EXPECT_EQ(job_.state().phase, Phase::kFinished);
  EXPECT_EQ(job_.state().exit_code, 0);
  EXPECT_EQ(job_.state().checkpoints.committed->saved.step, 5);
}

// Its ranks make the lost steps again, from what storage has.
TEST_F(FinishTest, AJobWhoseLastStepIsGoneFromMemoryIsResumedWithAWorld) {
  EndWithoutStorage();
  Resume({});
  EXPECT_EQ(job_.state().phase, Phase::kWaiting);
  EXPECT_EQ(job_.Pending(), "looks for step 5 in the memory of its nodes");
  Pass(Duration::Seconds(4));
  EXPECT_EQ(job_.state().phase, Phase::kStarting);
}

// After a repair and --resume, users got the old verdict again.
TEST(Resume, AJobThatFailedOrWasStoppedGoesOnWithAFullBudget) {
  Job job;
  Instant now = Instant::FromNanoseconds(1'000'000'000);
  JobSpec spec;
  spec.job_id = "again";
  job.Step(now, JobSubmitted{spec});
  job.Step(now, MasterStarted{1});
  job.Step(now, NodeRegistered{ConnectionId(1), TestReport("n1")});
  job.Step(now, StopRequested{.why = "asked", .exit_code = 143});
  job.Step(now, NodeDisconnected{NodeId(1), ConnectionId(1)});
  for (int second = 0; second < 60; ++second) job.Step(now += Duration::Seconds(1), TimePassed{});
  ASSERT_EQ(job.state().phase, Phase::kFinished);
  const Actions same = job.Step(now, MasterStarted{2});
  EXPECT_EQ(job.state().phase, Phase::kFinished) << "a master that is restarted changes nothing";
  EXPECT_FALSE(same.effects.empty());
  job.Step(now, MasterStarted{3, /*resumes=*/true});
  EXPECT_EQ(job.state().phase, Phase::kWaiting);
  EXPECT_EQ(job.state().exit_code, 0);
  EXPECT_EQ(job.state().budget, BudgetState{});
  job.Step(now, NodeRegistered{ConnectionId(2), TestReport("n1")});
  job.Step(now += Duration::Milliseconds(1), TimePassed{});
  EXPECT_EQ(job.state().phase, Phase::kStarting) << job.Pending();
}

TEST_F(FinishTest, TheLastStepOutlivesWorldsWithoutStepsAndNewMasters) {
  const auto rank_at = [&](Generation generation, int64_t step) {
    RankReport rank{.generation = generation, .rank = Rank(0), .pid = 9};
    rank.state = RankReport::State::kRunning;
    rank.step = step;
    rank.step_count = std::max(int64_t{0}, step);
    NodeReported report{.node = NodeId(1), .connection = connection_};
    report.ranks = {rank};
    job_.Step(now_, report);
  };
  const auto stop = [&] {
    job_.Step(now_, StopRequested{.why = "asked", .exit_code = 143});
    job_.Step(now_, NodeDisconnected{NodeId(1), connection_});
    for (int second = 0; second < 60; ++second) {
      job_.Step(now_ += Duration::Seconds(1), TimePassed{});
    }
    ASSERT_EQ(job_.state().phase, Phase::kFinished);
  };
  rank_at(Generation(1), 0);
  rank_at(Generation(1), 428);
  EXPECT_EQ(job_.step(), 428);
  stop();
  EXPECT_EQ(job_.state().final_step, 428);
  Resume({});
  job_.Step(now_ += Duration::Milliseconds(1), TimePassed{});
  ASSERT_EQ(job_.state().phase, Phase::kStarting) << job_.Pending();
  EXPECT_EQ(job_.step(), 428);
  stop();
  EXPECT_EQ(job_.state().final_step, 428);
  Resume({});
  job_.Step(now_ += Duration::Milliseconds(1), TimePassed{});
  // Repeated steps are no progress.
  rank_at(job_.state().world->generation, 427);
  EXPECT_FALSE(job_.state().progress_in_world);
  rank_at(job_.state().world->generation, 429);
  EXPECT_TRUE(job_.state().progress_in_world);
}

TEST_F(FinishTest, TheSignalOfTheFirstRequestIsHandedOn) {
  constexpr int kSigint = 2;
  constexpr int kSigterm = 15;
  const Duration grace = Duration::Seconds(30);
  job_.Step(now_, StopRequested{.why = "Ctrl-C", .grace = grace, .signal = kSigint});
  const auto told = [&] { return DesiredAssignment(job_.state(), NodeId(1)); };
  EXPECT_EQ(told().signal, kSigint);
  EXPECT_EQ(told().grace, grace);
  job_.Step(now_, StopRequested{.why = "again", .grace = grace / 2, .signal = kSigterm});
  EXPECT_EQ(told().signal, kSigint);
  EXPECT_EQ(told().grace, grace / 2);
}

}  // namespace
}  // namespace paceline::core

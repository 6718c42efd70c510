#include "paceline/core/checkpoint/claim_machine.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::core {
namespace {

using Answer = ClaimMachine::Answer;

DirectoryClaim ClaimOf(const std::string& job, int64_t pid = 7, uint64_t beat = 0) {
  return {.job_id = job,
          .host = "h-" + job,
          .boot_id = "boot",
          .pid_space = 1,
          .pid = pid,
          .start_ticks = 5,
          .since = "2026-11-25T01:00:00Z",
          .beat = beat};
}

// The machine with a directory that it reads and writes at once.
class ClaimTest : public ::testing::Test {
 protected:
  void Step(const ClaimEvent& event) {
    for (const ClaimAction& action : machine_.Step(now_, event)) {
      if (std::holds_alternative<LookAtClaim>(action)) {
        const bool is_ours = there_.has_value() && there_->pid == 7 && there_->job_id == "ours";
        Step(ClaimLooked{there_, foreign_, is_ours ? WriterLife::kLives : life_, problem_});
      } else if (const auto* write = std::get_if<WriteClaim>(&action)) {
        ++writes_;
        const bool is_passed = there_ != write->over || rival_.has_value();
        if (rival_.has_value()) there_ = std::exchange(rival_, std::nullopt);
        if (!is_passed && problem_.empty() && refusal_.empty()) there_ = write->claim;
        Step(refusal_.empty() ? ClaimWritten{is_passed, problem_}
                              : ClaimWritten{false, refusal_, /*is_refused=*/true});
      } else if (const auto* remove = std::get_if<RemoveClaim>(&action)) {
        if (there_ == remove->claim) there_.reset();
      } else {
        said_.push_back(std::get<SayOfClaim>(action).text);
      }
    }
  }
  void Pass(Duration time) {
    const Instant end = now_ + time;
    while (machine_.NextDeadline() <= end) {
      now_ = std::max(now_, machine_.NextDeadline());
      Step(ClaimTimePassed{});
    }
    now_ = end;
  }

  ClaimMachine machine_{ClaimOf("ours")};
  Instant now_ = Instant::FromNanoseconds(1);
  std::optional<DirectoryClaim> there_;
  std::optional<DirectoryClaim> rival_;  // writes first at the next write
  WriterLife life_ = WriterLife::kNotSeen;
  std::vector<ForeignCheckpoint> foreign_;
  std::string problem_;
  std::string refusal_;  // the error of each write; reads succeed
  int writes_ = 0;
  std::vector<std::string> said_;
};

// Of two masters of one job, the newer one has the directory.
TEST_F(ClaimTest, ANewerMastersTermIsClaimedAtOnce) {
  there_ = ClaimOf("ours", 8, 3);
  Step(ClaimWanted{});
  EXPECT_EQ(writes_, 0) << "another agent of the job renews it";
  Step(TermKnown{2});
  EXPECT_EQ(writes_, 1);
  EXPECT_EQ(there_->term, 2u);
  EXPECT_EQ(there_->pid, 7);
  Step(TermKnown{1});
  Pass(Duration::Seconds(6));
  EXPECT_EQ(there_->term, 2u) << "terms do not go back";
}

TEST_F(ClaimTest, AClaimForANewerMasterIsLeftAlone) {
  Step(ClaimWanted{});
  const int writes = writes_;
  there_ = ClaimOf("ours", 8, 1);
  there_->term = 2;
  Pass(Duration::Seconds(60));
  EXPECT_EQ(writes_, writes);
  EXPECT_EQ(there_->term, 2u);
  EXPECT_EQ(machine_.answer(), Answer::kYes) << "ranks save to memory; writes are refused";
  EXPECT_EQ(machine_.lost_to(), "") << "it has it again when it has met that master";
  Step(TermKnown{2});
  Pass(Duration::Seconds(20));
  EXPECT_EQ(there_->pid, 7) << "the other agent was silent";
}

TEST_F(ClaimTest, ADirectoryWithoutAClaimIsOursAtOnceAndRenewed) {
  EXPECT_EQ(machine_.answer(), Answer::kWait);
  Step(ClaimWanted{});
  EXPECT_EQ(machine_.answer(), Answer::kYes);
  EXPECT_EQ(there_->job_id, "ours");
  Pass(Duration::Seconds(21));
  EXPECT_EQ(writes_, 5);
  EXPECT_EQ(there_->beat, 5u);
  Step(ClaimReleased{});
  EXPECT_FALSE(there_.has_value());
  EXPECT_TRUE(machine_.NextDeadline().is_max());
}

TEST_F(ClaimTest, AJobOfThisHostThatLivesIsTheErrorAndOneThatEndedIsNot) {
  there_ = ClaimOf("theirs", 9);
  life_ = WriterLife::kLives;
  Step(ClaimWanted{});
  EXPECT_EQ(machine_.answer(), Answer::kNo);
  EXPECT_EQ(machine_.other()->pid, 9);
  life_ = WriterLife::kGone;
  Step(ClaimWanted{});  // another rank, later
  EXPECT_EQ(machine_.answer(), Answer::kYes);
  EXPECT_EQ(there_->job_id, "ours");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(said_[0],
            "takes over from job theirs (process 9 on h-theirs, since 2026-11-25T01:00:00Z), which "
            "has ended");
}

TEST_F(ClaimTest, AJobOfAnotherHostThatIsSilentIsWatched) {
  there_ = ClaimOf("theirs", 9);
  Step(ClaimWanted{});
  Pass(Duration::Seconds(29));
  EXPECT_EQ(machine_.answer(), Answer::kWait);
  EXPECT_NE(machine_.WaitsFor().find("job theirs"), std::string::npos);
  Pass(Duration::Seconds(2));
  EXPECT_EQ(machine_.answer(), Answer::kYes);
  EXPECT_EQ(there_->job_id, "ours");
  EXPECT_EQ(said_.size(), 1u);
}

TEST_F(ClaimTest, AJobOfAnotherHostThatRenewsItsClaimIsTheError) {
  there_ = ClaimOf("theirs", 9, 4);
  Step(ClaimWanted{});
  Pass(Duration::Seconds(4));
  there_->beat = 5;
  Pass(Duration::Seconds(2));
  EXPECT_EQ(machine_.answer(), Answer::kNo);
  EXPECT_TRUE(machine_.NextDeadline().is_max());
}

TEST_F(ClaimTest, TimeInWhichStorageWasAwayDoesNotCount) {
  there_ = ClaimOf("theirs", 9);
  Step(ClaimWanted{});
  Pass(Duration::Seconds(20));
  problem_ = "away";
  Pass(Duration::Seconds(60));
  problem_.clear();
  Pass(Duration::Seconds(20));
  EXPECT_EQ(there_->job_id, "theirs");
  Pass(Duration::Seconds(17));
  EXPECT_EQ(there_->job_id, "ours");
}

TEST_F(ClaimTest, StorageThatIsAwayKeepsNobodyFromTraining) {
  problem_ = "away";
  Step(ClaimWanted{});
  EXPECT_EQ(machine_.answer(), Answer::kYes);
  there_ = ClaimOf("theirs", 9);
  life_ = WriterLife::kLives;
  problem_.clear();
  Pass(Duration::Seconds(6));
  EXPECT_EQ(machine_.answer(), Answer::kYes);
  EXPECT_EQ(there_->job_id, "theirs");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("this job keeps training and saves to memory"), std::string::npos);
}

TEST_F(ClaimTest, StorageThatRefusesWritesIsToldOnceForEachReasonAndKeepsNobodyFromTraining) {
  refusal_ = "AccessDenied";
  Step(ClaimWanted{});
  EXPECT_EQ(machine_.answer(), Answer::kYes);
  Pass(Duration::Seconds(60));
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("storage refuses writes: AccessDenied"), std::string::npos);
  for (const char* refusal : {"cannot write .claim.new-17", "cannot write .claim.new-5871904995"}) {
    refusal_ = refusal;
    Pass(Duration::Seconds(60));
    EXPECT_EQ(said_.size(), 2u) << "it differs only in the temporary file's number";
  }
  refusal_.clear();
  Pass(Duration::Seconds(6));
  EXPECT_EQ(there_->job_id, "ours");
  refusal_ = "No space left";
  Pass(Duration::Seconds(60));
  EXPECT_EQ(said_.size(), 3u) << "it took writes meanwhile";
}

TEST_F(ClaimTest, StorageThatSaysNothingHoldsARankUpForTwoSeconds) {
  EXPECT_EQ(machine_.Step(now_, ClaimWanted{}).size(), 1u);  // storage never answers it
  EXPECT_EQ(machine_.answer(), Answer::kWait);
  now_ = machine_.NextDeadline();
  EXPECT_TRUE(machine_.Step(now_, ClaimTimePassed{}).empty());
  EXPECT_EQ(machine_.answer(), Answer::kYes);
}

TEST_F(ClaimTest, AWriterWhoseClaimIsTakenTrainsOnAndLeavesTheOtherAlone) {
  Step(ClaimWanted{});
  there_ = ClaimOf("theirs", 9);
  Pass(Duration::Seconds(6));
  EXPECT_EQ(machine_.answer(), Answer::kYes);
  EXPECT_EQ(said_.size(), 1u);
  const int writes = writes_;
  Pass(Duration::Seconds(60));
  Step(ClaimReleased{});
  EXPECT_EQ(there_->job_id, "theirs");
  EXPECT_EQ(writes_, writes);
}

TEST_F(ClaimTest, ADirectoryThatWasDeletedIsClaimedAnewAndToldOnce) {
  Step(ClaimWanted{});
  there_.reset();
  Pass(Duration::Seconds(20));
  EXPECT_EQ(there_->job_id, "ours");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("training goes on from memory"), std::string::npos);
}

TEST_F(ClaimTest, OfTwoThatComeTogetherOneHasIt) {
  rival_ = ClaimOf("theirs", 9);
  life_ = WriterLife::kLives;
  Step(ClaimWanted{});
  EXPECT_EQ(machine_.answer(), Answer::kNo);
  EXPECT_EQ(there_->job_id, "theirs");
}

TEST_F(ClaimTest, AnotherAgentOfTheJobStandsInWhenTheFirstIsSilent) {
  there_ = ClaimOf("ours", 8, 3);
  Step(ClaimWanted{});
  EXPECT_EQ(machine_.answer(), Answer::kYes);
  Pass(Duration::Seconds(8));
  there_->beat = 4;
  Pass(Duration::Seconds(12));
  EXPECT_EQ(there_->pid, 8);
  Pass(Duration::Seconds(12));
  EXPECT_EQ(there_->pid, 7);
}

TEST_F(ClaimTest, AnAgentThatIsStartedAgainRenewsAtOnce) {
  there_ = ClaimOf("ours", 8, 3);
  life_ = WriterLife::kGone;
  Step(ClaimWanted{});
  EXPECT_EQ(there_->pid, 7);
}

TEST_F(ClaimTest, ADirectoryThatAnotherJobHasTakenStaysLostWhenThatJobHasEnded) {
  Step(ClaimWanted{});
  there_ = ClaimOf("theirs", 9);
  Pass(Duration::Seconds(6));
  EXPECT_EQ(machine_.lost_to(), "job theirs (process 9 on h-theirs, since 2026-11-25T01:00:00Z)");
  there_.reset();
  Pass(Duration::Seconds(60));
  Step(ClaimReleased{});
  Step(ClaimWanted{});
  EXPECT_EQ(machine_.answer(), Answer::kYes) << "ranks train on, from memory";
  EXPECT_NE(machine_.lost_to(), "");
  EXPECT_FALSE(there_.has_value());
}

// The directory was moved away, and another job has run at its path meanwhile.
TEST_F(ClaimTest, CheckpointsOfAnotherJobBesideNoClaimLoseTheDirectory) {
  foreign_ = {{"step-4-g1", "older"}};  // was there before: retention may remove it
  Step(ClaimWanted{});
  there_.reset();
  Step(ClaimMissed{});
  EXPECT_EQ(machine_.lost_to(), "");
  EXPECT_EQ(there_->job_id, "ours");
  there_.reset();
  foreign_ = {{"step-4-g1", "younger"}};
  Step(ClaimMissed{});
  EXPECT_EQ(machine_.lost_to(), "job younger");
  EXPECT_FALSE(there_.has_value());
}

TEST_F(ClaimTest, AWriteThatFindsAnotherClaimLosesTheDirectoryAtOnce) {
  Step(ClaimWanted{});
  EXPECT_EQ(machine_.lost_to(), "");
  Step(ClaimTaken{"job theirs (process 9 on h)"});
  Step(ClaimTaken{"job theirs (process 9 on h)"});
  EXPECT_EQ(machine_.lost_to(), "job theirs (process 9 on h)");
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("this job keeps training and saves to memory"), std::string::npos);
}

TEST_F(ClaimTest, AClaimThatWasReleasedIsTakenAgain) {
  Step(ClaimWanted{});
  Step(ClaimReleased{});
  Step(ClaimWanted{});
  EXPECT_EQ(machine_.answer(), Answer::kYes);
  EXPECT_EQ(there_->job_id, "ours");
}

}  // namespace
}  // namespace paceline::core

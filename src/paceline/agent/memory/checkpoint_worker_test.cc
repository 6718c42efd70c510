#include "paceline/agent/memory/checkpoint_worker.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <future>
#include <memory>
#include <string>
#include <variant>

#include "paceline/ckpt/storage/directory_claim.h"
#include "paceline/ckpt/storage/saved_ranks.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::agent {
namespace {

constexpr char kName[] = "step-7-g1";

// An image that is on the node's disk already, as every image for remote storage is.
class CheckpointWorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& path : {tier_path_, storage_})
      ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    ckpt::SavedRanks ranks;
    ranks.Save(0, 7, 0, 10);
    ASSERT_TRUE(ranks.Write(ckpt::MakePosixStore(tier_path_).get(), 0, 7, 0).ok());
  }

  std::string ProblemOfSend(uint64_t term) {
    std::promise<std::string> problem;
    CheckpointWorker worker(
        [&problem](const CheckpointDone& done) {
          problem.set_value(std::get<ShardDone>(done).problem);
        },
        {}, &tier_);
    worker.Add(ShardTask{
        .directory = storage_,
        .place = {.name = kName, .job_id = "job", .saved = {1, 7}, .rank = 0, .file_of = 0},
        .claim = nullptr,
        .term = term});
    return problem.get_future().get();
  }
  bool HasShard() const { return *store_->Has(std::string(kName) + "/shard-00000.safetensors"); }
  void Claim(const std::string& job_id, uint64_t term) {
    DirectoryClaim claim;
    claim.job_id = job_id;
    claim.term = term;
    ASSERT_TRUE(ckpt::WriteClaim(store_.get(), std::nullopt, claim).ok());
  }

  const TestDir dir_;
  const std::string tier_path_ = dir_.path() + "/tier";
  const std::string storage_ = dir_.path() + "/storage";
  const std::unique_ptr<ckpt::Store> store_ = ckpt::MakePosixStore(storage_);
  LocalTier tier_{tier_path_, "n", "job"};
};

TEST_F(CheckpointWorkerTest, AnImageOnDiskGoesToTheJobsOwnDirectory) {
  Claim("job", 3);
  EXPECT_EQ(ProblemOfSend(3), "");
  EXPECT_TRUE(HasShard());
}

TEST_F(CheckpointWorkerTest, AnImageOnDiskIsNotSentToTheDirectoryOfAnotherJob) {
  Claim("other", 1);
  EXPECT_TRUE(ProblemOfSend(1).starts_with(kRefusedForGood));
  EXPECT_FALSE(HasShard());
}

TEST_F(CheckpointWorkerTest, AnImageOnDiskIsNotSentForAnEarlierMaster) {
  Claim("job", 4);
  EXPECT_NE(ProblemOfSend(3), "");
  EXPECT_FALSE(HasShard());
}

}  // namespace
}  // namespace paceline::agent

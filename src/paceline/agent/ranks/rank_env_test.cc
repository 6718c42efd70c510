#include "paceline/agent/ranks/rank_env.h"

#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

Environment Make(const LaunchSpec& launch, const Environment& base) {
  JobSpec job;
  job.job_id = "job-1";
  Assignment assignment;
  assignment.seat = 1;
  assignment.seat_count = 3;
  assignment.first_rank = 2;
  assignment.rank_count = 2;
  assignment.world_size = 6;
  assignment.restart_count = 4;
  assignment.store = {"10.0.0.1", 29512};
  return RankEnvironment({.job = job,
                          .launch = launch,
                          .assignment = assignment,
                          .node = "node1",
                          .run_dir = "/runs/x",
                          .rank = Rank(3),
                          .local_rank = 1,
                          .torch_error_file = "/runs/x/e.json"},
                         base);
}

TEST(RankEnvTest, GivesWhatTorchrunsAgentGives) {
  LaunchSpec launch;
  launch.nproc_per_node = 2;
  launch.run_id = "run-7";
  const Environment env = Make(launch, {{"HOME", "/root"}});
  const Environment wanted = {{"RANK", "3"},
                              {"LOCAL_RANK", "1"},
                              {"GROUP_RANK", "1"},
                              {"ROLE_RANK", "3"},
                              {"ROLE_NAME", "default"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"WORLD_SIZE", "6"},
                              {"GROUP_WORLD_SIZE", "3"},
                              {"ROLE_WORLD_SIZE", "6"},
                              {"MASTER_ADDR", "10.0.0.1"},
                              {"MASTER_PORT", "29512"},
                              {"TORCHELASTIC_RESTART_COUNT", "4"},
                              {"TORCHELASTIC_MAX_RESTARTS", "0"},
                              {"TORCHELASTIC_RUN_ID", "run-7"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                              {"TORCHELASTIC_ERROR_FILE", "/runs/x/e.json"},
                              {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                              {"OMP_NUM_THREADS", "1"},
                              {"PACELINE_JOB_ID", "job-1"},
                              {"PACELINE_NODE", "node1"},
                              {"PACELINE_RUN_DIR", "/runs/x"},
                              {"HOME", "/root"}};
  EXPECT_EQ(env, wanted);
}

TEST(RankEnvTest, ShowsTheMasterPortThatWasAskedForAndTellsTheStore) {
  LaunchSpec launch;
  launch.master_port = 29'779;
  const Environment env = Make(launch, {});
  EXPECT_EQ(env.at("MASTER_PORT"), "29779");
  EXPECT_EQ(env.at("PACELINE_STORE"), "29779 10.0.0.1 29512");
  launch.entry = EntryKind::kExec;
  EXPECT_EQ(Make(launch, {}).at("MASTER_PORT"), "29512");
  EXPECT_FALSE(Make(LaunchSpec{}, {{"PACELINE_STORE", "1 h 2"}}).contains("PACELINE_STORE"));
}

TEST(RankEnvTest, KeepsTheUsersThreadsAndErrorHandling) {
  LaunchSpec launch;
  launch.nproc_per_node = 2;
  const Environment env =
      Make(launch, {{"OMP_NUM_THREADS", "8"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}});
  EXPECT_EQ(env.at("OMP_NUM_THREADS"), "8");
  EXPECT_EQ(env.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "3");
}

TEST(RankEnvTest, OneRankANodeKeepsAllCores) {
  EXPECT_FALSE(Make(LaunchSpec{}, {}).contains("OMP_NUM_THREADS"));
}

TEST(RankEnvTest, VirtualRanksSeeOneDeviceEach) {
  LaunchSpec launch;
  launch.virtual_local_rank = true;
  EXPECT_EQ(Make(launch, {}).at("LOCAL_RANK"), "0");
  EXPECT_EQ(Make(launch, {}).at("CUDA_VISIBLE_DEVICES"), "1");
  EXPECT_EQ(Make(launch, {{"CUDA_VISIBLE_DEVICES", "4, 6"}}).at("CUDA_VISIBLE_DEVICES"), "6");
}

TEST(RankEnvTest, ArgumentsNameTheirLocalRank) {
  EXPECT_EQ(SubstituteLocalRank("--dev=${local_rank}", 3), "--dev=3");
  EXPECT_EQ(SubstituteLocalRank("$local_rank/$local_ranks/$$x", 3), "3/$local_ranks/$x");
  EXPECT_EQ(SubstituteLocalRank("plain", 3), "plain");
}

}  // namespace
}  // namespace paceline::agent

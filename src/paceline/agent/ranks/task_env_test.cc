#include "paceline/agent/ranks/task_env.h"

#include "gtest/gtest.h"

namespace paceline::agent {
namespace {

std::vector<Task> Cluster() {
  std::vector<Task> cluster;
  uint32_t port = 1000;
  for (const Rank rank : TaskRanks({.workers = 2, .servers = 2, .evaluators = 1})) {
    cluster.push_back({.rank = rank, .host = port == 1002 ? "::1" : "10.0.0.1", .port = port});
    ++port;
  }
  return cluster;
}

TEST(TaskEnvTest, TfConfigHasAllAddressesAndTheTask) {
  EXPECT_EQ(TfConfig(Cluster(), TaskRank(TaskKind::kPs, 1)),
            R"({"cluster":{"chief":["10.0.0.1:1000"],"worker":["10.0.0.1:1001"],)"
            R"("ps":["[::1]:1002","10.0.0.1:1003"]},"task":{"type":"ps","index":1}})");
}

TEST(TaskEnvTest, TheEvaluatorIsOutsideTheCluster) {
  const std::string config = TfConfig(Cluster(), TaskRank(TaskKind::kEvaluator, 0));
  EXPECT_EQ(config.find("1004"), std::string::npos);
  EXPECT_NE(config.find(R"("task":{"type":"evaluator","index":0})"), std::string::npos);
}

TEST(TaskEnvTest, ATaskSeesNothingOfAWorld) {
  Assignment assignment;
  assignment.cluster = Cluster();
  assignment.restart_count = 2;
  const LaunchSpec launch{.nproc_per_node = 5};
  const RankPlace place{.job = {.job_id = "j"},
                        .launch = launch,
                        .assignment = assignment,
                        .node = "node0",
                        .run_dir = "/runs/j",
                        .rank = TaskRank(TaskKind::kWorker, 0),
                        .torch_error_file = "/e"};
  const Environment env = TaskEnvironment(place, {{"RANK", "3"}, {"PATH", "/bin"}});
  EXPECT_FALSE(env.contains("RANK"));
  EXPECT_FALSE(env.contains("OMP_NUM_THREADS"));
  EXPECT_EQ(env.at("PATH"), "/bin");
  EXPECT_EQ(env.at("PACELINE_TASK"), "worker-0");
  EXPECT_EQ(env.at("PACELINE_TASK_RESTARTS"), "2");
  EXPECT_TRUE(env.contains("TF_CONFIG"));
}

}  // namespace
}  // namespace paceline::agent

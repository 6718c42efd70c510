#include "paceline/core/tasks/tasks.h"

#include <map>
#include <set>
#include <string>

#include "gtest/gtest.h"

#include "paceline/core/finish.h"
#include "paceline/core/tasks/task_budget.h"
#include "paceline/core/test_times.h"
#include "paceline/core/testing/cluster.h"

namespace paceline::core {
namespace {

using testing::Cluster;

const Rank kChief = TaskRank(TaskKind::kChief, 0);
const Rank kWorker1 = TaskRank(TaskKind::kWorker, 1);
const Rank kPs0 = TaskRank(TaskKind::kPs, 0);

ExitCause Exit(int code, const std::string& text = "") {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kExited;
  cause.code = code;
  cause.headline = text;
  cause.fingerprint = text;
  return cause;
}

ExitCause Sigkill() {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kSignaled;
  cause.code = 9;
  return cause;
}

// A chief, two workers and two servers. The cluster checks after every step that the records alone
// give the state, and restarts the master from them.
class TasksTest : public ::testing::Test {
 protected:
  explicit TasksTest(uint32_t nodes = 1) : cluster_(SpecOf(nodes)), nodes_(nodes) {
    cluster_.training().steps = false;
    cluster_.StartMaster();
    for (uint32_t i = 0; i < nodes; ++i) {
      cluster_.StartNode("n" + std::to_string(i), cluster_.spec().nproc_per_node);
    }
    Run(2'000);
  }

  static JobSpec SpecOf(uint32_t nodes) {
    JobSpec spec;
    spec.job_id = "tasks";
    spec.tasks = {.workers = 3, .servers = 2};
    spec.nodes_min = spec.nodes_max = nodes;
    spec.nproc_per_node = (5 + nodes - 1) / nodes;
    return spec;
  }

  void Run(int64_t ms) { cluster_.RunUntil(cluster_.now() + Duration::Milliseconds(ms)); }

  const JobState& state() const { return cluster_.job().state(); }
  const Task& Of(Rank rank) const { return FindTask(state(), rank)->task; }
  std::string NodeOf(Rank rank) const { return state().NameOf(Of(rank).node); }
  void End(Rank rank, const ExitCause& cause) {
    cluster_.KillRank(NodeOf(rank), Of(rank).slot, cause);
  }
  std::map<Rank, Generation> Generations() const {
    std::map<Rank, Generation> generations;
    for (const TaskState& one : state().tasks) {
      generations[one.task.rank] = one.task.generation;
    }
    return generations;
  }
  std::map<Rank, std::string> Addresses() const {
    std::map<Rank, std::string> addresses;
    for (const TaskState& one : state().tasks) {
      addresses[one.task.rank] = one.task.host + ":" + std::to_string(one.task.port);
    }
    return addresses;
  }
  bool AllRun() const {
    return cluster_.LivingRanks() == 5 && cluster_.RankConflict().empty() &&
           cluster_.job().Pending() == "5 of 5 tasks run";
  }
  // Only this task has another process, and each one is where it was.
  void ExpectOnlyRestarted(Rank rank, const std::map<Rank, Generation>& before,
                           const std::map<Rank, std::string>& addresses) {
    EXPECT_TRUE(AllRun()) << cluster_.job().Pending();
    for (const auto& [other, generation] : Generations()) {
      EXPECT_EQ(generation == before.at(other), other != rank) << RankName(other);
    }
    EXPECT_EQ(Addresses(), addresses);
    EXPECT_EQ(Of(rank).restarts, 1u);
  }

  Cluster cluster_;
  uint32_t nodes_;
};

class SpreadTasksTest : public TasksTest {
 protected:
  SpreadTasksTest() : TasksTest(2) {}
};

TEST_F(TasksTest, EachHasAnAddressOfItsOwnBeforeTheFirstStarts) {
  EXPECT_TRUE(AllRun());
  EXPECT_EQ(state().phase, Phase::kTasks);
  std::set<std::string> addresses;
  for (const auto& [rank, address] : Addresses()) addresses.insert(address);
  EXPECT_EQ(addresses.size(), 5u);
  const Assignment order = *TaskAssignment(state(), Of(kChief).node);
  EXPECT_EQ(order.cluster.size(), 5u);
  EXPECT_EQ(order.tasks.size(), 5u);
}

TEST_F(TasksTest, ADeadTaskStartsAloneAtItsOldAddress) {
  for (const Rank rank : {kChief, kWorker1, kPs0}) {
    const auto before = Generations();
    const auto addresses = Addresses();
    End(rank, Sigkill());
    Run(1'000);
    ExpectOnlyRestarted(rank, before, addresses);
  }
}

TEST_F(TasksTest, TheMasterMayDieAtEveryRecordOfARestart) {
  const size_t records = cluster_.journal().size();
  for (size_t at = 1; at <= 3; ++at) {
    const auto addresses = Addresses();
    cluster_.CrashMasterAt(cluster_.journal().size() + at);
    End(kWorker1, Sigkill());
    Run(3'000);
    EXPECT_TRUE(AllRun()) << "the master died after record " << at << ": "
                          << cluster_.job().Pending();
    EXPECT_EQ(Addresses(), addresses);
    Run(60'000);  // a minute of quiet forgives different failures
  }
  EXPECT_EQ(Of(kWorker1).restarts, 3u);
  EXPECT_GT(cluster_.journal().size(), records);
}

TEST_F(TasksTest, AMasterThatWasAwayHearsOfTheDeath) {
  const auto before = Generations();
  const auto addresses = Addresses();
  cluster_.KillMaster();
  Run(200);
  cluster_.KillRank("n0", 4, Sigkill());  // ps-1
  Run(200);
  cluster_.StartMaster();
  Run(2'000);
  ExpectOnlyRestarted(TaskRank(TaskKind::kPs, 1), before, addresses);
}

TEST_F(TasksTest, AnAgentThatWasAwayDoesNotStartLivingTasksAgain) {
  const auto before = Generations();
  const auto addresses = Addresses();
  cluster_.KillAgent("n0", Duration::Milliseconds(300));
  Run(100);
  End(kWorker1, Sigkill());
  Run(3'000);
  ExpectOnlyRestarted(kWorker1, before, addresses);
}

TEST_F(TasksTest, TheJobEndsWhenChiefAndWorkersAreDone) {
  End(kWorker1, Exit(0));
  Run(1'000);
  EXPECT_TRUE(Of(kWorker1).is_done);
  EXPECT_EQ(cluster_.LivingRanks(), 4u);
  cluster_.KillMaster();
  Run(500);
  cluster_.StartMaster();
  Run(2'000);
  EXPECT_EQ(cluster_.LivingRanks(), 4u) << "a task that is done is not started again";
  End(kChief, Exit(0));
  Run(1'000);
  EXPECT_FALSE(cluster_.exit_code().has_value());
  End(TaskRank(TaskKind::kWorker, 0), Exit(0));
  Run(2'000);
  EXPECT_EQ(cluster_.exit_code(), 0);
  EXPECT_EQ(cluster_.LivingRanks(), 0u) << "the servers are stopped";
}

TEST_F(TasksTest, AServerThatReturnsStartsAgain) {
  const auto before = Generations();
  const auto addresses = Addresses();
  End(kPs0, Exit(0));
  Run(1'000);
  ExpectOnlyRestarted(kPs0, before, addresses);
}

TEST_F(TasksTest, ATaskThatFailsAlikeEachTimeEndsTheJobWithItsException) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(cluster_.exit_code().has_value());
    End(kWorker1, Exit(1, "ValueError: bad label (job.py:7)"));
    Run(2'000);
  }
  EXPECT_EQ(cluster_.exit_code(), 1);
  EXPECT_EQ(state().final_reason,
            "worker-1: ValueError: bad label (job.py:7) (3 times without progress)");
}

TEST_F(TasksTest, EachTaskHasABudgetOfItsOwn) {
  for (const Rank rank : {kChief, kWorker1, kPs0, TaskRank(TaskKind::kWorker, 0)}) {
    for (int i = 0; i < 2; ++i) {
      End(rank, Exit(1, "OSError: no route"));
      Run(3'000);
    }
  }
  EXPECT_TRUE(AllRun());
}

TEST_F(TasksTest, AcknowledgedSamplesForgiveKills) {
  for (uint64_t i = 1; i <= 20; ++i) {
    cluster_.Tell(LeasedWorkDone{.samples = 100 * i});
    End(kPs0, Sigkill());
    Run(5'000);
    ASSERT_TRUE(AllRun()) << "kill " << i << ": " << cluster_.job().Pending();
  }
  EXPECT_EQ(Of(kPs0).restarts, 20u);
}

TEST_F(TasksTest, WithoutThemFiveKillsEndTheJob) {
  cluster_.Tell(LeasedWorkDone{.samples = 100});
  for (int i = 0; i < 6 && !cluster_.exit_code().has_value(); ++i) {
    End(kPs0, Sigkill());
    Run(5'000);
  }
  EXPECT_EQ(cluster_.exit_code(), 1);
}

TEST_F(TasksTest, AcknowledgedSamplesOfOthersDoNotForgiveATaskThatFailsAlike) {
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_FALSE(cluster_.exit_code().has_value());
    cluster_.Tell(LeasedWorkDone{.samples = 100 * i});
    End(kWorker1, Exit(1, "ValueError: bad label (job.py:7)"));
    Run(2'000);
  }
  EXPECT_EQ(cluster_.exit_code(), 1);
}

TEST_F(TasksTest, AnAttemptOfTenMinutesForgivesEqualFailures) {
  for (int i = 0; i < 5; ++i) {
    End(kWorker1, Exit(1, "ValueError: rare"));
    Run(kQuietProgress.milliseconds() + 1'000);
  }
  EXPECT_TRUE(AllRun());
}

TEST_F(TasksTest, AStopEndsAllTasks) {
  cluster_.Tell(StopRequested{.why = "asked", .grace = Duration::Seconds(5), .exit_code = 130});
  Run(2'000);
  EXPECT_EQ(cluster_.exit_code(), 130);
  EXPECT_EQ(cluster_.LivingRanks(), 0u);
}

TEST_F(TasksTest, AJobOfTasksHasNoOtherSize) {
  EXPECT_EQ(cluster_.job().state().world, std::nullopt);
  EXPECT_NE(Job().WhyNotSize(1), "");
}

TEST_F(SpreadTasksTest, TasksSpreadOverTheNodes) {
  EXPECT_TRUE(AllRun());
  EXPECT_NE(NodeOf(TaskRank(TaskKind::kPs, 0)), NodeOf(TaskRank(TaskKind::kPs, 1)));
}

TEST_F(SpreadTasksTest, ALostNodeMeansAPlacementAnewForAll) {
  const auto before = Generations();
  cluster_.Vanish("n1", /*witness=*/true);
  Run(2'000);
  EXPECT_EQ(cluster_.LivingRanks(), 0u) << "the others cannot go on in a static cluster";
  EXPECT_TRUE(state().tasks.empty());
  EXPECT_FALSE(cluster_.exit_code().has_value());
  cluster_.StartNode("n1", 3);
  Run(3'000);
  EXPECT_TRUE(AllRun()) << cluster_.job().Pending();
  for (const auto& [rank, generation] : Generations()) {
    EXPECT_GT(generation, before.at(rank)) << RankName(rank);
  }
}

TEST_F(SpreadTasksTest, ARebootOfAHostIsTheLossOfItsNode) {
  const auto before = Generations();
  cluster_.Reboot("n0", Duration::Milliseconds(300));
  Run(5'000);
  EXPECT_TRUE(AllRun()) << cluster_.job().Pending();
  for (const auto& [rank, generation] : Generations()) {
    EXPECT_GT(generation, before.at(rank)) << RankName(rank);
  }
}

TEST_F(SpreadTasksTest, OnlyTheNodeOfARestartedTaskGetsAnOrder) {
  const NodeId other = Of(kWorker1).node == NodeId(1) ? NodeId(2) : NodeId(1);
  const Assignment before = *TaskAssignment(state(), other);
  End(kWorker1, Sigkill());
  Run(1'000);
  EXPECT_EQ(*TaskAssignment(state(), other), before);
}

}  // namespace
}  // namespace paceline::core

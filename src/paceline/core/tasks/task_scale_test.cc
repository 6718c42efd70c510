#include "paceline/core/tasks/task_scale.h"

#include <map>
#include <set>
#include <string>

#include "gtest/gtest.h"

#include "paceline/core/tasks/task_budget.h"
#include "paceline/core/testing/cluster.h"

namespace paceline::core {
namespace {

using testing::Cluster;

Rank PsRank(uint32_t number) { return TaskRank(TaskKind::kPs, number); }

// Two workers and two table servers on a node with eight slots. The cluster checks after every step
// that the records alone give the state.
class TaskScaleTest : public ::testing::Test {
 protected:
  explicit TaskScaleTest(uint32_t nodes = 1) : cluster_(ScaleSpec(nodes)) {
    cluster_.training().steps = false;
    cluster_.StartMaster();
    for (uint32_t i = 0; i < nodes; ++i) cluster_.StartNode("n" + std::to_string(i), 8);
    Run(2'000);
  }

  static JobSpec ScaleSpec(uint32_t nodes) {
    JobSpec spec;
    spec.job_id = "scaled";
    spec.tasks = {.workers = 2, .servers = 2, .tables = "/tables"};
    spec.nodes_min = spec.nodes_max = nodes;
    spec.nproc_per_node = 8;
    return spec;
  }

  void Run(int64_t ms) { cluster_.RunUntil(cluster_.now() + Duration::Milliseconds(ms)); }
  const JobState& state() const { return cluster_.job().state(); }
  std::string Names() const {
    std::string names;
    for (const TaskState& one : state().tasks) names += RankName(one.task.rank) + " ";
    return names;
  }
  void Ask(uint32_t workers, uint32_t servers) {
    cluster_.Tell(TasksRequested{.workers = workers, .servers = servers, .why = "a test"});
    Run(1'000);
  }
  // What the target of the next move reports.
  PartitionsTaken Report(uint32_t count) const {
    const RoutingNews news = NewsFor(state());
    EXPECT_TRUE(news.move.has_value());
    return {.id = news.id,
            .from = news.move->from,
            .to = news.move->to,
            .count = count,
            .from_generation = FindTask(state(), PsRank(news.move->from))->task.generation.value(),
            .to_generation = FindTask(state(), PsRank(news.move->to))->task.generation.value()};
  }
  void MoveAll() {
    while (const auto move = NewsFor(state()).move) {
      const uint64_t before = state().routing.version();
      cluster_.Tell(Report(static_cast<uint32_t>(move->partitions.size())));
      ASSERT_EQ(state().routing.version(), before + 1);
    }
    Run(1'000);
  }

  Cluster cluster_;
};

TEST_F(TaskScaleTest, NewServersStartAndTakePartitionsWhileTheOthersGoOn) {
  const Generation first = FindTask(state(), PsRank(0))->task.generation;
  EXPECT_FALSE(NewsFor(state()).move.has_value());
  Ask(3, 4);
  EXPECT_EQ(Names(), "worker-0 worker-1 worker-2 ps-0 ps-1 ps-2 ps-3 ");
  EXPECT_EQ(cluster_.LivingRanks(), 7u);
  EXPECT_EQ(FindTask(state(), PsRank(0))->task.generation, first);
  std::set<uint32_t> slots;
  for (const TaskState& one : state().tasks) slots.insert(one.task.slot);
  EXPECT_EQ(slots.size(), 7u);
  MoveAll();
  for (uint32_t server = 0; server < 4; ++server) {
    EXPECT_EQ(state().routing.CountOf(server), kTablePartitions / 4);
  }
}

TEST_F(TaskScaleTest, AServerEndsWhenItHasNoPartitionLeft) {
  Ask(2, 1);
  EXPECT_EQ(Names(), "worker-0 worker-1 ps-0 ps-1 ");
  EXPECT_EQ(NewsFor(state()).move->from, 1u);
  MoveAll();
  EXPECT_EQ(Names(), "worker-0 worker-1 ps-0 ");
  EXPECT_EQ(state().routing.CountOf(0), kTablePartitions);
  EXPECT_EQ(cluster_.LivingRanks(), 3u);
  Ask(1, 1);
  EXPECT_EQ(Names(), "worker-0 ps-0 ");
  EXPECT_EQ(cluster_.LivingRanks(), 2u);
}

TEST_F(TaskScaleTest, AReportOfAnotherMoveOrOfAnEarlierProcessChangesNothing) {
  Ask(2, 3);
  const PartitionsTaken right = Report(10);
  const uint64_t version = state().routing.version();
  PartitionsTaken wrong = right;
  for (uint64_t* const number : {&wrong.id, &wrong.from_generation, &wrong.to_generation}) {
    wrong = right;
    ++*number;
    cluster_.Tell(wrong);
  }
  wrong = right;
  wrong.count = kMovedAtOnceMax + 1;
  cluster_.Tell(wrong);
  wrong.count = 0;
  cluster_.Tell(wrong);
  wrong = right;
  std::swap(wrong.from, wrong.to);
  cluster_.Tell(wrong);
  EXPECT_EQ(state().routing.version(), version);
  cluster_.Tell(right);
  EXPECT_EQ(state().routing.version(), version + 1);
  cluster_.Tell(right);  // once more: it is of a move that has happened
  EXPECT_EQ(state().routing.version(), version + 1);
}

// It was made for a plan that was dropped and came back. The source may have applied pushes since.
TEST_F(TaskScaleTest, AReportFromBeforeAnotherRequestChangesNothing) {
  Ask(2, 3);
  const PartitionsTaken early = Report(10);
  Ask(2, 2);
  Ask(2, 3);
  ASSERT_EQ(NewsFor(state()).move->to, early.to);
  cluster_.Tell(early);
  EXPECT_EQ(state().routing.version(), 1u);
}

TEST_F(TaskScaleTest, PartitionsOfAnEarlierProcessOfTheSourceAreRefused) {
  Ask(2, 3);
  const PartitionsTaken early = Report(10);
  ExitCause killed;
  killed.kind = ExitCause::Kind::kSignaled;
  killed.code = 9;
  cluster_.KillRank("n0", FindTask(state(), PsRank(early.from))->task.slot, killed);
  Run(3'000);
  cluster_.Tell(early);
  EXPECT_EQ(state().routing.version(), 1u);
  MoveAll();
  EXPECT_EQ(state().routing.CountOf(2), kTablePartitions / 3);
}

TEST_F(TaskScaleTest, WhatIsRefused) {
  EXPECT_EQ(WhyNotTasks(state(), 3, 4), "");
  EXPECT_EQ(WhyNotTasks(state(), 2, 0), "its tables need a server");
  EXPECT_EQ(WhyNotTasks(state(), 0, 2), "it needs a worker");
  EXPECT_EQ(WhyNotTasks(state(), 5, 4),
            "it has 8 slots for tasks, and 5 workers and 4 servers need 9");
  Ask(5, 4);
  EXPECT_EQ(Names(), "worker-0 worker-1 ps-0 ps-1 ");
}

class TablesOnTwoNodesTest : public TaskScaleTest {
 protected:
  TablesOnTwoNodesTest() : TaskScaleTest(2) {}

  const Task& Of(Rank rank) const { return FindTask(state(), rank)->task; }
  std::string NodeOf(Rank rank) const { return state().NameOf(Of(rank).node); }
  // By name, of those on n0 or on n1.
  std::map<std::string, Generation> On(const std::string& node) const {
    std::map<std::string, Generation> generations;
    for (const TaskState& one : state().tasks) {
      if (state().NameOf(one.task.node) != node) continue;
      generations[RankName(one.task.rank)] = one.task.generation;
    }
    return generations;
  }
};

TEST_F(TablesOnTwoNodesTest, TheTasksOfALostNodeStartOnTheOtherWhileItsTasksGoOn) {
  const auto stays = On("n0");
  const auto goes = On("n1");
  ASSERT_EQ(stays.size(), 2u);
  ASSERT_EQ(goes.size(), 2u);
  cluster_.Vanish("n1", /*witness=*/true);
  Run(2'000);
  EXPECT_EQ(cluster_.LivingRanks(), 4u);
  const auto all = On("n0");
  ASSERT_EQ(all.size(), 4u);
  for (const auto& [name, generation] : stays) EXPECT_EQ(all.at(name), generation) << name;
  for (const auto& [name, generation] : goes) {
    EXPECT_GT(all.at(name), generation) << name;
    EXPECT_EQ(Of(*TaskOfName(name)).restarts, 1u) << "the ledger has to hear what it lacks";
  }
  std::set<uint32_t> slots;
  for (const TaskState& one : state().tasks) slots.insert(one.task.slot);
  EXPECT_EQ(slots.size(), 4u);
}

TEST_F(TablesOnTwoNodesTest, ANodeThatComesBackTakesNewTasksAndKeepsThem) {
  cluster_.Vanish("n1", /*witness=*/true);
  Run(2'000);
  cluster_.StartNode("n1", 8);
  Run(2'000);
  EXPECT_TRUE(On("n1").empty()) << "nothing moves back by itself";
  const auto before = On("n0");
  Ask(4, 2);
  EXPECT_EQ(On("n1").size(), 2u);
  const auto placed = On("n1");
  Run(10'000);
  EXPECT_EQ(On("n1"), placed) << "the node was lost before these tasks were placed";
  EXPECT_EQ(On("n0"), before);
  EXPECT_EQ(cluster_.LivingRanks(), 6u);
}

TEST_F(TablesOnTwoNodesTest, ALostNodeWithoutATaskThatRunsChangesNothing) {
  ExitCause done;
  done.kind = ExitCause::Kind::kExited;
  cluster_.Tell(TasksRequested{.workers = 2, .servers = 1, .why = "a test"});
  Run(1'000);
  MoveAll();
  ASSERT_EQ(NodeOf(TaskRank(TaskKind::kWorker, 1)), "n1");
  ASSERT_EQ(NodeOf(PsRank(0)), "n0");
  cluster_.KillRank("n1", Of(TaskRank(TaskKind::kWorker, 1)).slot, done);
  Run(1'000);
  const auto before = On("n0");
  cluster_.Vanish("n1", /*witness=*/true);
  Run(2'000);
  EXPECT_EQ(On("n0"), before);
}

TEST_F(TablesOnTwoNodesTest, WithoutRoomAllWaitForTheNode) {
  Ask(14, 2);
  EXPECT_EQ(cluster_.LivingRanks(), 16u);
  cluster_.Vanish("n1", /*witness=*/true);
  Run(2'000);
  EXPECT_EQ(cluster_.LivingRanks(), 0u);
  cluster_.StartNode("n1", 8);
  Run(3'000);
  EXPECT_EQ(cluster_.LivingRanks(), 16u) << cluster_.job().Pending();
}

}  // namespace
}  // namespace paceline::core

#include "paceline/wire/codec/task_proto.h"

#include "gtest/gtest.h"

#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {
namespace {

std::vector<Task> SomeTasks() {
  std::vector<Task> tasks;
  for (const Rank rank : TaskRanks({.workers = 2, .servers = 1, .evaluators = 1})) {
    const auto slot = static_cast<uint32_t>(tasks.size());
    tasks.push_back({.rank = rank,
                     .node = NodeId(2),
                     .slot = slot,
                     .generation = Generation(7 + slot),
                     .restarts = slot,
                     .is_done = slot == 1,
                     .host = "10.0.0.2",
                     .port = 12'000 + slot});
  }
  return tasks;
}

TEST(TaskProtoTest, AFactSurvives) {
  const core::TasksPlaced placed{SomeTasks(), "because"};
  pb::Fact message;
  ToProto(core::Fact(placed), &message);
  const auto back = FromProto(message);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(std::get<core::TasksPlaced>(*back).tasks, placed.tasks);
  EXPECT_EQ(std::get<core::TasksPlaced>(*back).reason, placed.reason);
}

TEST(TaskProtoTest, AnAssignmentSurvives) {
  const Assignment assignment{.kind = Assignment::Kind::kRun,
                              .generation = Generation(9),
                              .store = {.host = "h"},
                              .tasks = SomeTasks(),
                              .cluster = SomeTasks()};
  pb::Assignment message;
  ToProto(assignment, &message);
  Assignment back;
  ASSERT_TRUE(FromProto(message, &back).ok());
  EXPECT_EQ(back, assignment);
}

TEST(TaskProtoTest, TheTasksOfAJobAndThePortsOfANodeSurvive) {
  const JobSpec spec{.job_id = "j", .tasks = {.workers = 3, .servers = 2, .evaluators = 1}};
  pb::JobSpec message;
  ToProto(spec, &message);
  JobSpec back;
  ASSERT_TRUE(FromProto(message, &back).ok());
  EXPECT_EQ(back, spec);
  NodeReport report;
  report.name = "n1";
  report.address = "10.0.0.2";
  report.slots = 2;
  report.task_ports = {12'000, 12'001};
  pb::NodeReport told;
  ToProto(report, &told);
  NodeReport heard;
  ASSERT_TRUE(FromProto(told, &heard).ok());
  EXPECT_EQ(heard.task_ports, report.task_ports);
}

TEST(TaskProtoTest, ImpossibleTasksAreRefused) {
  const auto refuses = [](void (*change)(Task & task)) {
    std::vector<Task> tasks = SomeTasks();
    change(tasks.back());
    pb::TasksPlaced message;
    ToProto(core::TasksPlaced{tasks, ""}, &message);
    core::TasksPlaced back;
    return !FromProto(message, &back).ok();
  };
  EXPECT_TRUE(refuses([](Task& task) { task.rank = Rank(3); }));
  EXPECT_TRUE(refuses([](Task& task) { task.rank = Rank(9 * kTaskKindStep); }));
  EXPECT_TRUE(refuses([](Task& task) { task.rank = TaskRank(TaskKind::kPs, kTasksMax); }));
  EXPECT_TRUE(refuses([](Task& task) { task.slot = 1u << 20; }));
  EXPECT_TRUE(refuses([](Task& task) { task.port = 70'000; }));
  EXPECT_TRUE(refuses([](Task& task) { task.host = "a b"; }));
  EXPECT_FALSE(refuses([](Task& task) { task.port = 1; }));
}

}  // namespace
}  // namespace paceline::wire

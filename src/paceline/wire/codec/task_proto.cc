#include "paceline/wire/codec/task_proto.h"

#include "paceline/model/table_routing.h"
#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"

namespace paceline::wire {
namespace {

// Slots of a node: those of a progress page.
constexpr uint32_t kTaskSlotsMax = 4096;

absl::Status TakeTask(const pb::Task& from, Task* to) {
  PACELINE_TASK(TAKE)
  if (!IsTask(to->rank) || NumberOfTask(to->rank) >= kTasksMax) {
    return Invalid("task.rank", "is not of a task");
  }
  if (to->slot >= kTaskSlotsMax) return Invalid("task.slot", "is out of range");
  RETURN_IF_ERROR(CheckPort(to->port, "task.port"));
  return CheckAddress(to->host, "task.host");
}

}  // namespace

void ToProto(const TaskSpec& from, pb::TaskSpec* to) { PACELINE_TASK_SPEC(PUT) }

void ToProto(const std::vector<Task>& tasks, TaskList* list) {
  for (const Task& from : tasks) {
    pb::Task* to = list->Add();
    PACELINE_TASK(PUT)
  }
}

void ToProto(const core::TasksPlaced& from, pb::TasksPlaced* to) {
  ToProto(from.tasks, to->mutable_tasks());
  to->set_reason(Encode(from.reason));
}

void ToProto(const core::TasksScaled& from, pb::TasksScaled* to) { PACELINE_TASKS_SCALED(PUT) }

void ToProto(const core::TablesMoved& from, pb::TablesMoved* to) {
  PACELINE_TABLES_MOVED(PUT)
  for (const uint32_t partition : from.partitions) to->add_partitions(partition);
}

void ToProto(const TaskStatus& from, pb::TaskStatus* to){PACELINE_TASK_STATUS(PUT)}

absl::Status FromProto(const pb::TaskSpec& from, TaskSpec* to) {
  PACELINE_TASK_SPEC(TAKE)
  const bool is_possible = to->workers <= kTasksMax && to->servers <= kTasksMax &&
                           to->evaluators <= 1 && to->count() <= kTasksMax;
  return is_possible ? absl::OkStatus() : Invalid("tasks", "are too many");
}

absl::Status FromProto(const TaskList& from, std::vector<Task>* to) {
  if (from.size() > static_cast<int>(kTasksMax)) return Invalid("tasks", "are too many");
  for (const pb::Task& task : from) RETURN_IF_ERROR(TakeTask(task, &to->emplace_back()));
  return absl::OkStatus();
}

absl::Status FromProto(const pb::TasksPlaced& from, core::TasksPlaced* to) {
  RETURN_IF_ERROR(Decode(from.reason(), "reason", &to->reason));
  return FromProto(from.tasks(), &to->tasks);
}

absl::Status FromProto(const pb::TasksScaled& from, core::TasksScaled* to) {
  PACELINE_TASKS_SCALED(TAKE)
  const bool is_possible = to->workers > 0 && to->servers > 0 && to->workers <= kTasksMax &&
                           to->servers <= kTasksMax && to->workers + to->servers <= kTasksMax;
  return is_possible ? absl::OkStatus() : Invalid("tasks", "are none or too many");
}

absl::Status FromProto(const pb::TablesMoved& from, core::TablesMoved* to) {
  PACELINE_TABLES_MOVED(TAKE)
  for (const uint32_t partition : from.partitions()) {
    if (partition >= kTablePartitions) return Invalid("partition", "is out of range");
    to->partitions.push_back(partition);
  }
  if (to->from >= kTableServersMax || to->to >= kTableServersMax) {
    return Invalid("server", "is out of range");
  }
  return absl::OkStatus();
}

absl::Status FromProto(const pb::TaskStatus& from, TaskStatus* to) {
  PACELINE_TASK_STATUS(TAKE)
  return absl::OkStatus();
}

}  // namespace paceline::wire

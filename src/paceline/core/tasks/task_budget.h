#pragma once

// What the journal says of tasks, and each task's own restart budget.
//
// Tasks count no steps that paceline sees, so time is the evidence of progress: an attempt of a
// minute forgives different failures, and one of ten minutes also equal ones. A task may fail three
// times alike, or five times in all, without progress. With --max-restarts, each task has that
// many. Leased samples that the job has acknowledged since its last failure forgive different
// failures of all tasks. They say nothing of a task that fails alike each time.

#include "paceline/core/budget.h"
#include "paceline/core/job_state.h"
#include "paceline/core/record.h"

namespace paceline::core {

// Null: the job has no such task now.
const TaskState* FindTask(const JobState& state, Rank rank);

// Parts of Apply.
void FailTask(const Record& record, const RankFailed& fact, JobState* state);
void RefillTasks(JobState* state);
void PlaceTasks(const Record& record, const TasksPlaced& fact, JobState* state);

BudgetVerdict JudgeTask(const JobSpec& spec, const TaskState& task);

// The task is not started again before.
Instant NextStart(const JobSpec& spec, const TaskState& task);

}  // namespace paceline::core

#pragma once

// Tasks in messages and in the journal.

#include "absl/status/status.h"
#include "google/protobuf/repeated_field.h"
#include "paceline/core/record.h"
#include "paceline/model/task.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/job.pb.h"
#include "paceline/v1/journal.pb.h"
#include "paceline/wire/messages.h"

namespace paceline::wire {

namespace pb = ::paceline::v1;
using TaskList = google::protobuf::RepeatedPtrField<pb::Task>;

void ToProto(const TaskSpec& from, pb::TaskSpec* to);
void ToProto(const std::vector<Task>& from, TaskList* to);
void ToProto(const core::TasksPlaced& from, pb::TasksPlaced* to);
void ToProto(const core::TasksScaled& from, pb::TasksScaled* to);
void ToProto(const core::TablesMoved& from, pb::TablesMoved* to);
void ToProto(const TaskStatus& from, pb::TaskStatus* to);

absl::Status FromProto(const pb::TaskSpec& from, TaskSpec* to);
absl::Status FromProto(const TaskList& from, std::vector<Task>* to);
absl::Status FromProto(const pb::TasksPlaced& from, core::TasksPlaced* to);
absl::Status FromProto(const pb::TasksScaled& from, core::TasksScaled* to);
absl::Status FromProto(const pb::TablesMoved& from, core::TablesMoved* to);
absl::Status FromProto(const pb::TaskStatus& from, TaskStatus* to);

}  // namespace paceline::wire

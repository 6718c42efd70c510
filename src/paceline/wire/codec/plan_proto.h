#pragma once

// Converts the messages about the ranks' parallel plan, as to_proto.h and from_proto.h do. The
// texts of a plan are JSON and longer than other text, and travel exactly as they are.

#include "absl/status/status.h"
#include "paceline/core/record.h"
#include "paceline/model/plan_note.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

void Put(const PlanNote& from, pb::AgentMessage* message);
void ToProto(const PlanStatus& from, pb::PlanStatus* to);
void Put(const core::ModelDescribed& from, pb::Fact* fact);
void Put(const core::ParallelPlanChosen& from, pb::Fact* fact);

absl::Status FromProto(const pb::PlanNote& from, PlanNote* to);
absl::Status FromProto(const pb::PlanStatus& from, PlanStatus* to);
absl::Status FromProto(const pb::ModelDescribed& from, core::ModelDescribed* to);
absl::Status FromProto(const pb::ParallelPlanChosen& from, core::ParallelPlanChosen* to);

}  // namespace paceline::wire

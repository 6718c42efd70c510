#include "paceline/wire/codec/plan_proto.h"

#include <cmath>

#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"

namespace paceline::wire {
namespace {

absl::Status TakeText(const std::string& from, std::string_view field, size_t most,
                      std::string* to) {
  if (from.size() > most) return Invalid(field, "is too long");
  *to = from;
  return absl::OkStatus();
}

absl::Status TakeStep(double from, double* to) {
  if (!std::isfinite(from) || from < 0) return Invalid("step", "is impossible");
  *to = from;
  return absl::OkStatus();
}

}  // namespace

void Put(const PlanNote& from, pb::AgentMessage* message) {
  auto* to = message->mutable_plan();
  PACELINE_PLAN_NOTE(PUT)
  to->set_summary(from.summary);
  to->set_wishes(from.wishes);
  to->set_cluster(from.cluster);
  to->set_plan(from.plan);
}

void ToProto(const PlanStatus& from, pb::PlanStatus* to) {
  PACELINE_PLAN_STATUS(PUT)
  to->set_plan(from.plan);
}

void Put(const core::ModelDescribed& from, pb::Fact* fact) {
  auto* to = fact->mutable_model_described();
  PACELINE_MODEL_DESCRIBED(PUT)
  to->set_summary(from.summary);
  to->set_wishes(from.wishes);
}

void Put(const core::ParallelPlanChosen& from, pb::Fact* fact) {
  auto* to = fact->mutable_parallel_plan_chosen();
  PACELINE_PARALLEL_PLAN_CHOSEN(PUT)
  to->set_plan(from.plan);
  to->set_cluster(from.cluster);
}

absl::Status FromProto(const pb::PlanNote& from, PlanNote* to) {
  PACELINE_PLAN_NOTE(TAKE)
  RETURN_IF_ERROR(TakeStep(from.step(), &to->step));
  RETURN_IF_ERROR(TakeText(from.summary(), "summary", kPlanNoteTextMax, &to->summary));
  RETURN_IF_ERROR(TakeText(from.wishes(), "wishes", kPlanNoteTextMax, &to->wishes));
  RETURN_IF_ERROR(TakeText(from.cluster(), "cluster", kPlanNoteTextMax, &to->cluster));
  return TakeText(from.plan(), "plan", kPlanNotePlanMax, &to->plan);
}

absl::Status FromProto(const pb::PlanStatus& from, PlanStatus* to) {
  PACELINE_PLAN_STATUS(TAKE)
  RETURN_IF_ERROR(TakeStep(from.step(), &to->step));
  return TakeText(from.plan(), "plan", kPlanNotePlanMax, &to->plan);
}

absl::Status FromProto(const pb::ModelDescribed& from, core::ModelDescribed* to) {
  PACELINE_MODEL_DESCRIBED(TAKE)
  RETURN_IF_ERROR(TakeText(from.summary(), "summary", kPlanNoteTextMax, &to->summary));
  return TakeText(from.wishes(), "wishes", kPlanNoteTextMax, &to->wishes);
}

absl::Status FromProto(const pb::ParallelPlanChosen& from, core::ParallelPlanChosen* to) {
  PACELINE_PARALLEL_PLAN_CHOSEN(TAKE)
  RETURN_IF_ERROR(TakeStep(from.step(), &to->step));
  RETURN_IF_ERROR(TakeText(from.plan(), "plan", kPlanNotePlanMax, &to->plan));
  return TakeText(from.cluster(), "cluster", kPlanNoteTextMax, &to->cluster);
}

}  // namespace paceline::wire

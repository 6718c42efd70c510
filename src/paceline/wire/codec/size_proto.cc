#include "paceline/wire/codec/size_proto.h"

#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"
#include "paceline/wire/codec/fields.h"

namespace paceline::wire {
namespace {

void Fill(const SizeSpeed& from, pb::SizeSpeed* to){PACELINE_SIZE_SPEED(PUT)}

absl::Status Take(const pb::SizeSpeed& from, SizeSpeed* to) {
  PACELINE_SIZE_SPEED(TAKE)
  return absl::OkStatus();
}

}  // namespace

void ToProto(const ScaleRequest& from, pb::ScaleRequest* to) { PACELINE_SCALE_REQUEST(PUT) }
void ToProto(const ScaleReply& from, pb::ScaleReply* to) { PACELINE_SCALE_REPLY(PUT) }
void ToProto(const SizeStatus& from, pb::SizeStatus* to) {
  PACELINE_SIZE_STATUS(PUT)
  for (const SizeSpeed& speed : from.curve) Fill(speed, to->add_curve());
}
void Put(const core::SizeChosen& from, pb::Fact* fact) {
  auto* to = fact->mutable_size_chosen();
  PACELINE_SIZE_CHOSEN(PUT)
}

absl::Status FromProto(const pb::ScaleRequest& from, ScaleRequest* to) {
  PACELINE_SCALE_REQUEST(TAKE)
  return absl::OkStatus();
}
absl::Status FromProto(const pb::ScaleReply& from, ScaleReply* to) {
  PACELINE_SCALE_REPLY(TAKE)
  return absl::OkStatus();
}
absl::Status FromProto(const pb::SizeStatus& from, SizeStatus* to) {
  PACELINE_SIZE_STATUS(TAKE)
  for (const pb::SizeSpeed& speed : from.curve()) {
    RETURN_IF_ERROR(Take(speed, &to->curve.emplace_back()));
  }
  return absl::OkStatus();
}
absl::Status FromProto(const pb::SizeChosen& from, core::SizeChosen* to) {
  PACELINE_SIZE_CHOSEN(TAKE)
  return absl::OkStatus();
}

}  // namespace paceline::wire

#pragma once

// The size of a job, to messages and back; as to_proto.h and from_proto.h.

#include "absl/status/status.h"
#include "paceline/core/record.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

void ToProto(const ScaleRequest& from, pb::ScaleRequest* to);
void ToProto(const ScaleReply& from, pb::ScaleReply* to);
void ToProto(const SizeStatus& from, pb::SizeStatus* to);
void Put(const core::SizeChosen& from, pb::Fact* fact);

absl::Status FromProto(const pb::ScaleRequest& from, ScaleRequest* to);
absl::Status FromProto(const pb::ScaleReply& from, ScaleReply* to);
absl::Status FromProto(const pb::SizeStatus& from, SizeStatus* to);
absl::Status FromProto(const pb::SizeChosen& from, core::SizeChosen* to);

}  // namespace paceline::wire

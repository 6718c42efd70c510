#pragma once

// Drills and repeated checks, to messages and back; as to_proto.h and from_proto.h.

#include "absl/status/status.h"
#include "paceline/core/record.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

void ToProto(const DrillRequest& from, pb::DrillRequest* to);
void ToProto(const DrillReply& from, pb::DrillReply* to);
void Put(const core::DrillStruck& from, pb::Fact* fact);
void Put(const core::NodeCheckOrdered& from, pb::Fact* fact);

absl::Status FromProto(const pb::DrillRequest& from, DrillRequest* to);
absl::Status FromProto(const pb::DrillReply& from, DrillReply* to);
absl::Status FromProto(const pb::DrillStruck& from, core::DrillStruck* to);
absl::Status FromProto(const pb::NodeCheckOrdered& from, core::NodeCheckOrdered* to);

}  // namespace paceline::wire

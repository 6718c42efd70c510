#pragma once

// Messages about flight rings, as to_proto.h and from_proto.h.

#include "absl/status/status.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

void Put(const RingPiece& from, pb::AgentMessage* message);
void Put(const RingsWanted& from, pb::MasterMessage* message);
void ToProto(const RingsRequest& from, pb::ReadRingsRequest* to);
void ToProto(const RingsReply& from, pb::RingsReply* to);
absl::Status FromProto(const pb::RingPiece& from, RingPiece* to);
absl::Status FromProto(const pb::RingsWanted& from, RingsWanted* to);
absl::Status FromProto(const pb::ReadRingsRequest& from, RingsRequest* to);
absl::Status FromProto(const pb::RingsReply& from, RingsReply* to);

}  // namespace paceline::wire

#pragma once

// Translates agents' evidence about their ranks, as to_proto.h and from_proto.h.

#include "absl/status/status.h"
#include "paceline/model/evidence.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

void ToProto(const NodeEvidence& from, pb::NodeEvidence* to);
void ToProto(const JobStacks& from, pb::JobStacks* to);

absl::Status FromProto(const pb::NodeEvidence& from, NodeEvidence* to);
absl::Status FromProto(const pb::JobStacks& from, JobStacks* to);

}  // namespace paceline::wire

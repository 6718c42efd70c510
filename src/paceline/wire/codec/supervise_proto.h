#pragma once

// Converts the messages between the master and a process that starts nodes, as to_proto.h and
// from_proto.h do for agents.

#include "absl/status/statusor.h"
#include "paceline/v1/platform.pb.h"
#include "paceline/wire/codec/to_proto.h"
#include "paceline/wire/messages.h"

namespace paceline::wire {

void ToProto(const SupervisorMessage& from, pb::SupervisorMessage* to);
void ToProto(const SupervisorOrder& from, pb::SupervisorOrder* to);

absl::StatusOr<SupervisorMessage> FromProto(const pb::SupervisorMessage& from);
absl::StatusOr<SupervisorOrder> FromProto(const pb::SupervisorOrder& from);

}  // namespace paceline::wire

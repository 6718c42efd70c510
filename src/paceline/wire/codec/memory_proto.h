#pragma once

// The memory of nodes, to messages and back; as to_proto.h and from_proto.h.

#include "absl/status/status.h"
#include "paceline/core/record.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

void ToProto(const NodeMemory& from, pb::NodeMemory* to);
void Put(const core::MemoryShort& from, pb::Fact* fact);

absl::Status FromProto(const pb::NodeMemory& from, NodeMemory* to);
absl::Status FromProto(const pb::MemoryShort& from, core::MemoryShort* to);

}  // namespace paceline::wire

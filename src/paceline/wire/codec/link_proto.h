#pragma once

// Tests of links between hosts, to messages and back; as to_proto.h and from_proto.h.

#include "absl/status/status.h"
#include "paceline/core/record.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

void Put(const LinkTested& from, pb::AgentMessage* message);
void Put(const LinkTry& from, pb::MasterMessage* message);
void Put(const core::PairsJudged& from, pb::Fact* fact);

absl::Status FromProto(const pb::LinkTested& from, LinkTested* to);
absl::Status FromProto(const pb::LinkTry& from, LinkTry* to);
absl::Status FromProto(const pb::PairsJudged& from, core::PairsJudged* to);

}  // namespace paceline::wire

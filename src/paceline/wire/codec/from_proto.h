#pragma once

// Translates untrusted messages to values. Every message gives a value, or INVALID_ARGUMENT with
// the field's name. Names are checked, numbers and lists bounded, enums closed, so a value is safe
// for the core and in file names.

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/wire/codec/judge.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

inline constexpr int kRanksPerMessageMax = 4096;
inline constexpr int kNodesMax = 100'000;

absl::Status FromProto(const pb::JobSpec& from, JobSpec* to);
absl::Status FromProto(const pb::LaunchSpec& from, LaunchSpec* to);
absl::Status FromProto(const pb::ExitCause& from, ExitCause* to);
absl::Status FromProto(const pb::RankReport& from, RankReport* to);
absl::Status FromProto(const pb::NodeReport& from, NodeReport* to);
absl::Status FromProto(const pb::Assignment& from, Assignment* to);
absl::Status FromProto(const pb::World& from, World* to);
absl::Status FromProto(const pb::JobStatus& from, JobStatus* to);
absl::Status FromProto(const pb::JobEvent& from, JobEvent* to);
absl::Status FromProto(const pb::StopRequest& from, StopRequest* to);

absl::StatusOr<AgentMessage> FromProto(const pb::AgentMessage& from);
absl::StatusOr<MasterMessage> FromProto(const pb::MasterMessage& from);
absl::StatusOr<core::Fact> FromProto(const pb::Fact& from);

}  // namespace paceline::wire

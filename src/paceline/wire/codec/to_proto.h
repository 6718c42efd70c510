#pragma once

// Translates values to messages. Never fails: text becomes valid UTF-8 (an invalid byte is shown as
// '?') and is cut at kTextBytesMax, because a rank's output must not break a stream.

#include <string>
#include <string_view>

#include "paceline/base/utf8.h"
#include "paceline/core/record.h"
#include "paceline/v1/agent.pb.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/job.pb.h"
#include "paceline/v1/journal.pb.h"
#include "paceline/wire/codec/spec_file.h"
#include "paceline/wire/messages.h"

namespace paceline::wire {

namespace pb = ::paceline::v1;

void ToProto(const JobSpec& from, pb::JobSpec* to);
void ToProto(const ExitCause& from, pb::ExitCause* to);
void ToProto(const RankReport& from, pb::RankReport* to);
void ToProto(const NodeReport& from, pb::NodeReport* to);
void ToProto(const Assignment& from, pb::Assignment* to);
void ToProto(const AgentMessage& from, pb::AgentMessage* to);
void ToProto(const MasterMessage& from, pb::MasterMessage* to);

void ToProto(const World& from, pb::World* to);
void ToProto(const core::Fact& from, pb::Fact* to);

void ToProto(const JobStatus& from, pb::JobStatus* to);
void ToProto(const JobEvent& from, pb::JobEvent* to);
void ToProto(const StopRequest& from, pb::StopRequest* to);

// Exact: the caller has checked that every text is UTF-8.
void ToProto(const LaunchSpec& from, pb::LaunchSpec* to);

}  // namespace paceline::wire

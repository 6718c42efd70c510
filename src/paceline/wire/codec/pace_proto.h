#pragma once

// Slow ranks, hangs and bad losses, to messages and back; as to_proto.h and from_proto.h.

#include "absl/status/status.h"
#include "paceline/core/record.h"
#include "paceline/model/phase_time.h"
#include "paceline/model/rank_sample.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

void ToProto(const BadLoss& from, pb::BadLoss* to);
void ToProto(const RankSample& from, pb::RankSample* to);
// Times are sent in milliseconds.
void ToProto(const RankTimes& from, pb::RankTimes* to);
void ToProto(const SlowStatus& from, pb::SlowStatus* to);
void ToProto(const HangStatus& from, pb::HangStatus* to);
void Put(const core::RankSlow& from, pb::Fact* fact);
void Put(const core::RankNoLongerSlow& from, pb::Fact* fact);
void Put(const core::TimeAccounted& from, pb::Fact* fact);
void Put(const core::LossWentBad& from, pb::Fact* fact);

absl::Status FromProto(const pb::BadLoss& from, BadLoss* to);
absl::Status FromProto(const pb::RankSample& from, RankSample* to);
absl::Status FromProto(const pb::RankTimes& from, RankTimes* to);
absl::Status FromProto(const pb::SlowStatus& from, SlowStatus* to);
absl::Status FromProto(const pb::HangStatus& from, HangStatus* to);
absl::Status FromProto(const pb::RankSlow& from, core::RankSlow* to);
absl::Status FromProto(const pb::RankNoLongerSlow& from, core::RankNoLongerSlow* to);
absl::Status FromProto(const pb::TimeAccounted& from, core::TimeAccounted* to);
absl::Status FromProto(const pb::LossWentBad& from, core::LossWentBad* to);

}  // namespace paceline::wire

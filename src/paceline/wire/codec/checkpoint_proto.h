#pragma once

// Translates checkpoint reports, orders and facts, as to_proto.h and from_proto.h.

#include "absl/status/status.h"
#include "paceline/core/checkpoint/book.h"
#include "paceline/model/checkpoint.h"
#include "paceline/v1/checkpoint.pb.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

inline constexpr int kImagesPerReportMax = 65'536;
inline constexpr int kDamagedPerReportMax = 8;
inline constexpr int kFetchSourcesMax = 64;

void ToProto(const CheckpointReport& from, pb::CheckpointReport* to);
void ToProto(const CheckpointOrder& from, pb::CheckpointOrder* to);
void ToProto(const core::RestoreDecided& from, pb::RestoreDecided* to);
void ToProto(const core::CheckpointCommitted& from, pb::CheckpointCommitted* to);
void ToProto(const core::CheckpointDamaged& from, pb::CheckpointDamaged* to);
void ToProto(const core::CheckpointNotStored& from, pb::CheckpointNotStored* to);

absl::Status FromProto(const pb::CheckpointReport& from, CheckpointReport* to);
absl::Status FromProto(const pb::CheckpointOrder& from, CheckpointOrder* to);
absl::Status FromProto(const pb::RestoreDecided& from, core::RestoreDecided* to);
absl::Status FromProto(const pb::CheckpointCommitted& from, core::CheckpointCommitted* to);
absl::Status FromProto(const pb::CheckpointDamaged& from, core::CheckpointDamaged* to);
absl::Status FromProto(const pb::CheckpointNotStored& from, core::CheckpointNotStored* to);

}  // namespace paceline::wire

#include "paceline/wire/codec/drill_proto.h"

#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"
#include "paceline/wire/codec/fields.h"

namespace paceline::wire {

void ToProto(const DrillRequest& from, pb::DrillRequest* to) {
  PACELINE_DRILL_REQUEST(PUT)
  if (from.rank.has_value()) to->set_rank(*from.rank);
}
void ToProto(const DrillReply& from, pb::DrillReply* to) { PACELINE_DRILL_REPLY(PUT) }
void Put(const core::DrillStruck& from, pb::Fact* fact) {
  auto* to = fact->mutable_drill_struck();
  PACELINE_DRILL_STRUCK(PUT)
}
void Put(const core::NodeCheckOrdered& from, pb::Fact* fact) {
  auto* to = fact->mutable_node_check_ordered();
  PACELINE_NODE_CHECK_ORDERED(PUT)
}

absl::Status FromProto(const pb::DrillRequest& from, DrillRequest* to) {
  PACELINE_DRILL_REQUEST(TAKE)
  if (from.has_rank()) to->rank = from.rank();
  return absl::OkStatus();
}
absl::Status FromProto(const pb::DrillReply& from, DrillReply* to) {
  PACELINE_DRILL_REPLY(TAKE)
  return absl::OkStatus();
}
absl::Status FromProto(const pb::DrillStruck& from, core::DrillStruck* to) {
  PACELINE_DRILL_STRUCK(TAKE)
  return absl::OkStatus();
}
absl::Status FromProto(const pb::NodeCheckOrdered& from, core::NodeCheckOrdered* to) {
  PACELINE_NODE_CHECK_ORDERED(TAKE)
  return absl::OkStatus();
}

}  // namespace paceline::wire

#include "paceline/wire/codec/ring_proto.h"

#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"

namespace paceline::wire {
namespace {

// RingCursor has the same fields in each message.
template <class To>
void FillCursor(const RingCursor& from, To* to) {
  to->set_rank(from.rank);
  to->set_generation(from.generation.value());
  to->set_before(from.before);
  to->set_last(Encode(from.last));
}
template <class From>
absl::Status TakeCursor(const From& from, RingCursor* to) {
  to->rank = from.rank();
  to->before = from.before();
  RETURN_IF_ERROR(Decode(from.generation(), "generation", &to->generation));
  return Decode(from.last(), "last", &to->last);
}

}  // namespace

void Put(const RingPiece& from, pb::AgentMessage* message) {
  auto* to = message->mutable_ring_piece();
  to->set_id(from.id);
  to->set_content(from.content);
}
void Put(const RingsWanted& from, pb::MasterMessage* message) {
  auto* to = message->mutable_rings_wanted();
  to->set_id(from.id);
  FillCursor(from.at, to);
}
void ToProto(const RingsRequest& from, pb::ReadRingsRequest* to) {
  to->set_node(Encode(from.node));
  FillCursor(from.at, to);
}
void ToProto(const RingsReply& from, pb::RingsReply* to) {
  to->set_silence(Encode(from.silence));
  to->set_content(from.content);
  to->set_boot_id(Encode(from.boot_id));
  to->set_wall_ns(from.now.wall.nanoseconds());
  to->set_monotonic_ns(from.now.monotonic_ns);
}

absl::Status FromProto(const pb::RingPiece& from, RingPiece* to) {
  to->id = from.id();
  to->content = from.content();
  return absl::OkStatus();
}
absl::Status FromProto(const pb::RingsWanted& from, RingsWanted* to) {
  to->id = from.id();
  return TakeCursor(from, &to->at);
}
absl::Status FromProto(const pb::ReadRingsRequest& from, RingsRequest* to) {
  RETURN_IF_ERROR(CheckName(from.node(), "node"));
  to->node = from.node();
  return TakeCursor(from, &to->at);
}
absl::Status FromProto(const pb::RingsReply& from, RingsReply* to) {
  RETURN_IF_ERROR(Decode(from.silence(), "silence", &to->silence));
  RETURN_IF_ERROR(Decode(from.boot_id(), "boot_id", &to->boot_id));
  to->content = from.content();
  to->now = {Instant::FromNanoseconds(from.wall_ns()), from.monotonic_ns()};
  return absl::OkStatus();
}

}  // namespace paceline::wire

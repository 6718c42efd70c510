#include "paceline/wire/codec/memory_proto.h"

#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"
#include "paceline/wire/codec/fields.h"

namespace paceline::wire {

void ToProto(const NodeMemory& from, pb::NodeMemory* to) { PACELINE_NODE_MEMORY(PUT) }
void Put(const core::MemoryShort& from, pb::Fact* fact) {
  auto* to = fact->mutable_memory_short();
  PACELINE_MEMORY_SHORT(PUT)
  ToProto(from.memory, to->mutable_memory());
}

absl::Status FromProto(const pb::NodeMemory& from, NodeMemory* to) {
  PACELINE_NODE_MEMORY(TAKE)
  return absl::OkStatus();
}
absl::Status FromProto(const pb::MemoryShort& from, core::MemoryShort* to) {
  PACELINE_MEMORY_SHORT(TAKE)
  return FromProto(from.memory(), &to->memory);
}

}  // namespace paceline::wire

#include "paceline/wire/codec/evidence_proto.h"

#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"
#include "paceline/wire/codec/from_proto.h"

namespace paceline::wire {
namespace {

// ---- values to messages ----

void Fill(const CollectiveSeen& from, pb::CollectiveSeen* to) { PACELINE_COLLECTIVE_SEEN(PUT) }
void Fill(const StackFrame& from, pb::StackFrame* to) { PACELINE_STACK_FRAME(PUT) }

void Fill(const RankEvidence& from, pb::RankEvidence* to) {
  PACELINE_RANK_EVIDENCE(PUT)
  to->set_state(static_cast<unsigned char>(from.state));
  for (const CollectiveSeen& seen : from.collectives) Fill(seen, to->add_collectives());
  for (const StackFrame& frame : from.stack) Fill(frame, to->add_stack());
}

// ---- messages to values ----

absl::Status Take(const pb::CollectiveSeen& from, CollectiveSeen* to) {
  PACELINE_COLLECTIVE_SEEN(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::StackFrame& from, StackFrame* to) {
  PACELINE_STACK_FRAME(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::RankEvidence& from, RankEvidence* to) {
  PACELINE_RANK_EVIDENCE(TAKE)
  to->state = from.state() > ' ' && from.state() <= '~' ? static_cast<char>(from.state()) : '?';
  constexpr size_t kSeenMax = kGroupsSeenMax * kCollectivesSeenMax;
  if (static_cast<size_t>(from.collectives_size()) > kSeenMax ||
      static_cast<size_t>(from.stack_size()) > kStackFramesMax) {
    return Invalid("evidence", "is too much");
  }
  for (const pb::CollectiveSeen& seen : from.collectives()) {
    RETURN_IF_ERROR(Take(seen, &to->collectives.emplace_back()));
  }
  for (const pb::StackFrame& frame : from.stack()) {
    RETURN_IF_ERROR(Take(frame, &to->stack.emplace_back()));
  }
  return absl::OkStatus();
}

}  // namespace

void ToProto(const NodeEvidence& from, pb::NodeEvidence* to) {
  PACELINE_EVIDENCE(PUT)
  for (const RankEvidence& rank : from.ranks) Fill(rank, to->add_ranks());
}

void ToProto(const JobStacks& from, pb::JobStacks* to) {
  for (const NodeStacks& node : from.nodes) {
    pb::NodeStacks* added = to->add_nodes();
    added->set_node(Encode(node.node));
    for (const RankEvidence& rank : node.ranks) Fill(rank, added->add_ranks());
  }
  for (const std::string& node : from.silent) to->add_silent(Encode(node));
}

absl::Status FromProto(const pb::NodeEvidence& from, NodeEvidence* to) {
  PACELINE_EVIDENCE(TAKE)
  if (from.ranks_size() > kRanksPerMessageMax) return Invalid("ranks", "are too many");
  for (const pb::RankEvidence& rank : from.ranks()) {
    RETURN_IF_ERROR(Take(rank, &to->ranks.emplace_back()));
  }
  return absl::OkStatus();
}

absl::Status FromProto(const pb::JobStacks& from, JobStacks* to) {
  for (const pb::NodeStacks& node : from.nodes()) {
    NodeStacks& added = to->nodes.emplace_back();
    RETURN_IF_ERROR(Decode(node.node(), "node", &added.node));
    for (const pb::RankEvidence& rank : node.ranks()) {
      RETURN_IF_ERROR(Take(rank, &added.ranks.emplace_back()));
    }
  }
  for (const std::string& node : from.silent()) {
    RETURN_IF_ERROR(Decode(node, "silent", &to->silent.emplace_back()));
  }
  return absl::OkStatus();
}

}  // namespace paceline::wire

#include "paceline/wire/codec/supervise_proto.h"

#include <variant>

#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"

namespace paceline::wire {
namespace {

// ---- values to messages ----

void Put(const Wish& from, pb::SupervisorOrder* message) {
  auto* to = message->mutable_wish();
  PACELINE_WISH(PUT)
  for (const auto& [index, number] : from.incarnations)
    (*to->mutable_incarnations())[index] = number;
  for (const uint32_t index : from.absent) to->add_absent(index);
  for (const std::string& host : from.excluded) to->add_excluded(Encode(host));
}
void Put(const Measure& from, pb::Measure* to) { PACELINE_MEASURE(PUT) }
void Put(const Summary& from, pb::SupervisorOrder* message) {
  auto* to = message->mutable_summary();
  PACELINE_SUMMARY(PUT)
  if (from.size.has_value()) to->set_size(*from.size);
  for (const Measure& one : from.measures) Put(one, to->add_measures());
}
void Put(const NodeGoneReport& from, pb::SupervisorMessage* message) {
  auto* to = message->mutable_node_gone();
  PACELINE_NODE_GONE(PUT)
  if (from.incarnation.has_value()) to->set_incarnation(*from.incarnation);
}
void Put(const NodePending& from, pb::SupervisorMessage* message) {
  auto* to = message->mutable_node_pending();
  PACELINE_NODE_PENDING(PUT)
}
void Put(const Notice& from, pb::SupervisorMessage* message) {
  auto* to = message->mutable_notice();
  PACELINE_NOTICE(PUT)
  if (from.incarnation.has_value()) to->set_incarnation(*from.incarnation);
}
void Put(const JobEnded& from, pb::SupervisorOrder* message) {
  auto* to = message->mutable_ended();
  PACELINE_JOB_FINISHED(PUT)
  to->set_history(from.history);
}
void Put(const EndKept&, pb::SupervisorMessage* message) { message->mutable_end_kept(); }
void Put(const SizeWanted& from, pb::SupervisorMessage* message) {
  auto* to = message->mutable_size_wanted();
  PACELINE_SIZE_WANTED(PUT)
}

// ---- messages to values ----

absl::Status Take(const pb::Wish& from, Wish* to) {
  PACELINE_WISH(TAKE)
  for (const auto& [index, number] : from.incarnations()) to->incarnations[index] = number;
  to->absent.insert(from.absent().begin(), from.absent().end());
  to->excluded.assign(from.excluded().begin(), from.excluded().end());
  return absl::OkStatus();
}
absl::Status Take(const pb::Measure& from, Measure* to) {
  PACELINE_MEASURE(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::Summary& from, Summary* to) {
  PACELINE_SUMMARY(TAKE)
  if (from.has_size()) to->size = from.size();
  for (const pb::Measure& one : from.measures()) {
    RETURN_IF_ERROR(Take(one, &to->measures.emplace_back()));
  }
  return absl::OkStatus();
}
absl::Status Take(const pb::NodeGoneReport& from, NodeGoneReport* to) {
  PACELINE_NODE_GONE(TAKE)
  if (from.has_incarnation()) to->incarnation = from.incarnation();
  return CheckName(to->name, "name");
}
absl::Status Take(const pb::NodePending& from, NodePending* to) {
  PACELINE_NODE_PENDING(TAKE)
  return CheckName(to->name, "name");
}
absl::Status Take(const pb::Notice& from, Notice* to) {
  PACELINE_NOTICE(TAKE)
  if (from.has_incarnation()) to->incarnation = from.incarnation();
  return to->name.empty() ? absl::OkStatus() : CheckName(to->name, "name");
}
absl::Status Take(const pb::SizeWanted& from, SizeWanted* to) {
  PACELINE_SIZE_WANTED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::JobEnded& from, JobEnded* to) {
  PACELINE_JOB_FINISHED(TAKE)
  to->history = from.history();
  return absl::OkStatus();
}

}  // namespace

void ToProto(const SupervisorOrder& from, pb::SupervisorOrder* to) {
  std::visit([&](const auto& body) { Put(body, to); }, from);
}

void ToProto(const SupervisorMessage& from, pb::SupervisorMessage* to) {
  std::visit([&](const auto& body) { Put(body, to); }, from);
}

absl::StatusOr<SupervisorMessage> FromProto(const pb::SupervisorMessage& from) {
  SupervisorMessage to;
  switch (from.body_case()) {
    case pb::SupervisorMessage::kNodeGone:
      RETURN_IF_ERROR(Take(from.node_gone(), &to.emplace<NodeGoneReport>()));
      return to;
    case pb::SupervisorMessage::kNodePending:
      RETURN_IF_ERROR(Take(from.node_pending(), &to.emplace<NodePending>()));
      return to;
    case pb::SupervisorMessage::kNotice:
      RETURN_IF_ERROR(Take(from.notice(), &to.emplace<Notice>()));
      return to;
    case pb::SupervisorMessage::kEndKept: to.emplace<EndKept>(); return to;
    case pb::SupervisorMessage::kSizeWanted:
      RETURN_IF_ERROR(Take(from.size_wanted(), &to.emplace<SizeWanted>()));
      return to;
    case pb::SupervisorMessage::BODY_NOT_SET: break;
  }
  return Invalid("message", "is empty or of an unknown kind");
}

absl::StatusOr<SupervisorOrder> FromProto(const pb::SupervisorOrder& from) {
  SupervisorOrder to;
  switch (from.body_case()) {
    case pb::SupervisorOrder::kWish:
      RETURN_IF_ERROR(Take(from.wish(), &to.emplace<Wish>()));
      return to;
    case pb::SupervisorOrder::kSummary:
      RETURN_IF_ERROR(Take(from.summary(), &to.emplace<Summary>()));
      return to;
    case pb::SupervisorOrder::kEnded:
      RETURN_IF_ERROR(Take(from.ended(), &to.emplace<JobEnded>()));
      return to;
    case pb::SupervisorOrder::BODY_NOT_SET: break;
  }
  return Invalid("message", "is empty or of an unknown kind");
}

}  // namespace paceline::wire

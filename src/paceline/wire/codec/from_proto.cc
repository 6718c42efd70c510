#include "paceline/wire/codec/from_proto.h"

#include <limits>
#include <string>

#include "paceline/wire/codec/checkpoint_proto.h"
#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/drill_proto.h"
#include "paceline/wire/codec/evidence_proto.h"
#include "paceline/wire/codec/link_proto.h"
#include "paceline/wire/codec/memory_proto.h"
#include "paceline/wire/codec/pace_proto.h"
#include "paceline/wire/codec/plan_proto.h"
#include "paceline/wire/codec/ring_proto.h"
#include "paceline/wire/codec/size_proto.h"
#include "paceline/wire/codec/task_proto.h"

namespace paceline::wire {
namespace {

absl::Status Take(const pb::StoreAddress& from, StoreAddress* to) {
  PACELINE_STORE(TAKE)
  RETURN_IF_ERROR(CheckPort(to->port, "store.port"));
  return CheckAddress(to->host, "store.host");
}
absl::Status Take(const pb::Seat& from, Seat* to) {
  PACELINE_SEAT(TAKE)
  if (to->first_rank > kRankMax || to->rank_count > static_cast<uint32_t>(kRanksPerMessageMax)) {
    return Invalid("seat", "is too big");
  }
  return absl::OkStatus();
}

template <class Reports>
absl::Status TakeRanks(const Reports& from, std::vector<RankReport>* to) {
  if (from.size() > kRanksPerMessageMax) return Invalid("ranks", "are too many");
  to->resize(static_cast<size_t>(from.size()));
  for (int i = 0; i < from.size(); ++i) {
    RETURN_IF_ERROR(FromProto(from.Get(i), &(*to)[static_cast<size_t>(i)]));
  }
  return absl::OkStatus();
}

absl::Status Take(const pb::NodeCheck& from, NodeCheck* to) {
  PACELINE_NODE_CHECK(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::EvidenceOrder& from, EvidenceOrder* to) {
  PACELINE_EVIDENCE(TAKE)
  return absl::OkStatus();
}

template <class Names>
absl::Status TakeKeepers(const Names& from, std::vector<std::string>* to) {
  constexpr int kKeepersMax = 16;
  if (from.size() > kKeepersMax) return Invalid("keepers", "are too many");
  for (const std::string& name : from) {
    RETURN_IF_ERROR(CheckName(name, "keeper"));
    to->push_back(name);
  }
  return absl::OkStatus();
}

absl::Status Take(const pb::NodeReport& from, Register* to) {
  to->copy.length = from.copy().length();
  RETURN_IF_ERROR(TakeTerm(from.copy().term(), &to->copy.term));
  RETURN_IF_ERROR(TakeKeepers(from.copy().keepers(), &to->copy.keepers));
  return FromProto(from, &to->report);
}
absl::Status Take(const pb::JournalPiece& from, JournalBytes* to) {
  PACELINE_JOURNAL_PIECE(TAKE)
  if (to->term > kTermMax) return Invalid("term", "is out of range");
  to->content = from.content();
  return TakeKeepers(from.keepers(), &to->keepers);
}
absl::Status Take(const pb::JournalHeld& from, JournalHeld* to) {
  PACELINE_JOURNAL_HELD(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::JournalWanted& from, JournalWanted* to) {
  PACELINE_JOURNAL_WANTED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::Heartbeat& from, Heartbeat* to) {
  PACELINE_HEARTBEAT(TAKE)
  RETURN_IF_ERROR(CheckPort(to->store_port, "store_port"));
  if (from.samples_size() > kRanksPerMessageMax) return Invalid("samples", "are too many");
  for (const pb::RankSample& sample : from.samples()) {
    RETURN_IF_ERROR(FromProto(sample, &to->samples.emplace_back()));
  }
  if (from.times_size() > kRanksPerMessageMax) return Invalid("times", "are too many");
  for (const pb::RankTimes& times : from.times()) {
    RETURN_IF_ERROR(FromProto(times, &to->times.emplace_back()));
  }
  if (from.has_memory()) RETURN_IF_ERROR(FromProto(from.memory(), &to->memory.emplace()));
  return TakeRanks(from.ranks(), &to->ranks);
}
absl::Status Take(const pb::RankEnd& from, RankEnd* to) {
  RETURN_IF_ERROR(FromProto(from.rank(), &to->rank));
  if (from.has_times()) RETURN_IF_ERROR(FromProto(from.times(), &to->times.emplace()));
  if (to->rank.state == RankReport::State::kExited) return absl::OkStatus();
  return Invalid("rank_end", "is of a rank that lives");
}
absl::Status Take(const pb::Leaving& from, Leaving* to) {
  return Decode(from.why(), "why", &to->why);
}

absl::Status Take(const pb::Welcome& from, Welcome* to) {
  to->node = NodeId(from.node());
  constexpr uint32_t kPortMax = 65'535;
  if (from.lease_port() > kPortMax) return Invalid("lease_port", "is out of range");
  to->lease_port = from.lease_port();
  RETURN_IF_ERROR(TakeTerm(from.term(), &to->term));
  to->incarnation = from.incarnation();
  RETURN_IF_ERROR(Decode(from.heartbeat_interval(), "heartbeat_interval", &to->heartbeat_interval));
  return FromProto(from.spec(), &to->spec);
}
absl::Status Take(const pb::Pace& from, Pace* to) {
  return Decode(from.heartbeat_interval(), "heartbeat_interval", &to->heartbeat_interval);
}
absl::Status Take(const pb::Assignment& from, Assignment* to) { return FromProto(from, to); }
absl::Status Take(const pb::Refusal& from, Refusal* to) {
  PACELINE_REFUSAL(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::RankStatus& from, RankStatus* to) {
  PACELINE_RANK_STATUS(TAKE)
  if (from.has_loss()) to->loss = from.loss();
  return absl::OkStatus();
}
absl::Status Take(const pb::CheckpointStatus& from, CheckpointStatus* to) {
  PACELINE_CHECKPOINT_STATUS(TAKE)
  if (from.has_storage_age()) to->storage_age = Duration::Nanoseconds(from.storage_age());
  return absl::OkStatus();
}
absl::Status Take(const pb::NodeStatus& from, NodeStatus* to) {
  PACELINE_NODE_STATUS(TAKE)
  if (from.has_seat()) to->seat = from.seat();
  for (const pb::RankStatus& rank : from.ranks()) {
    RETURN_IF_ERROR(Take(rank, &to->ranks.emplace_back()));
  }
  return absl::OkStatus();
}

// Puts the value of type T in `from` into a variant.
template <class T, class Variant, class Message>
absl::Status Into(const Message& from, Variant* to) {
  T& value = to->template emplace<T>();
  if constexpr (requires { Take(from, &value); }) {
    return Take(from, &value);
  } else {
    return FromProto(from, &value);
  }
}

}  // namespace

absl::Status FromProto(const pb::ExitCause& from, ExitCause* to) {
  PACELINE_EXIT_CAUSE(TAKE)
  return absl::OkStatus();
}

absl::Status FromProto(const pb::RankReport& from, RankReport* to) {
  PACELINE_RANK_REPORT(TAKE)
  to->has_loss = from.has_loss();
  to->loss = from.loss();
  if (from.has_bad_loss()) RETURN_IF_ERROR(FromProto(from.bad_loss(), &to->bad_loss));
  if (to->is_quiet) RETURN_IF_ERROR(Decode(from.phase(), "phase", &to->phase));
  if (to->local_rank >= kRanksPerMessageMax) return Invalid("local_rank", "is out of range");
  if (to->pid < 0) return Invalid("pid", "is negative");
  if (to->step < -1 || to->step_count < 0 || to->saved_step < -1) {
    return Invalid("step", "is out of range");
  }
  if (to->state != RankReport::State::kExited) return absl::OkStatus();
  return FromProto(from.exit(), &to->exit);
}

absl::Status FromProto(const pb::NodeReport& from, NodeReport* to) {
  PACELINE_NODE_REPORT(TAKE)
  RETURN_IF_ERROR(CheckName(to->name, "name"));
  if (!to->job_id.empty()) RETURN_IF_ERROR(CheckName(to->job_id, "job_id"));
  RETURN_IF_ERROR(CheckAddress(to->address, "address"));
  RETURN_IF_ERROR(CheckAddress(to->bulk, "bulk"));
  RETURN_IF_ERROR(CheckPort(to->store_port, "store_port"));
  if (to->boot_id.size() > 128) return Invalid("boot_id", "is too long");
  if (to->slots > kRanksPerMessageMax) return Invalid("slots", "are too many");
  if (to->agent_pid < 0) return Invalid("agent_pid", "is negative");
  if (to->term > kTermMax) return Invalid("term", "is out of range");
  if (from.task_ports_size() > kRanksPerMessageMax) return Invalid("task_ports", "are too many");
  for (const uint32_t port : from.task_ports()) {
    RETURN_IF_ERROR(CheckPort(port, "task_port"));
    to->task_ports.push_back(port);
  }
  if (from.has_check()) RETURN_IF_ERROR(Take(from.check(), &to->check));
  return TakeRanks(from.ranks(), &to->ranks);
}

absl::Status FromProto(const pb::Assignment& from, Assignment* to) {
  PACELINE_ASSIGNMENT(TAKE)
  if (to->rank_count > kRanksPerMessageMax || to->first_rank > kRankMax ||
      to->world_size > kRankMax) {
    return Invalid("assignment", "has an impossible size");
  }
  RETURN_IF_ERROR(FromProto(from.tasks(), &to->tasks));
  RETURN_IF_ERROR(FromProto(from.cluster(), &to->cluster));
  return Take(from.store(), &to->store);
}

absl::Status FromProto(const pb::World& from, World* to) {
  RETURN_IF_ERROR(Decode(from.generation(), "generation", &to->generation));
  if (from.seats_size() > kNodesMax) return Invalid("seats", "are too many");
  for (const pb::Seat& seat : from.seats()) {
    RETURN_IF_ERROR(Take(seat, &to->seats.emplace_back()));
  }
  to->restart_count = from.restart_count();
  return Take(from.store(), &to->store);
}

absl::Status FromProto(const pb::JobStatus& from, JobStatus* to) {
  PACELINE_JOB_STATUS(TAKE)
  // If the field is missing, keep the defaults: step 0 would look like a real step.
  if (from.has_checkpoints()) RETURN_IF_ERROR(Take(from.checkpoints(), &to->checkpoints));
  if (from.has_loss()) to->loss = from.loss();
  if (from.has_since_step()) to->since_step = Duration::Nanoseconds(from.since_step());
  if (from.has_exit_code()) to->exit_code = from.exit_code();
  if (from.nodes_size() > kNodesMax) return Invalid("nodes", "are too many");
  for (const pb::NodeStatus& node : from.nodes()) {
    RETURN_IF_ERROR(Take(node, &to->nodes.emplace_back()));
  }
  for (const pb::SlowStatus& slow : from.slow()) {
    RETURN_IF_ERROR(FromProto(slow, &to->slow.emplace_back()));
  }
  to->excluded_hosts.assign(from.excluded_hosts().begin(), from.excluded_hosts().end());
  to->links.assign(from.links().begin(), from.links().end());
  for (const pb::TaskStatus& task : from.tasks()) {
    RETURN_IF_ERROR(FromProto(task, &to->tasks.emplace_back()));
  }
  to->memory.assign(from.memory().begin(), from.memory().end());
  if (from.has_hang()) RETURN_IF_ERROR(FromProto(from.hang(), &to->hang.emplace()));
  if (from.has_size()) RETURN_IF_ERROR(FromProto(from.size(), &to->size));
  if (from.has_plan()) RETURN_IF_ERROR(FromProto(from.plan(), &to->plan));
  return absl::OkStatus();
}

absl::Status FromProto(const pb::JobEvent& from, JobEvent* to) {
  PACELINE_JOB_EVENT(TAKE)
  if (from.has_rank()) to->rank = from.rank();
  if (from.has_step()) to->step = from.step();
  to->causes.assign(from.causes().begin(), from.causes().end());
  to->details = std::map<std::string, std::string>(from.details().begin(), from.details().end());
  if (from.members_size() > kNodesMax) return Invalid("members", "are too many");
  for (const pb::WorldMember& member : from.members()) {
    to->members.push_back({.node = member.node(),
                           .seat = member.seat(),
                           .first_rank = member.first_rank(),
                           .ranks = member.ranks()});
  }
  return absl::OkStatus();
}

absl::Status FromProto(const pb::StopRequest& from, StopRequest* to) {
  PACELINE_STOP_REQUEST(TAKE)
  if (to->exit_code < 0 || to->exit_code > 255) return Invalid("exit_code", "is out of range");
  return absl::OkStatus();
}

absl::StatusOr<AgentMessage> FromProto(const pb::AgentMessage& from) {
  AgentMessage to;
  switch (from.body_case()) {
    case pb::AgentMessage::kRegister:
      RETURN_IF_ERROR(Into<Register>(from.register_(), &to));
      return to;
    case pb::AgentMessage::kHeartbeat:
      RETURN_IF_ERROR(Into<Heartbeat>(from.heartbeat(), &to));
      return to;
    case pb::AgentMessage::kRankEnd:
      RETURN_IF_ERROR(Into<RankEnd>(from.rank_end(), &to));
      return to;
    case pb::AgentMessage::kLeaving: RETURN_IF_ERROR(Into<Leaving>(from.leaving(), &to)); return to;
    case pb::AgentMessage::kCheckpoint:
      RETURN_IF_ERROR(Into<CheckpointReport>(from.checkpoint(), &to));
      return to;
    case pb::AgentMessage::kEvidence:
      RETURN_IF_ERROR(FromProto(from.evidence(), &to.emplace<NodeEvidence>()));
      return to;
    case pb::AgentMessage::kJournalHeld:
      RETURN_IF_ERROR(Into<JournalHeld>(from.journal_held(), &to));
      return to;
    case pb::AgentMessage::kJournalPiece:
      RETURN_IF_ERROR(Into<JournalBytes>(from.journal_piece(), &to));
      return to;
    case pb::AgentMessage::kPlan:
      RETURN_IF_ERROR(FromProto(from.plan(), &to.emplace<PlanNote>()));
      return to;
    case pb::AgentMessage::kCheck: RETURN_IF_ERROR(Into<NodeCheck>(from.check(), &to)); return to;
    case pb::AgentMessage::kRingPiece:
      RETURN_IF_ERROR(FromProto(from.ring_piece(), &to.emplace<RingPiece>()));
      return to;
    case pb::AgentMessage::kLinkTested:
      RETURN_IF_ERROR(FromProto(from.link_tested(), &to.emplace<LinkTested>()));
      return to;
    case pb::AgentMessage::BODY_NOT_SET: break;
  }
  return Invalid("message", "is empty or of an unknown kind");
}

absl::StatusOr<MasterMessage> FromProto(const pb::MasterMessage& from) {
  MasterMessage to;
  switch (from.body_case()) {
    case pb::MasterMessage::kWelcome:
      RETURN_IF_ERROR(Into<Welcome>(from.welcome(), &to));
      return to;
    case pb::MasterMessage::kPace: RETURN_IF_ERROR(Into<Pace>(from.pace(), &to)); return to;
    case pb::MasterMessage::kAssignment:
      RETURN_IF_ERROR(Into<Assignment>(from.assignment(), &to));
      return to;
    case pb::MasterMessage::kRefusal:
      RETURN_IF_ERROR(Into<Refusal>(from.refusal(), &to));
      return to;
    case pb::MasterMessage::kCheckpoint:
      RETURN_IF_ERROR(Into<CheckpointOrder>(from.checkpoint(), &to));
      return to;
    case pb::MasterMessage::kEvidence:
      RETURN_IF_ERROR(Into<EvidenceOrder>(from.evidence(), &to));
      return to;
    case pb::MasterMessage::kJournalPiece:
      RETURN_IF_ERROR(Into<JournalBytes>(from.journal_piece(), &to));
      return to;
    case pb::MasterMessage::kJournalWanted:
      RETURN_IF_ERROR(Into<JournalWanted>(from.journal_wanted(), &to));
      return to;
    case pb::MasterMessage::kRingsWanted:
      RETURN_IF_ERROR(FromProto(from.rings_wanted(), &to.emplace<RingsWanted>()));
      return to;
    case pb::MasterMessage::kTryLink:
      RETURN_IF_ERROR(FromProto(from.try_link(), &to.emplace<LinkTry>()));
      return to;
    case pb::MasterMessage::BODY_NOT_SET: break;
  }
  return Invalid("message", "is empty or of an unknown kind");
}

}  // namespace paceline::wire

#include "paceline/wire/server/server_parts.h"

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/wire/client/channel.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/supervise_proto.h"
#include "paceline/wire/security/guard.h"

namespace paceline::wire {
namespace {

grpc::Status Full(const char* what) {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, std::string("too many ") + what};
}

}  // namespace

// ---- agents ----

AgentConnection::AgentConnection(ServerParts* parts, grpc::CallbackServerContext* context)
    : ServerStream(context),
      parts_(parts),
      place_(&parts->streams, context->peer()),
      names_(NodesActedFor(*context)) {
  is_known_ = place_.is_taken() && parts_->agents.Add(this, parts_->options.agents_max, &id_);
  Open();
  if (!is_known_) CloseGently(Full("agents"));
}

bool AgentConnection::MaySpeakFor(const std::string& node) const {
  return !parts_->options.credentials.is_tls() ||
         std::find(names_.begin(), names_.end(), node) != names_.end();
}

void AgentConnection::Heard(const v1::AgentMessage& encoded) {
  if (!is_known_ || is_refused_) return;
  absl::StatusOr<AgentMessage> message = FromProto(encoded);
  const bool is_register = message.ok() && std::holds_alternative<Register>(*message);
  if (encoded.ByteSizeLong() > static_cast<size_t>(kAgentMessageBytesMax)) {
    why_ = "a message exceeded its bound";
  } else if (!message.ok()) {
    why_ = std::string(message.status().message());
  } else if (is_register == is_registered_) {
    why_ = is_register ? "a second registration" : "a message before the registration";
  } else if (is_register && !MaySpeakFor(std::get<Register>(*message).report.name)) {
    is_refused_ = true;
    const std::string& node = std::get<Register>(*message).report.name;
    Send(Refusal{.code = "PL-E106",
                 .what = Concat("this agent may not speak for node ", node),
                 .why = names_.empty()
                            ? std::string("its certificate names no node")
                            : Concat("its certificate is for ", names_.front(),
                                     names_.size() > 1 ? " and other nodes of that host" : ""),
                 .fix = "start the host again with the join string, so that it gets its own"});
    return;
  } else {
    is_registered_ = true;
    if (parts_->sink(AgentSaid{id_, std::move(*message)})) return;
    CloseHard(Full("events"));
    return;
  }
  CloseHard({grpc::StatusCode::INVALID_ARGUMENT, why_});
}

void AgentConnection::Send(MasterMessage message) {
  const bool is_refusal = std::holds_alternative<Refusal>(message);
  Queue([&] {
    if (auto* welcome = std::get_if<Welcome>(&message)) welcome_ = std::move(*welcome);
    if (auto* pace = std::get_if<Pace>(&message)) pace_ = *pace;
    if (auto* order = std::get_if<CheckpointOrder>(&message)) checkpoint_ = std::move(*order);
    if (auto* order = std::get_if<EvidenceOrder>(&message)) {
      ((order->round & kAskedByPerson) != 0 ? stacks_ : evidence_) = *order;
    }
    if (auto* piece = std::get_if<JournalBytes>(&message)) journal_piece_ = std::move(*piece);
    if (auto* wanted = std::get_if<JournalWanted>(&message)) journal_wanted_ = *wanted;
    if (auto* rings = std::get_if<RingsWanted>(&message)) rings_wanted_.push_back(*rings);
    if (auto* order = std::get_if<LinkTry>(&message)) try_link_ = std::move(*order);
    if (auto* assignment = std::get_if<Assignment>(&message)) assignment_ = std::move(*assignment);
    if (auto* refusal = std::get_if<Refusal>(&message)) refusal_ = std::move(*refusal);
  });
  if (is_refusal) CloseGently(grpc::Status::OK);
}

bool AgentConnection::TakeNext(v1::MasterMessage* message) {
  const auto take = [&](auto& place) {
    if (!place.has_value()) return false;
    message->Clear();
    ToProto(MasterMessage(std::move(*place)), message);
    place.reset();
    return true;
  };
  const auto take_rings = [&] {
    if (rings_wanted_.empty()) return false;
    message->Clear();
    ToProto(MasterMessage(rings_wanted_.front()), message);
    rings_wanted_.pop_front();
    return true;
  };
  // The assignment last, because an agent that must leave first has to know which images still go
  // to storage.
  return take(welcome_) || take(pace_) || take(checkpoint_) || take(assignment_) ||
         take(evidence_) || take(stacks_) || take(try_link_) || take(journal_wanted_) ||
         take(journal_piece_) || take_rings() || take(refusal_);
}

void AgentConnection::OnDone() {
  if (is_known_) {
    parts_->agents.Remove(id_);
    if (is_registered_) parts_->sink(AgentDisconnected{id_, why_});
  }
  delete this;
}

// ---- launchers ----

Supervisor::Supervisor(ServerParts* parts, grpc::CallbackServerContext* context)
    : ServerStream(context),
      parts_(parts),
      place_(&parts->streams, context->peer()),
      is_operator_(IsOperator(*context)),
      names_(NodesActedFor(*context)) {
  is_known_ =
      place_.is_taken() && parts_->supervisors.Add(this, parts_->options.launchers_max, &id_);
  const bool is_told = is_known_ && parts_->sink(SupervisorAttached{id_, is_operator_});
  Open();
  if (!is_told) CloseGently(Full(is_known_ ? "events" : "launchers"));
}

void Supervisor::Heard(const v1::SupervisorMessage& encoded) {
  if (!is_known_) return;
  absl::StatusOr<SupervisorMessage> message = FromProto(encoded);
  if (!message.ok()) {
    CloseHard(ToGrpc(message.status()));
    return;
  }
  const std::string& node = std::visit([](const auto& body) { return body.name; }, *message);
  if (!MaySpeakOf(node)) {
    CloseHard({grpc::StatusCode::PERMISSION_DENIED,
               "the certificate of this host does not name node " + node});
  } else if (const bool is_last = std::holds_alternative<EndKept>(*message);
             !parts_->sink(SupervisorSaid{id_, std::move(*message)})) {
    CloseHard(Full("events"));
  } else if (is_last) {
    CloseGently(grpc::Status::OK);
  }
}

bool Supervisor::MaySpeakOf(const std::string& node) const {
  if (is_operator_ || !parts_->options.credentials.is_tls()) return true;
  return std::find(names_.begin(), names_.end(), node) != names_.end();
}

void Supervisor::Order(SupervisorOrder order) {
  // An operator's stream stays open until the operator has stored the end (EndKept).
  const bool is_last = std::holds_alternative<JobEnded>(order) && !is_operator_;
  bool is_full = false;
  Queue([&] {
    is_full = orders_.size() >= kOrdersMax;
    if (!is_full) orders_.push_back(std::move(order));
  });
  if (is_full) CloseHard(Full("orders"));
  if (is_last) CloseGently(grpc::Status::OK);
}

bool Supervisor::TakeNext(v1::SupervisorOrder* message) {
  if (orders_.empty()) return false;
  message->Clear();
  ToProto(orders_.front(), message);
  orders_.pop_front();
  return true;
}

void Supervisor::OnDone() {
  if (is_known_) {
    parts_->supervisors.Remove(id_);
    parts_->sink(SupervisorDetached{id_});
  }
  delete this;
}

// ---- watchers ----

Watch::Watch(ServerParts* parts, const grpc::CallbackServerContext& context,
             const v1::WatchEventsRequest& request)
    : parts_(parts),
      place_(&parts->streams, context.peer()),
      follow_(request.follow()),
      next_seq_(std::max<uint64_t>(request.from_seq(), 1)) {
  is_known_ = place_.is_taken() && parts_->watches.Add(this, parts_->options.watchers_max, &id_);
  if (is_known_) {
    StartSendInitialMetadata();
    Want();
  } else {
    is_finished_ = true;
    Finish(Full("watchers"));
  }
}

void Watch::Want() {
  uint64_t from = 0;
  {
    const std::lock_guard lock(mutex_);
    from = next_seq_;
  }
  const bool taken = parts_->sink(
      EventsWanted{.watch = id_, .from_seq = from, .count_max = kPage, .follow = follow_});
  if (taken) return;
  const std::lock_guard lock(mutex_);
  if (!is_finished_) Finish(Full("events"));
  is_finished_ = true;
}

void Watch::Send(std::vector<JobEvent> events, bool is_last) {
  const std::lock_guard lock(mutex_);
  size_t bytes = kMessageBytes;
  for (const JobEvent& event : events) {
    if (bytes >= kMessageBytes) {
      pages_.emplace_back();
      bytes = 0;
    }
    v1::JobEvent* encoded = pages_.back().add_events();
    ToProto(event, encoded);
    bytes += encoded->ByteSizeLong();
    next_seq_ = event.seq + 1;
  }
  is_last_ = is_last_ || is_last;
  WriteNext();
}

// The lock must be held.
void Watch::WriteNext() {
  if (is_writing_ || is_finished_) return;
  if (!pages_.empty()) {
    writing_ = std::move(pages_.front());
    pages_.pop_front();
    is_writing_ = true;
    StartWrite(&writing_);
  } else if (is_last_) {
    is_finished_ = true;
    Finish(grpc::Status::OK);
  }
}

void Watch::OnWriteDone(bool ok) {
  bool wants_more = false;
  {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    if (ok) {
      wants_more = pages_.empty() && !is_last_;
      WriteNext();
    } else if (!is_finished_) {
      is_finished_ = true;
      Finish(grpc::Status::CANCELLED);
    }
  }
  if (wants_more) Want();
}

void Watch::OnCancel() {
  const std::lock_guard lock(mutex_);
  if (is_finished_ || is_writing_) return;  // a write in progress fails by itself
  is_finished_ = true;
  Finish(grpc::Status::CANCELLED);
}

void Watch::OnDone() {
  if (is_known_) {
    parts_->watches.Remove(id_);
    parts_->sink(WatchEnded{id_});
  }
  delete this;
}

}  // namespace paceline::wire

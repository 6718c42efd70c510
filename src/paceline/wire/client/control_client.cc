#include "paceline/wire/client/control_client.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/v1/control.grpc.pb.h"
#include "paceline/wire/client/client_stream.h"
#include "paceline/wire/client/dialler.h"
#include "paceline/wire/codec/drill_proto.h"
#include "paceline/wire/codec/evidence_proto.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/ring_proto.h"
#include "paceline/wire/codec/size_proto.h"
#include "paceline/wire/codec/supervise_proto.h"
#include "paceline/wire/speech.h"

namespace paceline::wire {
namespace {

using SupervisorCall = ClientStream<pb::SupervisorMessage, pb::SupervisorOrder>;

}  // namespace

struct ControlClient::Parts {
  ControlClientOptions options;
  std::shared_ptr<grpc::Channel> kept;  // for all calls; null: each call has its own
  std::mutex mutex;                     // guards the two below
  grpc::ClientContext* watching = nullptr;
  bool is_cancelled = false;

  // Waits for a restarting master, up to the timeout.
  absl::StatusOr<std::unique_ptr<pb::Control::Stub>> Prepare(grpc::ClientContext* context) const {
    const auto until =
        std::chrono::system_clock::now() + std::chrono::nanoseconds(options.timeout.nanoseconds());
    AddToken(context, options.credentials);
    context->set_wait_for_ready(true);
    context->set_deadline(until);
    std::shared_ptr<grpc::Channel> channel = kept;
    if (channel == nullptr) {
      ASSIGN_OR_RETURN(channel, DialUntil(options.address, options.credentials, until));
    } else {
      RETURN_IF_ERROR(AwaitConnection(channel.get(), options.address, options.credentials, until));
    }
    return pb::Control::NewStub(channel);
  }

  // Sends a request, and returns the answer.
  template <class Answer, class Request, class PbRequest, class PbReply>
  absl::StatusOr<Answer> Ask(const Request& request,
                             grpc::Status (pb::Control::Stub::*call)(grpc::ClientContext*,
                                                                     const PbRequest&,
                                                                     PbReply*)) const {
    grpc::ClientContext context;
    ASSIGN_OR_RETURN(const auto stub, Prepare(&context));
    PbRequest encoded;
    ToProto(request, &encoded);
    PbReply reply;
    RETURN_IF_ERROR(Outcome((stub.get()->*call)(&context, encoded, &reply)));
    Answer answer;
    RETURN_IF_ERROR(FromProto(reply, &answer));
    return answer;
  }

  absl::Status Outcome(const grpc::Status& status) const {
    // If there was never a connection, the error is that no process answered, not a timeout.
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return absl::UnavailableError("the master does not answer");
    }
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE && kept == nullptr) {
      RETURN_IF_ERROR(CheckSpeech(options.address, /*wants_tls=*/false, kProbePatience));
    }
    return ToAbsl(status);
  }
};

ControlClient::ControlClient(ControlClientOptions options) : parts_(std::make_unique<Parts>()) {
  parts_->options = std::move(options);
  const auto& [address, credentials, timeout] = parts_->options;
  if (ConnectsAgain(address, credentials)) parts_->kept = *Dial(address, credentials);
}
ControlClient::~ControlClient() = default;

absl::StatusOr<JobStatus> ControlClient::GetStatus() {
  grpc::ClientContext context;
  ASSIGN_OR_RETURN(const auto stub, parts_->Prepare(&context));
  pb::JobStatus reply;
  RETURN_IF_ERROR(parts_->Outcome(stub->GetStatus(&context, {}, &reply)));
  JobStatus status;
  RETURN_IF_ERROR(FromProto(reply, &status));
  return status;
}

absl::StatusOr<JobStacks> ControlClient::GetStacks() {
  grpc::ClientContext context;
  ASSIGN_OR_RETURN(const auto stub, parts_->Prepare(&context));
  pb::JobStacks reply;
  RETURN_IF_ERROR(parts_->Outcome(stub->GetStacks(&context, {}, &reply)));
  JobStacks stacks;
  RETURN_IF_ERROR(FromProto(reply, &stacks));
  return stacks;
}

absl::StatusOr<RingsReply> ControlClient::ReadRings(const RingsRequest& request) {
  return parts_->Ask<RingsReply>(request, &pb::Control::Stub::ReadRings);
}

absl::StatusOr<PageLink> ControlClient::OpenPage() {
  grpc::ClientContext context;
  ASSIGN_OR_RETURN(const auto stub, parts_->Prepare(&context));
  pb::PageLink reply;
  RETURN_IF_ERROR(parts_->Outcome(stub->OpenPage(&context, {}, &reply)));
  return PageLink{.http = reply.http(), .code = reply.code(), .host = reply.host()};
}

absl::Status ControlClient::Stop(const StopRequest& request) {
  grpc::ClientContext context;
  ASSIGN_OR_RETURN(const auto stub, parts_->Prepare(&context));
  pb::StopRequest encoded;
  ToProto(request, &encoded);
  pb::StopReply reply;
  return parts_->Outcome(stub->Stop(&context, encoded, &reply));
}

absl::StatusOr<ScaleReply> ControlClient::Scale(const ScaleRequest& request) {
  return parts_->Ask<ScaleReply>(request, &pb::Control::Stub::Scale);
}

absl::StatusOr<DrillReply> ControlClient::Drill(const DrillRequest& request) {
  return parts_->Ask<DrillReply>(request, &pb::Control::Stub::Drill);
}

absl::Status ControlClient::WatchEvents(uint64_t from_seq, bool follow,
                                        const std::function<bool(const JobEvent&)>& take) {
  std::shared_ptr<grpc::Channel> channel = parts_->kept;
  if (channel == nullptr) {
    ASSIGN_OR_RETURN(channel, Dial(parts_->options.address, parts_->options.credentials));
  }
  const auto stub = pb::Control::NewStub(channel);
  grpc::ClientContext context;
  // Following lasts as long as the job, so only the connecting has a timeout.
  AddToken(&context, parts_->options.credentials);
  {
    const std::lock_guard lock(parts_->mutex);
    if (parts_->is_cancelled) return absl::CancelledError("cancelled");
    parts_->watching = &context;
  }
  pb::WatchEventsRequest request;
  request.set_from_seq(from_seq);
  request.set_follow(follow);
  auto reader = stub->WatchEvents(&context, request);
  pb::JobEvents page;
  absl::Status status;
  bool goes_on = true;
  while (goes_on && reader->Read(&page)) {
    for (const pb::JobEvent& encoded : page.events()) {
      JobEvent event;
      status = FromProto(encoded, &event);
      goes_on = status.ok() && take(event);
      if (!goes_on) break;
    }
  }
  if (!goes_on) context.TryCancel();
  const grpc::Status end = reader->Finish();
  const std::lock_guard lock(parts_->mutex);
  parts_->watching = nullptr;
  if (parts_->is_cancelled) return absl::CancelledError("cancelled");
  return goes_on ? ToAbsl(end) : status;
}

void ControlClient::Cancel() {
  const std::lock_guard lock(parts_->mutex);
  parts_->is_cancelled = true;
  if (parts_->watching != nullptr) parts_->watching->TryCancel();
}

class SupervisorStream::Channel {
 public:
  Channel(ControlClientOptions options, Sink sink, Route route)
      : options_(std::move(options)),
        sink_(std::move(sink)),
        dialler_(std::move(route), options_.credentials) {
    stream_ = std::make_shared<SupervisorCall>(
        SupervisorCall::Hooks{
            .call = [this](grpc::ClientContext* context,
                           SupervisorCall::Reactor* reactor) -> absl::Status {
              AddToken(context, options_.credentials);
              ASSIGN_OR_RETURN(const auto channel, dialler_.Next());
              stub_ = pb::Control::NewStub(channel);
              stub_->async()->Supervise(context, reactor);
              return absl::OkStatus();
            },
            .on_open =
                [this] {
                  dialler_.Opened();
                  sink_(SupervisorOpened{});
                },
            .on_message = [this](const pb::SupervisorOrder& order) { return Heard(order); },
            .on_broken = [this](const grpc::Status& status) { Broken(status); }},
        ReconnectPace{.first = Duration::Milliseconds(20), .longest = Duration::Milliseconds(500)});
    stream_->Start();
  }

  ~Channel() { stream_->Shutdown(); }

  bool Send(const SupervisorMessage& message) {
    pb::SupervisorMessage encoded;
    ToProto(message, &encoded);
    return stream_->Write(std::move(encoded));
  }

 private:
  SupervisorCall::Verdict Heard(const pb::SupervisorOrder& encoded) {
    absl::StatusOr<SupervisorOrder> order = FromProto(encoded);
    if (!order.ok()) return SupervisorCall::Verdict::kReconnect;
    const auto verdict = std::holds_alternative<JobEnded>(*order) ? SupervisorCall::Verdict::kStop
                                                                  : SupervisorCall::Verdict::kGoOn;
    std::visit([this](auto& body) { sink_(std::move(body)); }, *order);
    return verdict;
  }

  void Broken(const grpc::Status& status) {
    dialler_.Broken(status);
    sink_(SupervisorBroken{
        .why = status.ok() ? "the master closed the stream" : status.error_message(),
        .is_denied = status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
                     status.error_code() == grpc::StatusCode::PERMISSION_DENIED});
  }

  const ControlClientOptions options_;
  const Sink sink_;
  Dialler dialler_;
  std::unique_ptr<pb::Control::Stub> stub_;  // of the current attempt
  std::shared_ptr<SupervisorCall> stream_;   // owners: this, and each RPC of it
};

SupervisorStream::SupervisorStream(ControlClientOptions options, Sink sink,
                                   const std::vector<std::string>& relays, const std::string& who) {
  Route route(options.address, relays, who);
  channel_ = std::make_unique<Channel>(std::move(options), std::move(sink), std::move(route));
}
SupervisorStream::~SupervisorStream() = default;
bool SupervisorStream::Send(const SupervisorMessage& message) { return channel_->Send(message); }

}  // namespace paceline::wire

#include "paceline/wire/server/master_server.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/v1/control.grpc.pb.h"
#include "paceline/v1/master.grpc.pb.h"
#include "paceline/wire/client/channel.h"
#include "paceline/wire/codec/drill_proto.h"
#include "paceline/wire/codec/evidence_proto.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/ring_proto.h"
#include "paceline/wire/codec/size_proto.h"
#include "paceline/wire/security/certificates.h"
#include "paceline/wire/security/guard.h"
#include "paceline/wire/server/server_parts.h"
#include "paceline/wire/server/server_setup.h"

namespace paceline::wire {
namespace {

// Ends an RPC at once with an error.
template <class Base>
class Denied final : public Base {
 public:
  explicit Denied(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};
template <class In, class Out>
using DeniedStream = Denied<grpc::ServerBidiReactor<In, Out>>;

// A unary call that waits for the host. If it is dropped unanswered it returns UNAVAILABLE, so that
// the server can always shut down.
class PendingCall {
 public:
  explicit PendingCall(grpc::ServerUnaryReactor* reactor) : reactor_(reactor) {}
  ~PendingCall() { Finish({grpc::StatusCode::UNAVAILABLE, "the master is ending"}); }
  void Finish(const grpc::Status& status) {
    if (!is_finished_.exchange(true)) reactor_->Finish(status);
  }

 private:
  grpc::ServerUnaryReactor* const reactor_;
  std::atomic<bool> is_finished_ = false;
};

class MasterRpc final : public v1::Master::CallbackService {
 public:
  MasterRpc(ServerParts* parts, const Guard* guard) : parts_(parts), guard_(guard) {}

  grpc::ServerBidiReactor<v1::AgentMessage, v1::MasterMessage>* Attach(
      grpc::CallbackServerContext* context) override {
    const grpc::Status status = guard_->Check(*context);
    if (!status.ok()) return new DeniedStream<v1::AgentMessage, v1::MasterMessage>(status);
    return new AgentConnection(parts_, context);
  }

 private:
  ServerParts* const parts_;
  const Guard* const guard_;
};

class ControlRpc final : public v1::Control::CallbackService {
 public:
  ControlRpc(ServerParts* parts, const Guard* guard) : parts_(parts), guard_(guard) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest*, v1::JobStatus* reply) override {
    return Answer(context, guard_->Check(*context), [reply](const Call& call) {
      return StatusAsked{.reply = [call, reply](const JobStatus& status) {
        ToProto(status, reply);
        call->Finish(grpc::Status::OK);
      }};
    });
  }

  grpc::ServerUnaryReactor* GetStacks(grpc::CallbackServerContext* context,
                                      const v1::GetStacksRequest*, v1::JobStacks* reply) override {
    return Answer(context, guard_->Check(*context), [reply](const Call& call) {
      return StacksAsked{.reply = [call, reply](const JobStacks& stacks) {
        ToProto(stacks, reply);
        call->Finish(grpc::Status::OK);
      }};
    });
  }

  grpc::ServerUnaryReactor* ReadRings(grpc::CallbackServerContext* context,
                                      const v1::ReadRingsRequest* request,
                                      v1::RingsReply* reply) override {
    grpc::Status status = guard_->Check(*context);
    RingsAsked asked;
    if (status.ok()) status = ToGrpc(FromProto(*request, &asked.request));
    return Answer(context, status, [&asked, reply](const Call& call) {
      asked.reply = [call, reply](const RingsReply& result) {
        ToProto(result, reply);
        call->Finish(grpc::Status::OK);
      };
      return std::move(asked);
    });
  }

  grpc::ServerUnaryReactor* OpenPage(grpc::CallbackServerContext* context,
                                     const v1::OpenPageRequest*, v1::PageLink* reply) override {
    return Answer(context, guard_->Check(*context), [reply](const Call& call) {
      return PageAsked{.reply = [call, reply](const PageLink& link) {
        reply->set_http(link.http);
        reply->set_code(link.code);
        reply->set_host(link.host);
        call->Finish(grpc::Status::OK);
      }};
    });
  }

  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const v1::StopRequest* request, v1::StopReply*) override {
    grpc::Status status = guard_->Check(*context);
    StopAsked asked;
    if (status.ok()) status = ToGrpc(FromProto(*request, &asked.request));
    return Answer(context, status, [&asked](const Call& call) {
      asked.reply = [call](const absl::Status& result) { call->Finish(ToGrpc(result)); };
      return std::move(asked);
    });
  }

  grpc::ServerUnaryReactor* Scale(grpc::CallbackServerContext* context,
                                  const v1::ScaleRequest* request, v1::ScaleReply* reply) override {
    grpc::Status status = guard_->Check(*context);
    ScaleAsked asked;
    if (status.ok()) status = ToGrpc(FromProto(*request, &asked.request));
    return Answer(context, status, [&asked, reply](const Call& call) {
      asked.reply = [call, reply](const ScaleReply& result) {
        ToProto(result, reply);
        call->Finish(grpc::Status::OK);
      };
      return std::move(asked);
    });
  }

  grpc::ServerUnaryReactor* Drill(grpc::CallbackServerContext* context,
                                  const v1::DrillRequest* request, v1::DrillReply* reply) override {
    grpc::Status status = guard_->Check(*context);
    DrillAsked asked;
    if (status.ok()) status = ToGrpc(FromProto(*request, &asked.request));
    return Answer(context, status, [&asked, reply](const Call& call) {
      asked.reply = [call, reply](const DrillReply& result) {
        ToProto(result, reply);
        call->Finish(grpc::Status::OK);
      };
      return std::move(asked);
    });
  }

  grpc::ServerWriteReactor<v1::JobEvents>* WatchEvents(
      grpc::CallbackServerContext* context, const v1::WatchEventsRequest* request) override {
    const grpc::Status status = guard_->Check(*context);
    if (!status.ok()) return new Denied<grpc::ServerWriteReactor<v1::JobEvents>>(status);
    return new Watch(parts_, *context, *request);
  }

  grpc::ServerBidiReactor<v1::SupervisorMessage, v1::SupervisorOrder>* Supervise(
      grpc::CallbackServerContext* context) override {
    const grpc::Status status = guard_->Check(*context);
    if (!status.ok()) return new DeniedStream<v1::SupervisorMessage, v1::SupervisorOrder>(status);
    return new Supervisor(parts_, context);
  }

 private:
  using Call = std::shared_ptr<PendingCall>;  // owners: the event, its copies

  // A call that the loop answers later. `make` makes the event; it is called if `allowed` is OK.
  template <class Make>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                   const grpc::Status& allowed, Make make) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (!allowed.ok()) {
      reactor->Finish(allowed);
      return reactor;
    }
    const auto call = std::make_shared<PendingCall>(reactor);
    if (!parts_->sink(make(call))) {
      call->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "the master is overloaded"});
    }
    return reactor;
  }

  ServerParts* const parts_;
  const Guard* const guard_;
};

// Returns true if these can be the names of the calling host's nodes. A longer list than a user
// would start on one host is refused.
bool AreNodeNames(const std::vector<std::string>& names) {
  constexpr size_t kNodesPerHostMax = 256;
  return !names.empty() && names.size() <= kNodesPerHostMax &&
         std::all_of(names.begin(), names.end(),
                     [](const std::string& name) { return IsName(name); });
}

class EnrollmentRpc final : public v1::Enrollment::CallbackService {
 public:
  EnrollmentRpc(const MasterServerOptions* options, const Guard* guard)
      : options_(options), guard_(guard) {}

  grpc::ServerUnaryReactor* Enroll(grpc::CallbackServerContext* context,
                                   const v1::EnrollRequest* request,
                                   v1::EnrollReply* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    grpc::Status status = guard_->CheckToken(*context);
    const std::vector<std::string> names(request->node_names().begin(),
                                         request->node_names().end());
    const ServerCredentials& credentials = options_->credentials;
    if (status.ok() && (!credentials.is_tls() || !AreNodeNames(names))) {
      status = {grpc::StatusCode::INVALID_ARGUMENT, "no certificate for such a node"};
    }
    if (status.ok() && request->is_relay() && !options_->has_relays) {
      status = {grpc::StatusCode::PERMISSION_DENIED, "this job was started without --relays"};
    }
    if (status.ok()) {
      absl::StatusOr<std::string> certificate =
          SignRequest({.key_pem = credentials.ca_key_pem, .certificate_pem = credentials.ca_pem},
                      request->request_pem(), {.names = names, .role = RoleOf(*request)});
      if (certificate.ok()) reply->set_certificate_pem(*certificate);
      status = ToGrpc(certificate.status());
    }
    reactor->Finish(status);
    return reactor;
  }

 private:
  static CertificateSubject::Role RoleOf(const v1::EnrollRequest& request) {
    return request.is_relay() ? CertificateSubject::Role::kRelay : CertificateSubject::Role::kHost;
  }

  const MasterServerOptions* const options_;
  const Guard* const guard_;
};

uint32_t StreamsInAll(const MasterServerOptions& options) {
  return options.agents_max + options.launchers_max + options.watchers_max;
}

uint32_t StreamsPerPeer(const MasterServerOptions& options) {
  constexpr uint32_t kStreamsPerPeerMax = 4096;
  if (options.streams_per_peer_max > 0) return options.streams_per_peer_max;
  return IsLoopbackAddress(options.listen) ? StreamsInAll(options) : kStreamsPerPeerMax;
}

}  // namespace

class MasterServer::Service {
 public:
  Service(MasterServerOptions options, Sink sink)
      : parts{.streams = StreamLimit(StreamsPerPeer(options)),
              .options = std::move(options),
              .sink = std::move(sink)},
        guard(parts.options.credentials,
              UnprovenConnections::BoundsFor(parts.options.listen,
                                             parts.options.unproven_per_peer_max,
                                             StreamsInAll(parts.options), DescriptorLimit())),
        master(&parts, &guard),
        control(&parts, &guard),
        enrollment(&parts.options, &guard) {}

  absl::Status Start() {
    const ServerCredentials& credentials = parts.options.credentials;
    ASSIGN_OR_RETURN(const auto builder, BeginServer(credentials));
    builder->RegisterService(&master);
    builder->RegisterService(&control);
    builder->RegisterService(&enrollment);
    ASSIGN_OR_RETURN(server, JobServer::Start(builder.get(), {"master", parts.options.listen},
                                              credentials, guard.unproven()));
    return absl::OkStatus();
  }

  ServerParts parts;
  const Guard guard;
  MasterRpc master;
  ControlRpc control;
  EnrollmentRpc enrollment;
  std::unique_ptr<JobServer> server;  // last: its callees must outlive it
};

MasterServer::MasterServer(std::unique_ptr<Service> service) : service_(std::move(service)) {}
MasterServer::~MasterServer() = default;

absl::StatusOr<std::unique_ptr<MasterServer>> MasterServer::Start(MasterServerOptions options,
                                                                  Sink sink) {
  auto service = std::make_unique<Service>(std::move(options), std::move(sink));
  RETURN_IF_ERROR(service->Start());
  return std::unique_ptr<MasterServer>(new MasterServer(std::move(service)));
}

uint32_t MasterServer::port() const { return static_cast<uint32_t>(service_->server->port()); }

void MasterServer::Send(ConnectionId connection, MasterMessage message) {
  service_->parts.agents.With(connection,
                              [&](AgentConnection& agent) { agent.Send(std::move(message)); });
}

void MasterServer::Close(ConnectionId connection, std::string why) {
  service_->parts.agents.With(connection, [&](AgentConnection& agent) {
    agent.CloseHard({grpc::StatusCode::ABORTED, why});
  });
}

void MasterServer::SendEvents(WatchId watch, std::vector<JobEvent> events, bool is_last) {
  service_->parts.watches.With(watch,
                               [&](Watch& stream) { stream.Send(std::move(events), is_last); });
}

void MasterServer::Order(SupervisorId supervisor, SupervisorOrder order) {
  service_->parts.supervisors.With(supervisor,
                                   [&](Supervisor& stream) { stream.Order(std::move(order)); });
}

}  // namespace paceline::wire

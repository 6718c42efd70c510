#include "paceline/wire/master_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "google/protobuf/stubs/logging.h"
#include "grpcpp/server_builder.h"
#include "paceline/base/status_macros.h"
#include "paceline/model/problem.h"
#include "paceline/v1/control.grpc.pb.h"
#include "paceline/v1/master.grpc.pb.h"
#include "paceline/wire/certificates.h"
#include "paceline/wire/channel.h"
#include "paceline/wire/from_proto.h"
#include "paceline/wire/peer_limits.h"
#include "paceline/wire/server_parts.h"

namespace paceline::wire {
namespace {

constexpr int kHeaderBytesMax = 8 * 1024;

// gRPC 1.51 has no option for the lowest version of TLS, only one for the ciphers of TLS 1.2 (those
// of TLS 1.3 are always on). This cipher needs an RSA certificate. Ours are ECDSA, so TLS 1.2 finds
// no cipher to agree on.
constexpr char kTlsCiphersVariable[] = "GRPC_SSL_CIPHER_SUITES";
constexpr char kTlsCiphers[] = "ECDHE-RSA-AES256-GCM-SHA384";

// Ends an RPC at once.
template <class Base>
class Denied final : public Base {
 public:
  explicit Denied(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};
template <class In, class Out>
using DeniedStream = Denied<grpc::ServerBidiReactor<In, Out>>;

// A unary call that waits for the host. Whoever drops it unanswered answers UNAVAILABLE, so that
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

// Who may call: the token always, a certificate of the job too when the job has certificates.
class Guard {
 public:
  explicit Guard(const ServerCredentials& credentials) : credentials_(credentials) {}

  grpc::Status CheckToken(const grpc::CallbackServerContext& context) const {
    const auto& metadata = context.client_metadata();
    const auto [begin, end] = metadata.equal_range("authorization");
    if (begin != end && std::next(begin) == end) {
      const std::string expected = "Bearer " + credentials_.token;
      if (TokensEqual(expected, {begin->second.data(), begin->second.size()})) {
        return grpc::Status::OK;
      }
    }
    return Failed(context, "the token is missing or wrong");
  }

  grpc::Status Check(const grpc::CallbackServerContext& context) const {
    grpc::Status status = CheckToken(context);
    if (!status.ok() || !credentials_.is_tls()) return status;
    if (context.auth_context()->IsPeerAuthenticated()) return status;
    return Failed(context, "a certificate of this job is missing");
  }

 private:
  grpc::Status Failed(const grpc::CallbackServerContext& context, const char* why) const {
    const Instant now = Instant::FromNanoseconds(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
    if (failures_.Take(PeerHost(context.peer()), now)) {
      return {grpc::StatusCode::UNAUTHENTICATED, why};
    }
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many failed attempts from this address"};
  }

  const ServerCredentials& credentials_;
  mutable FailureLimit failures_;
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
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const grpc::Status allowed = guard_->Check(*context);
    if (!allowed.ok()) {
      reactor->Finish(allowed);
      return reactor;
    }
    const auto call = std::make_shared<PendingCall>(reactor);  // owners: the event, its copies
    const bool taken = parts_->sink(StatusAsked{.reply = [call, reply](const JobStatus& status) {
      ToProto(status, reply);
      call->Finish(grpc::Status::OK);
    }});
    if (!taken) call->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "the master is overloaded"});
    return reactor;
  }

  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const v1::StopRequest* request, v1::StopReply*) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    grpc::Status status = guard_->Check(*context);
    StopAsked asked;
    if (status.ok()) status = ToGrpc(FromProto(*request, &asked.request));
    if (!status.ok()) {
      reactor->Finish(status);
      return reactor;
    }
    const auto call = std::make_shared<PendingCall>(reactor);  // owners: the event, its copies
    asked.reply = [call](const absl::Status& result) { call->Finish(ToGrpc(result)); };
    if (!parts_->sink(std::move(asked))) {
      call->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "the master is overloaded"});
    }
    return reactor;
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
  ServerParts* const parts_;
  const Guard* const guard_;
};

// Of the host that asks; more than a person would start on one host are a mistake or worse.
bool AreNodeNames(const std::vector<std::string>& names) {
  constexpr size_t kNodesPerHostMax = 256;
  return !names.empty() && names.size() <= kNodesPerHostMax &&
         std::all_of(names.begin(), names.end(),
                     [](const std::string& name) { return IsName(name); });
}

class EnrollmentRpc final : public v1::Enrollment::CallbackService {
 public:
  EnrollmentRpc(const ServerCredentials* credentials, const Guard* guard)
      : credentials_(credentials), guard_(guard) {}

  grpc::ServerUnaryReactor* Enroll(grpc::CallbackServerContext* context,
                                   const v1::EnrollRequest* request,
                                   v1::EnrollReply* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    grpc::Status status = guard_->CheckToken(*context);
    const std::vector<std::string> names(request->node_names().begin(),
                                         request->node_names().end());
    if (status.ok() && (!credentials_->is_tls() || !AreNodeNames(names))) {
      status = {grpc::StatusCode::INVALID_ARGUMENT, "no certificate for such a node"};
    }
    if (status.ok()) {
      absl::StatusOr<std::string> certificate = SignRequest(
          {.key_pem = credentials_->ca_key_pem, .certificate_pem = credentials_->ca_pem},
          request->request_pem(), {.names = names, .is_server = false});
      if (certificate.ok()) reply->set_certificate_pem(*certificate);
      status = ToGrpc(certificate.status());
    }
    reactor->Finish(status);
    return reactor;
  }

 private:
  const ServerCredentials* const credentials_;
  const Guard* const guard_;
};

std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const ServerCredentials& credentials) {
  if (!credentials.is_tls()) return grpc::InsecureServerCredentials();
  // A joining host has no certificate yet; Guard asks all others for theirs.
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = credentials.ca_pem;
  options.pem_key_cert_pairs.push_back(
      {.private_key = credentials.key_pem, .cert_chain = credentials.cert_pem});
  return grpc::SslServerCredentials(options);
}

void SetLimits(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(kControlMessageBytesMax);
  builder->SetMaxSendMessageSize(kReplyBytesMax);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a taken port is an error
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kHeaderBytesMax);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 2048);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
}

absl::Status CannotListen(const std::string& listen) {
  return ToStatus(absl::StatusCode::kAlreadyExists,
                  {.code = "PL-E031",
                   .what = "the master cannot listen on " + listen,
                   .where = listen,
                   .why = "another process listens on that port, or the address belongs to no "
                          "interface of this host",
                   .fix = "choose another --rdzv-endpoint, or leave it out to get a free port"});
}

uint32_t StreamsPerPeer(const MasterServerOptions& options) {
  constexpr uint32_t kStreamsPerPeerMax = 4096;
  if (options.streams_per_peer_max > 0) return options.streams_per_peer_max;
  const bool is_local = options.listen.starts_with("127.") || options.listen.starts_with("[::1]") ||
                        options.listen.starts_with("localhost:");
  return is_local ? options.agents_max + options.others_max : kStreamsPerPeerMax;
}

absl::Status CheckTls13() {
  const char* ciphers = std::getenv(kTlsCiphersVariable);
  if (ciphers != nullptr && std::string_view(ciphers) == kTlsCiphers) return absl::OkStatus();
  return absl::FailedPreconditionError("UseOnlyTls13 was not called before the server was made");
}

}  // namespace

void UseOnlyTls13() { setenv(kTlsCiphersVariable, kTlsCiphers, 1); }

class MasterServer::Service {
 public:
  Service(MasterServerOptions options, Sink sink)
      : parts{.streams = StreamLimit(StreamsPerPeer(options)),
              .options = std::move(options),
              .sink = std::move(sink)},
        guard(parts.options.credentials),
        master(&parts, &guard),
        control(&parts, &guard),
        enrollment(&parts.options.credentials, &guard) {}

  absl::Status Start() {
    if (parts.options.credentials.is_tls()) RETURN_IF_ERROR(CheckTls13());
    // A message that is not one is an error of its sender; protobuf need not print a line as well.
    google::protobuf::SetLogHandler(nullptr);
    PrepareTransport();
    grpc::ServerBuilder builder;
    SetLimits(&builder);
    builder.AddListeningPort(parts.options.listen, MakeCredentials(parts.options.credentials),
                             &port);
    builder.RegisterService(&master);
    builder.RegisterService(&control);
    builder.RegisterService(&enrollment);
    server = builder.BuildAndStart();
    if (server == nullptr || port == 0) return CannotListen(parts.options.listen);
    return absl::OkStatus();
  }

  ~Service() {
    if (server == nullptr) return;
    // What is queued (a refusal, the job's end) has 100 ms to leave.
    server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
    server->Wait();
  }

  ServerParts parts;
  const Guard guard;
  MasterRpc master;
  ControlRpc control;
  EnrollmentRpc enrollment;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

MasterServer::MasterServer(std::unique_ptr<Service> service) : service_(std::move(service)) {}
MasterServer::~MasterServer() = default;

absl::StatusOr<std::unique_ptr<MasterServer>> MasterServer::Start(MasterServerOptions options,
                                                                  Sink sink) {
  auto service = std::make_unique<Service>(std::move(options), std::move(sink));
  RETURN_IF_ERROR(service->Start());
  return std::unique_ptr<MasterServer>(new MasterServer(std::move(service)));
}

uint32_t MasterServer::port() const { return static_cast<uint32_t>(service_->port); }

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

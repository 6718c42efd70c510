#include "paceline/wire/server/server_setup.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "google/protobuf/stubs/logging.h"
#include "grpcpp/security/server_credentials.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/model/problem.h"
#include "paceline/wire/client/channel.h"
#include "paceline/wire/server/master_server.h"

namespace paceline::wire {
namespace {

constexpr int kHeaderBytesMax = 8 * 1024;

// gRPC 1.51 has no option for the lowest TLS version, only for the ciphers of TLS 1.2 (those of TLS
// 1.3 are always allowed). This cipher needs an RSA certificate. Ours are ECDSA, so TLS 1.2 has no
// common cipher.
constexpr char kTlsCiphersVariable[] = "GRPC_SSL_CIPHER_SUITES";
constexpr char kTlsCiphers[] = "ECDHE-RSA-AES256-GCM-SHA384";

absl::Status CheckTls13() {
  const char* ciphers = std::getenv(kTlsCiphersVariable);
  if (ciphers != nullptr && std::string_view(ciphers) == kTlsCiphers) return absl::OkStatus();
  return absl::FailedPreconditionError("UseOnlyTls13 was not called before the server was made");
}

void SetLimits(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(kControlMessageBytesMax);
  builder->SetMaxSendMessageSize(kReplyBytesMax);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kHeaderBytesMax);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
}

std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const ServerCredentials& credentials) {
  if (!credentials.is_tls()) return grpc::InsecureServerCredentials();
  // A joining host has no certificate yet; Guard requires one of all others.
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = credentials.ca_pem;
  options.pem_key_cert_pairs.push_back(
      {.private_key = credentials.key_pem, .cert_chain = credentials.cert_pem});
  return grpc::SslServerCredentials(options);
}

absl::Status CannotListen(const std::string& who, const std::string& listen,
                          const absl::Status& why) {
  const bool is_taken = why.message() == std::strerror(EADDRINUSE);
  return ToStatus(
      absl::StatusCode::kAlreadyExists,
      {.code = "PL-E031",
       .what = Concat("the ", who, " cannot listen on ", listen),
       .where = listen,
       .why = is_taken ? "another process listens on that port" : std::string(why.message()),
       .fix = "choose another --rdzv-endpoint, or leave it out to get a free port"});
}

}  // namespace

void UseOnlyTls13() { setenv(kTlsCiphersVariable, kTlsCiphers, 1); }

absl::StatusOr<std::unique_ptr<grpc::ServerBuilder>> BeginServer(
    const ServerCredentials& credentials) {
  if (credentials.is_tls()) RETURN_IF_ERROR(CheckTls13());
  // A malformed message is its sender's error, and protobuf must not also print a line.
  google::protobuf::SetLogHandler(nullptr);
  PrepareTransport();
  auto builder = std::make_unique<grpc::ServerBuilder>();
  SetLimits(builder.get());
  return builder;
}

absl::StatusOr<std::unique_ptr<JobServer>> JobServer::Start(grpc::ServerBuilder* builder,
                                                            const Place& place,
                                                            const ServerCredentials& credentials,
                                                            UnprovenConnections* unproven) {
  using Experimental = grpc::ServerBuilder::experimental_type;
  std::unique_ptr<JobServer> server(new JobServer(unproven));
  auto listener = Listener::Open(place.listen);
  if (!listener.ok()) return CannotListen(place.who, place.listen, listener.status());
  server->listener_ = *std::move(listener);
  server->acceptor_ = builder->experimental().AddExternalConnectionAcceptor(
      Experimental::ExternalConnectionType::FROM_FD, MakeCredentials(credentials));
  server->server_ = builder->BuildAndStart();
  if (server->server_ == nullptr) return absl::InternalError("gRPC makes no server");
  JobServer* const raw = server.get();
  const auto make_room = [unproven] {
    if (const auto out = unproven->TakeOldest()) ShutDown(*out);
  };
  const auto look = [unproven] {
    for (const Connection& out : unproven->TakeGreedy()) ShutDown(out);
    return unproven->size() > 0;
  };
  server->listener_->Start({.take = [raw](Connection c) { raw->Accept(std::move(c)); },
                            .make_room = make_room,
                            .look = look});
  return server;
}

void JobServer::Accept(Connection connection) {
  Acceptor::NewConnectionParameters accepted;
  accepted.fd = connection.fd;
  // Before gRPC gets it, because its first call may come at once.
  if (const auto out = unproven_->Add(std::move(connection))) ShutDown(*out);
  acceptor_->HandleNewConnection(&accepted);
}

JobServer::~JobServer() {
  listener_.reset();
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  server_->Wait();
}

}  // namespace paceline::wire

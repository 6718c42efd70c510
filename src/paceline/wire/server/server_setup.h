#pragma once

// Internal to wire: common parts of the job's gRPC servers, the master's and a relay's.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/security/unproven.h"
#include "paceline/wire/server/listener.h"

namespace paceline::wire {

// A builder with the job's limits and credentials; services are registered by the caller.
// FAILED_PRECONDITION: certificates without UseOnlyTls13.
absl::StatusOr<std::unique_ptr<grpc::ServerBuilder>> BeginServer(
    const ServerCredentials& credentials);

// Listens and serves until it is destroyed. It accepts connections itself, because gRPC reports a
// connection only at its first call (listener.h, unproven.h).
class JobServer {
 public:
  struct Place {
    std::string who;     // for the error
    std::string listen;  // HOST:PORT; port 0: any
  };
  // With the services registered at `builder`. ALREADY_EXISTS: the port is taken, or the address is
  // not of this host. `unproven` must outlive the server.
  static absl::StatusOr<std::unique_ptr<JobServer>> Start(grpc::ServerBuilder* builder,
                                                          const Place& place,
                                                          const ServerCredentials& credentials,
                                                          UnprovenConnections* unproven);
  // Queued messages (a refusal, the job's end) have 100 ms to be sent.
  ~JobServer();
  JobServer(const JobServer&) = delete;
  JobServer& operator=(const JobServer&) = delete;

  int port() const { return listener_->port(); }

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;
  explicit JobServer(UnprovenConnections* unproven) : unproven_(unproven) {}
  void Accept(Connection connection);

  UnprovenConnections* const unproven_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace paceline::wire

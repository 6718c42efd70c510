#pragma once

// Inside of wire: what the job's gRPC servers, the master's and a relay's, have in common.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/security/unproven.h"
#include "paceline/wire/server/listener.h"

namespace paceline::wire {

// With the job's limits and credentials; nothing is registered yet. FAILED_PRECONDITION: with
// certificates but without UseOnlyTls13.
absl::StatusOr<std::unique_ptr<grpc::ServerBuilder>> BeginServer(
    const ServerCredentials& credentials);

// Listens and serves until it is destroyed. Connections are accepted here and not by gRPC, which
// tells nobody of one before its first call (listener.h, unproven.h).
class JobServer {
 public:
  struct Place {
    std::string who;     // for the error
    std::string listen;  // HOST:PORT; port 0: any
  };
  // With what was registered at `builder`. ALREADY_EXISTS: the port is taken, or the address is not
  // of this host. `unproven` outlives the server.
  static absl::StatusOr<std::unique_ptr<JobServer>> Start(grpc::ServerBuilder* builder,
                                                          const Place& place,
                                                          const ServerCredentials& credentials,
                                                          UnprovenConnections* unproven);
  // What is queued (a refusal, the job's end) has 100 ms to leave.
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

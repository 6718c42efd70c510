#pragma once

// Inside of wire: what the job's gRPC servers, the master's and a relay's, have in common.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "paceline/wire/credentials.h"

namespace paceline::wire {

// With the job's limits and credentials; nothing is registered yet. FAILED_PRECONDITION: with
// certificates but without UseOnlyTls13.
absl::StatusOr<std::unique_ptr<grpc::ServerBuilder>> BeginServer(
    const ServerCredentials& credentials);

// Listens on host:port, port 0 for any, and says which one it is. ALREADY_EXISTS: the port is
// taken, or the address is not of this host; `who` is named in the error.
absl::StatusOr<std::unique_ptr<grpc::Server>> ListenAt(grpc::ServerBuilder* builder,
                                                       const std::string& who,
                                                       const std::string& listen,
                                                       const ServerCredentials& credentials,
                                                       int* port);

// What is queued (a refusal, the job's end) has 100 ms to leave.
void EndServer(grpc::Server* server);

}  // namespace paceline::wire

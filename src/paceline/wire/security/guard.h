#pragma once

// Internal to wire: which callers a server of the job accepts, the master's or a relay's.

#include <string>
#include <vector>

#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/security/peer_limits.h"
#include "paceline/wire/security/unproven.h"

namespace paceline::wire {

// Requires the token, and also a certificate of the job if the job has certificates.
class Guard {
 public:
  Guard(const ServerCredentials& credentials, UnprovenConnections::Bounds bounds)
      : credentials_(credentials), unproven_(bounds) {}

  grpc::Status CheckToken(const grpc::CallbackServerContext& context) const;
  grpc::Status Check(const grpc::CallbackServerContext& context) const;

  // Connections without a successful CheckToken.
  UnprovenConnections* unproven() const { return &unproven_; }

 private:
  grpc::Status Failed(const grpc::CallbackServerContext& context, const char* why) const;

  const ServerCredentials& credentials_;
  mutable FailureLimit failures_;
  mutable UnprovenConnections unproven_;
};

// The nodes in the caller's certificate; none without certificates.
std::vector<std::string> NodesOfPeer(const grpc::CallbackServerContext& context);

// True if the caller's certificate is of the process that starts nodes on a cluster.
bool IsOperator(const grpc::CallbackServerContext& context);

// With certificates, a relay adds this header to each call: the names in its caller's certificate,
// separated by commas.
inline constexpr char kNodesHeader[] = "paceline-nodes";

// The nodes for which this call may act: those in the header if the caller is a relay, else the
// caller's own.
std::vector<std::string> NodesActedFor(const grpc::CallbackServerContext& context);

}  // namespace paceline::wire

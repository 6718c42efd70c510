#pragma once

// Inside of wire: who may call a server of the job, be it the master's or a relay's.

#include <string>
#include <vector>

#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/security/peer_limits.h"
#include "paceline/wire/security/unproven.h"

namespace paceline::wire {

// The token always, a certificate of the job too when the job has certificates.
class Guard {
 public:
  Guard(const ServerCredentials& credentials, UnprovenConnections::Bounds bounds)
      : credentials_(credentials), unproven_(bounds) {}

  grpc::Status CheckToken(const grpc::CallbackServerContext& context) const;
  grpc::Status Check(const grpc::CallbackServerContext& context) const;

  // Whose connections have not passed CheckToken yet.
  UnprovenConnections* unproven() const { return &unproven_; }

 private:
  grpc::Status Failed(const grpc::CallbackServerContext& context, const char* why) const;

  const ServerCredentials& credentials_;
  mutable FailureLimit failures_;
  mutable UnprovenConnections unproven_;
};

// The nodes that the caller's certificate names; none without certificates.
std::vector<std::string> NodesOfPeer(const grpc::CallbackServerContext& context);

// The caller's certificate is that of who starts the job's nodes on a cluster.
bool IsOperator(const grpc::CallbackServerContext& context);

// With certificates a relay says in this header of each call for which nodes it was made: names
// with commas between them, those of the certificate that it has checked.
inline constexpr char kNodesHeader[] = "paceline-nodes";

// The nodes for which this call may speak: what a relay says, the caller's own otherwise. Nobody
// but a relay is believed.
std::vector<std::string> NodesSpokenFor(const grpc::CallbackServerContext& context);

}  // namespace paceline::wire

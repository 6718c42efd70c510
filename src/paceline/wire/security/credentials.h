#pragma once

// Authentication between the master and its clients.
//
// Every RPC carries the job's token ("authorization: Bearer …"), which the master compares in
// constant time. With TLS each job has its own CA. A joining host knows the CA's fingerprint from
// the join string. It fetches the CA over a handshake without secrets, compares the fingerprint,
// and only then sends its token and a certificate request. All later connections are mTLS. Private
// keys never leave their host.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/instant.h"

namespace paceline::wire {

// A client's credentials. Plain TCP if ca_pem is empty.
struct Credentials {
  std::string token;
  std::string ca_pem;
  std::string cert_pem;
  std::string key_pem;
  bool is_tls() const { return !ca_pem.empty(); }
};

// The master's credentials. Plain TCP if cert_pem is empty.
struct ServerCredentials {
  std::string token;
  std::string ca_pem;
  std::string ca_key_pem;  // signs the certificates of joining hosts
  std::string cert_pem;    // chain: server certificate, then the CA
  std::string key_pem;
  bool is_tls() const { return !cert_pem.empty(); }
};

// "paceline-join:v1:<host:port>:<ca-sha256>:<token>"; the CA part is "-" without TLS.
struct JoinString {
  std::string address;
  std::string ca_sha256;  // hex; empty without TLS
  std::string token;
  bool operator==(const JoinString&) const = default;
};
std::string FormatJoinString(const JoinString& join);
// INVALID_ARGUMENT says which part is wrong. The message never contains the token.
absl::StatusOr<JoinString> ParseJoinString(std::string_view text);

// 64 hex characters from the kernel's random source.
std::string MakeToken();
bool IsToken(std::string_view text);
// The time depends on the length of `given` only.
bool TokensEqual(std::string_view expected, std::string_view given);

// Makes the job's CA and the server's certificate (ECDSA P-256). They are valid from an hour ago,
// for hosts whose clocks are slow.
absl::StatusOr<ServerCredentials> MakeServerCredentials(std::string_view job_id,
                                                        std::string_view token);

// The same for a job whose CA was made by a platform, which also connects to the master.
// INVALID_ARGUMENT: not a certificate and key.
absl::StatusOr<ServerCredentials> MakeServerCredentialsOf(std::string ca_pem,
                                                          std::string ca_key_pem,
                                                          std::string_view token);

// A client certificate signed by the server's CA, for processes on the master's host. Its agents
// may only register nodes with these names. `is_relay`: it may also serve as a relay.
absl::StatusOr<Credentials> MakeClientCredentials(const ServerCredentials& server,
                                                  const std::vector<std::string>& node_names,
                                                  bool is_relay = false);

// For the process that starts a placed job's nodes; it may act for every node.
absl::StatusOr<Credentials> MakeOperatorCredentials(const ServerCredentials& server);

// SHA-256 of the CA certificate's DER form, hex.
absl::StatusOr<std::string> CaFingerprint(std::string_view ca_pem);

// For a joining host; blocks for at most `timeout` and finds a server that starts meanwhile. With a
// CA fingerprint it pins the CA, proves the token and returns a certificate of its own; without one
// it only wraps the token. The process must ignore SIGPIPE. UNAVAILABLE: no process answers.
// UNAUTHENTICATED: wrong token. PERMISSION_DENIED: the server is not the one of the join string,
// and nothing was sent to it; or `is_relay` was requested from a job without relays.
absl::StatusOr<Credentials> Enroll(const JoinString& join,
                                   const std::vector<std::string>& node_names, Duration timeout,
                                   bool is_relay = false);

// Files tls/{ca.pem,ca.key,server.pem,server.key} and tls/{client.pem,client.key} of a run
// directory; keys have mode 0600. Loading returns NOT_FOUND if the job runs without TLS.
absl::Status SaveServerCredentials(const ServerCredentials& server, const std::string& tls_dir);
absl::StatusOr<ServerCredentials> LoadServerCredentials(const std::string& tls_dir,
                                                        std::string_view token);
absl::Status SaveCredentials(const Credentials& credentials, const std::string& tls_dir);
absl::StatusOr<Credentials> LoadCredentials(const std::string& tls_dir, std::string_view token);

}  // namespace paceline::wire

#pragma once

// The job's certificates: ECDSA on P-256, X.509 v3, made with OpenSSL. They are valid for the life
// of a job, at most a year: there is no rotation, and an expired certificate would stop a job.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/instant.h"

namespace paceline::wire {

// The name in every server certificate. Clients expect it at any address: each job has its own CA,
// so the CA identifies the server.
inline constexpr std::string_view kServerName = "master.paceline.internal";

struct PrivateKey {
  std::string pem;
};
struct KeyAndCertificate {
  std::string key_pem;
  std::string certificate_pem;
};
// In a client's certificate: one URI for each node that agents of its host may register.
inline constexpr std::string_view kNodeUri = "paceline://node/";
// In a relay's certificate: it may serve as kServerName, and name the nodes of the calls it passes
// on.
inline constexpr std::string_view kRelayUri = "paceline://relay";
// In the certificate of the process that starts nodes on a cluster: it may act for every node.
inline constexpr std::string_view kOperatorUri = "paceline://operator";
struct CertificateSubject {
  enum class Role { kHost, kRelay, kServer, kOperator };
  std::vector<std::string> names;  // at least one; the first is also the common name
  Role role = Role::kHost;
};

std::string Hex(std::span<const unsigned char> bytes);

absl::StatusOr<KeyAndCertificate> MakeAuthority(std::string_view job_id);
absl::StatusOr<PrivateKey> MakeKey();
absl::StatusOr<std::string> MakeRequest(const PrivateKey& key, std::string_view name);

// INVALID_ARGUMENT: not a request, or not signed by its own key. Only the key is taken from the
// request; the subject and extensions are ours.
absl::StatusOr<std::string> SignRequest(const KeyAndCertificate& authority,
                                        const std::string& request_pem,
                                        const CertificateSubject& subject);

// Connects to host:port, receives the server's certificate chain, and returns the chain's
// certificate with that fingerprint as PEM, if it has signed the server's own certificate. Sends
// nothing beyond the handshake. Retries until `timeout` while no process answers: UNAVAILABLE.
// PERMISSION_DENIED, at once: another authority, or no TLS at that address. The process must ignore
// SIGPIPE, because OpenSSL writes without MSG_NOSIGNAL.
absl::StatusOr<std::string> FetchAuthority(const std::string& address, std::string_view ca_sha256,
                                           Duration timeout);

}  // namespace paceline::wire

#pragma once

// The job's certificates: ECDSA on P-256, X.509 v3, made and signed with OpenSSL. Validity is the
// life of a job, a year at most: there is no rotation yet, so an expired certificate would stop a
// job for nothing.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/instant.h"

namespace paceline::wire {

// Every server certificate has this name, and clients expect it whatever address they dialled: the
// CA, of which there is one a job, says who the server is.
inline constexpr std::string_view kServerName = "master.paceline.internal";

struct PrivateKey {
  std::string pem;
};
struct KeyAndCertificate {
  std::string key_pem;
  std::string certificate_pem;
};
// A client's certificate names each node that its host's agents may register, as URIs.
inline constexpr std::string_view kNodeUri = "paceline://node/";
// And this one when the host may be a relay: it then serves under kServerName too, and may say for
// which nodes it speaks.
inline constexpr std::string_view kRelayUri = "paceline://relay";
// And who starts the job's nodes on a cluster: it may speak of every node.
inline constexpr std::string_view kOperatorUri = "paceline://operator";
struct CertificateSubject {
  enum class Role { kHost, kRelay, kServer };
  std::vector<std::string> names;  // at least one; the first is the common name too
  Role role = Role::kHost;
};

std::string Hex(std::span<const unsigned char> bytes);

absl::StatusOr<KeyAndCertificate> MakeAuthority(std::string_view job_id);
absl::StatusOr<PrivateKey> MakeKey();
absl::StatusOr<std::string> MakeRequest(const PrivateKey& key, std::string_view name);

// INVALID_ARGUMENT when the request is not one, or not signed by its own key. Only the key is
// taken from the request: subject and extensions are ours.
absl::StatusOr<std::string> SignRequest(const KeyAndCertificate& authority,
                                        const std::string& request_pem,
                                        const CertificateSubject& subject);

// Dials host:port, lets the server show its chain, and gives back the chain's certificate of that
// fingerprint in PEM form, after it verified that the server's own certificate is signed by it.
// Sends no byte beyond the handshake. While nobody answers it asks again, until `timeout`:
// UNAVAILABLE. PERMISSION_DENIED, at once: another authority, or no TLS at that address. The
// process shall ignore SIGPIPE, as OpenSSL writes to its socket without MSG_NOSIGNAL.
absl::StatusOr<std::string> FetchAuthority(const std::string& address, std::string_view ca_sha256,
                                           Duration timeout);

}  // namespace paceline::wire

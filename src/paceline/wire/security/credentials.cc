#include "paceline/wire/security/credentials.h"

#include <sys/random.h>

#include <array>
#include <cerrno>

#include "openssl/crypto.h"
#include "paceline/base/check.h"
#include "paceline/base/file_text.h"
#include "paceline/base/status_macros.h"
#include "paceline/wire/security/certificates.h"
#include "paceline/wire/security/secret_file.h"

namespace paceline::wire {
namespace {

constexpr std::string_view kJoinPrefix = "paceline-join:v1:";
constexpr size_t kPemBytesMax = 64 * 1024;

bool IsHex64(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

absl::Status BadJoin(std::string_view why) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "the join string " + std::string(why));
}

}  // namespace

std::string FormatJoinString(const JoinString& join) {
  return std::string(kJoinPrefix) + join.address + ":" +
         (join.ca_sha256.empty() ? "-" : join.ca_sha256) + ":" + join.token;
}

absl::StatusOr<JoinString> ParseJoinString(std::string_view text) {
  if (!text.starts_with(kJoinPrefix))
    return BadJoin("does not start with " + std::string(kJoinPrefix));
  text.remove_prefix(kJoinPrefix.size());
  // From the right, because an IPv6 address contains colons.
  const size_t token_at = text.rfind(':');
  if (token_at == std::string_view::npos || token_at == 0) return BadJoin("is cut off");
  JoinString join;
  join.token = text.substr(token_at + 1);
  text = text.substr(0, token_at);
  const size_t ca_at = text.rfind(':');
  if (ca_at == std::string_view::npos) return BadJoin("is cut off");
  join.ca_sha256 = text.substr(ca_at + 1);
  join.address = text.substr(0, ca_at);
  if (join.ca_sha256 == "-") {
    join.ca_sha256.clear();
  } else if (!IsHex64(join.ca_sha256)) {
    return BadJoin("has no valid fingerprint");
  }
  if (!IsToken(join.token)) return BadJoin("has no valid token");
  if (join.address.size() > 300 || join.address.find(':') == std::string::npos ||
      join.address.find_first_of(" \t\r\n/") != std::string::npos) {
    return BadJoin("has no valid address");
  }
  return join;
}

std::string MakeToken() {
  std::array<unsigned char, 32> bytes = {};
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (count < 0 && errno == EINTR) continue;
    CHECK(count > 0, "the kernel has random bytes");
    filled += static_cast<size_t>(count);
  }
  return Hex({bytes.data(), bytes.size()});
}

bool IsToken(std::string_view text) { return IsHex64(text); }

bool TokensEqual(std::string_view expected, std::string_view given) {
  if (expected.empty() || expected.size() != given.size()) return false;
  return CRYPTO_memcmp(expected.data(), given.data(), expected.size()) == 0;
}

absl::StatusOr<ServerCredentials> MakeServerCredentials(std::string_view job_id,
                                                        std::string_view token) {
  ASSIGN_OR_RETURN(KeyAndCertificate ca, MakeAuthority(job_id));
  return MakeServerCredentialsOf(std::move(ca.certificate_pem), std::move(ca.key_pem), token);
}

absl::StatusOr<ServerCredentials> MakeServerCredentialsOf(std::string ca_pem,
                                                          std::string ca_key_pem,
                                                          std::string_view token) {
  ASSIGN_OR_RETURN(const PrivateKey key, MakeKey());
  ASSIGN_OR_RETURN(const std::string request, MakeRequest(key, kServerName));
  ASSIGN_OR_RETURN(const std::string certificate,
                   SignRequest({.key_pem = ca_key_pem, .certificate_pem = ca_pem}, request,
                               {.names = {std::string(kServerName)},
                                .role = CertificateSubject::Role::kServer}));
  return ServerCredentials{.token = std::string(token),
                           .ca_pem = ca_pem,
                           .ca_key_pem = std::move(ca_key_pem),
                           .cert_pem = certificate + ca_pem,
                           .key_pem = key.pem};
}

namespace {

absl::StatusOr<Credentials> MakeOwn(const ServerCredentials& server,
                                    const CertificateSubject& subject) {
  if (!server.is_tls()) return Credentials{.token = server.token};
  ASSIGN_OR_RETURN(const PrivateKey key, MakeKey());
  ASSIGN_OR_RETURN(const std::string request, MakeRequest(key, "a host"));
  ASSIGN_OR_RETURN(const std::string certificate,
                   SignRequest({.key_pem = server.ca_key_pem, .certificate_pem = server.ca_pem},
                               request, subject));
  return Credentials{
      .token = server.token, .ca_pem = server.ca_pem, .cert_pem = certificate, .key_pem = key.pem};
}

}  // namespace

absl::StatusOr<Credentials> MakeClientCredentials(const ServerCredentials& server,
                                                  const std::vector<std::string>& node_names,
                                                  bool is_relay) {
  using Role = CertificateSubject::Role;
  return MakeOwn(server, {.names = node_names, .role = is_relay ? Role::kRelay : Role::kHost});
}

absl::StatusOr<Credentials> MakeOperatorCredentials(const ServerCredentials& server) {
  return MakeOwn(server, {.names = {"operator"}, .role = CertificateSubject::Role::kOperator});
}

absl::Status SaveServerCredentials(const ServerCredentials& server, const std::string& tls_dir) {
  RETURN_IF_ERROR(MakeDirs(tls_dir, 0700));
  RETURN_IF_ERROR(WriteSecretFile(tls_dir + "/ca.key", server.ca_key_pem));
  RETURN_IF_ERROR(WriteSecretFile(tls_dir + "/server.key", server.key_pem));
  RETURN_IF_ERROR(WriteSecretFile(tls_dir + "/server.pem", server.cert_pem));
  return WriteSecretFile(tls_dir + "/ca.pem", server.ca_pem);
}

absl::StatusOr<ServerCredentials> LoadServerCredentials(const std::string& tls_dir,
                                                        std::string_view token) {
  ServerCredentials server{.token = std::string(token)};
  ASSIGN_OR_RETURN(server.ca_pem, ReadSecretFile(tls_dir + "/ca.pem", kPemBytesMax));
  ASSIGN_OR_RETURN(server.ca_key_pem, ReadSecretFile(tls_dir + "/ca.key", kPemBytesMax));
  ASSIGN_OR_RETURN(server.cert_pem, ReadSecretFile(tls_dir + "/server.pem", kPemBytesMax));
  ASSIGN_OR_RETURN(server.key_pem, ReadSecretFile(tls_dir + "/server.key", kPemBytesMax));
  return server;
}

absl::Status SaveCredentials(const Credentials& credentials, const std::string& tls_dir) {
  RETURN_IF_ERROR(MakeDirs(tls_dir, 0700));
  RETURN_IF_ERROR(WriteSecretFile(tls_dir + "/client.key", credentials.key_pem));
  RETURN_IF_ERROR(WriteSecretFile(tls_dir + "/client.pem", credentials.cert_pem));
  return WriteSecretFile(tls_dir + "/ca.pem", credentials.ca_pem);
}

absl::StatusOr<Credentials> LoadCredentials(const std::string& tls_dir, std::string_view token) {
  Credentials credentials{.token = std::string(token)};
  ASSIGN_OR_RETURN(credentials.ca_pem, ReadSecretFile(tls_dir + "/ca.pem", kPemBytesMax));
  ASSIGN_OR_RETURN(credentials.cert_pem, ReadSecretFile(tls_dir + "/client.pem", kPemBytesMax));
  ASSIGN_OR_RETURN(credentials.key_pem, ReadSecretFile(tls_dir + "/client.key", kPemBytesMax));
  return credentials;
}

}  // namespace paceline::wire

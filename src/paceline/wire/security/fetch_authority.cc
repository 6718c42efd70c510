// FetchAuthority of certificates.h: one TLS handshake without gRPC, because gRPC cannot accept "any
// server whose CA has this fingerprint". A host may ask before the master listens, so silence, a
// refused connection and a broken connection are retried until the timeout. A wrong answer is
// final.

#include "paceline/wire/security/fetch_authority.h"

#include <poll.h>

#include <array>
#include <chrono>
#include <ctime>
#include <memory>
#include <thread>

#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/ssl.h"
#include "openssl/x509.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/model/problem.h"
#include "paceline/wire/security/certificates.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/speech.h"
#include "paceline/wire/tcp_dial.h"

namespace paceline::wire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetryPause = std::chrono::milliseconds(100);

absl::Status Unavailable(const std::string& address, std::string_view why) {
  return MakeStatus(absl::StatusCode::kUnavailable, address + ": " + std::string(why));
}

absl::Status Handshake(const std::string& address, SSL* ssl, int fd, DialDeadline until) {
  for (;;) {
    ERR_clear_error();
    const int done = SSL_connect(ssl);
    if (done == 1) return absl::OkStatus();
    const int why = SSL_get_error(ssl, done);
    if (why == SSL_ERROR_WANT_READ && WaitForSocket(fd, POLLIN, until)) continue;
    if (why == SSL_ERROR_WANT_WRITE && WaitForSocket(fd, POLLOUT, until)) continue;
    // A close without an answer comes from a server that is ending or starting. All else is an
    // answer.
    const bool is_answer = why == SSL_ERROR_SSL &&
                           ERR_GET_REASON(ERR_peek_error()) != SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (!is_answer) return Unavailable(address, "no TLS handshake");
    return ToStatus(absl::StatusCode::kPermissionDenied, NoTlsThere(address));
  }
}

std::string UtcText(std::time_t time) {
  std::tm parts{};
  std::array<char, 32> text{};
  ::gmtime_r(&time, &parts);
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::string Pem(X509* certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new(BIO_s_mem()), &BIO_free_all);
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) return {};
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

absl::StatusOr<std::string> FetchOnce(const std::string& address, std::string_view ca_sha256,
                                      DialDeadline until) {
  ASSIGN_OR_RETURN(const Fd fd, DialTcp(address, until));
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);  // the fingerprint is checked below
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  SSL_set_fd(ssl.get(), fd.get());
  SSL_set_tlsext_host_name(ssl.get(), std::string(kServerName).c_str());
  const unsigned char alpn[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl.get(), alpn, sizeof(alpn));
  RETURN_IF_ERROR(Handshake(address, ssl.get(), fd.get(), until));

  STACK_OF(X509)* chain = SSL_get_peer_cert_chain(ssl.get());
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    X509* certificate = sk_X509_value(chain, i);
    const std::string pem = Pem(certificate);
    const absl::StatusOr<std::string> digest = CaFingerprint(pem);
    if (!digest.ok() || !TokensEqual(ca_sha256, *digest)) continue;
    EVP_PKEY* key = X509_get0_pubkey(certificate);
    if (X509_verify(sk_X509_value(chain, 0), key) != 1) continue;
    // The clock may be set while this host waits.
    if (const std::string why = WhyNotYet(pem, std::time(nullptr)); !why.empty()) {
      return Unavailable(address, why);
    }
    return pem;
  }
  return ToStatus(absl::StatusCode::kPermissionDenied,
                  {.code = "PL-E105",
                   .what = Concat("the master at ", address, " is not the one of the join string"),
                   .where = address,
                   .why = "its certificate is not of the authority that the join string names",
                   .fix = "use the join string that the first host of this job printed"});
}

}  // namespace

std::string WhyNotYet(const std::string& pem, std::time_t now) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free_all);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), &X509_free);
  std::tm begins{};
  const bool is_read = certificate != nullptr &&
                       ASN1_TIME_to_tm(X509_get0_notBefore(certificate.get()), &begins) == 1;
  if (!is_read || ::timegm(&begins) <= now) return "";
  return Concat("the job's certificate is valid from ", UtcText(::timegm(&begins)),
                ", and this host's clock says ", UtcText(now), ": set the clock of this host");
}

absl::StatusOr<std::string> FetchAuthority(const std::string& address, std::string_view ca_sha256,
                                           Duration timeout) {
  const auto until = Clock::now() + std::chrono::nanoseconds(timeout.nanoseconds());
  for (;;) {
    absl::StatusOr<std::string> pem = FetchOnce(address, ca_sha256, until);
    if (!absl::IsUnavailable(pem.status()) || Clock::now() + kRetryPause >= until) return pem;
    std::this_thread::sleep_for(kRetryPause);
  }
}

}  // namespace paceline::wire

#include "paceline/wire/speech.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>

#include "openssl/bio.h"
#include "openssl/ssl.h"
#include "paceline/base/text.h"
#include "paceline/wire/security/certificates.h"
#include "paceline/wire/tcp_dial.h"

namespace paceline::wire {
namespace {

constexpr size_t kFrameHeaderBytes = 9;  // of HTTP/2: length (3), type, flags, stream (4)
constexpr unsigned char kSettingsFrame = 4;
constexpr unsigned char kTlsAlert = 21;
constexpr unsigned char kTlsHandshake = 22;

std::string ClientHello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  SSL_set_tlsext_host_name(ssl.get(), std::string(kServerName).c_str());
  const unsigned char alpn[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl.get(), alpn, sizeof(alpn));
  BIO* sent = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), sent);  // takes ownership of both
  SSL_connect(ssl.get());                              // stops where it would read the answer
  const char* data = nullptr;
  const long size = BIO_get_mem_data(sent, &data);
  return {data, static_cast<size_t>(size)};
}

}  // namespace

Speech SpeechOf(const std::string& address, Duration patience) {
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience.nanoseconds());
  const absl::StatusOr<Fd> fd = DialTcp(address, until);
  if (!fd.ok()) return Speech::kUnknown;
  const std::string hello = ClientHello();  // fits into a new connection's buffer
  if (send(fd->get(), hello.data(), hello.size(), MSG_NOSIGNAL) < 0) return Speech::kUnknown;
  std::array<unsigned char, kFrameHeaderBytes> heard{};
  size_t count = 0;
  while (count < heard.size() && WaitForSocket(fd->get(), POLLIN, until)) {
    const ssize_t got = recv(fd->get(), heard.data() + count, heard.size() - count, 0);
    if (got <= 0) break;
    count += static_cast<size_t>(got);
    const bool is_tls = heard[0] == kTlsHandshake || heard[0] == kTlsAlert;
    if (is_tls && count >= 2) return heard[1] == 3 ? Speech::kTls : Speech::kUnknown;
  }
  const bool is_settings = count == heard.size() && heard[3] == kSettingsFrame && heard[5] == 0 &&
                           heard[6] == 0 && heard[7] == 0 && heard[8] == 0;
  return is_settings ? Speech::kPlain : Speech::kUnknown;
}

Problem NoTlsThere(const std::string& address) {
  return {.code = "PL-E105",
          .what = Concat("what listens at ", address, " does not speak TLS as this job does"),
          .where = address,
          .why =
              "this host has a join string or certificates of a job with TLS; there is a master "
              "without it, or another program",
          .fix =
              "use the join string that this job's first host printed, or start that one with "
              "--tls"};
}

absl::Status CheckSpeech(const std::string& address, bool wants_tls, Duration patience) {
  const Speech speech = SpeechOf(address, patience);
  if (speech == Speech::kPlain && wants_tls) {
    return ToStatus(absl::StatusCode::kFailedPrecondition, NoTlsThere(address));
  }
  if (speech == Speech::kTls && !wants_tls) {
    return ToStatus(
        absl::StatusCode::kFailedPrecondition,
        {.code = "PL-E105",
         .what = Concat("the master at ", address, " speaks TLS, and it was asked without"),
         .where = address,
         .why = "the job was started with --tls; a token alone does not let this host in",
         .fix = "paceline run --join 'paceline-join:v1:…' …, as the first host printed it"});
  }
  return absl::OkStatus();
}

}  // namespace paceline::wire

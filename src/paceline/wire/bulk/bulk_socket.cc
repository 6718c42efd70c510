#include "paceline/wire/bulk/bulk_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/x509v3.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/wire/security/certificates.h"
#include "paceline/wire/security/openssl_objects.h"

namespace paceline::wire {
namespace {

// Bytes for one call of send. Between two calls a shutdown is noticed.
constexpr size_t kPieceBytes = size_t{1} << 20;

absl::Status Broken(std::string_view why) {
  return MakeStatus(absl::StatusCode::kUnavailable, why);
}

bool Present(SSL_CTX* context, const Credentials& credentials) {
  const Certificate own(
      PEM_read_bio_X509(ReaderOf(credentials.cert_pem).get(), nullptr, nullptr, nullptr));
  const PrivateKeyHandle key(
      PEM_read_bio_PrivateKey(ReaderOf(credentials.key_pem).get(), nullptr, nullptr, nullptr));
  const Certificate authority(
      PEM_read_bio_X509(ReaderOf(credentials.ca_pem).get(), nullptr, nullptr, nullptr));
  return own != nullptr && key != nullptr && authority != nullptr &&
         SSL_CTX_use_certificate(context, own.get()) == 1 &&
         SSL_CTX_use_PrivateKey(context, key.get()) == 1 &&
         X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) == 1;
}

// True if the certificate is of a host of the job (of `node`, if given).
bool Names(const SSL* ssl, std::string_view node) {
  const Certificate peer(SSL_get1_peer_certificate(ssl));
  if (peer == nullptr) return false;
  if (node == kServerName) {
    return X509_check_host(peer.get(), node.data(), node.size(), 0, nullptr) == 1;
  }
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(peer.get(), NID_subject_alt_name, nullptr, nullptr));
  bool is_named = false;
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                          static_cast<size_t>(ASN1_STRING_length(uri)));
    if (TakePrefix(&text, kNodeUri) && (node.empty() || text == node)) is_named = true;
  }
  GENERAL_NAMES_free(names);
  return is_named;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BulkTls>> BulkTls::Make(const Credentials& credentials) {
  auto tls = std::make_unique<BulkTls>();
  if (!credentials.is_tls()) return tls;
  tls->context_.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = tls->context_.get();
  if (context == nullptr || !Present(context, credentials)) {
    ERR_clear_error();
    return absl::InvalidArgumentError("the job's certificates cannot be read");
  }
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  X509_VERIFY_PARAM_set_purpose(SSL_CTX_get0_param(context), X509_PURPOSE_ANY);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Each fetch has its own connection, so sessions are not resumed and no ticket delays the first
  // bytes.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  return tls;
}

absl::Status BulkSocket::Await(short what, DialDeadline until) {
  return WaitForSocket(fd_.get(), what, until) ? absl::OkStatus() : Broken("it takes too long");
}

absl::Status BulkSocket::AwaitTls(int done, DialDeadline until) {
  const int why = SSL_get_error(ssl_.get(), done);
  if (why == SSL_ERROR_WANT_READ) return Await(POLLIN, until);
  if (why == SSL_ERROR_WANT_WRITE) return Await(POLLOUT, until);
  const unsigned long error = ERR_peek_error();
  const bool is_refusal =
      why == SSL_ERROR_SSL && ERR_GET_REASON(error) != SSL_R_UNEXPECTED_EOF_WHILE_READING;
  const char* text = is_refusal ? ERR_reason_error_string(error) : nullptr;
  ERR_clear_error();
  if (!is_refusal) return Broken("the connection broke");
  return MakeStatus(absl::StatusCode::kPermissionDenied,
                    Concat("TLS: ", text == nullptr ? "failed" : text));
}

absl::StatusOr<std::unique_ptr<BulkSocket>> BulkSocket::Begin(Fd fd, const BulkTls& tls,
                                                              bool is_server, size_t read_ahead,
                                                              DialDeadline until) {
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  std::unique_ptr<BulkSocket> made(new BulkSocket(std::move(fd)));
  if (tls.context() == nullptr) return made;
  made->ssl_.reset(SSL_new(tls.context()));
  if (made->ssl_ == nullptr || SSL_set_fd(made->ssl_.get(), made->fd_.get()) != 1) {
    return Broken("no memory for TLS");
  }
  if (read_ahead > 0) {
    SSL_set_read_ahead(made->ssl_.get(), 1);
    SSL_set_default_read_buffer_len(made->ssl_.get(), read_ahead);
  }
  for (;;) {
    ERR_clear_error();
    const int done = is_server ? SSL_accept(made->ssl_.get()) : SSL_connect(made->ssl_.get());
    if (done == 1) return made;
    RETURN_IF_ERROR(made->AwaitTls(done, until));
  }
}

absl::StatusOr<std::unique_ptr<BulkSocket>> BulkSocket::Connect(Fd fd, const BulkTls& tls,
                                                                std::string_view node,
                                                                DialDeadline until,
                                                                size_t read_ahead) {
  ASSIGN_OR_RETURN(auto made, Begin(std::move(fd), tls, /*is_server=*/false, read_ahead, until));
  if (made->ssl_ != nullptr && !Names(made->ssl_.get(), node)) {
    return MakeStatus(absl::StatusCode::kPermissionDenied,
                      Concat("its certificate is not that of node ", node));
  }
  return made;
}

absl::StatusOr<std::unique_ptr<BulkSocket>> BulkSocket::Accept(Fd fd, const BulkTls& tls,
                                                               DialDeadline until) {
  ASSIGN_OR_RETURN(auto made, Begin(std::move(fd), tls, /*is_server=*/true, 0, until));
  if (made->ssl_ != nullptr && !Names(made->ssl_.get(), "")) {
    return absl::PermissionDeniedError("its certificate is of no host");
  }
  return made;
}

absl::Status BulkSocket::Read(void* to, size_t bytes, DialDeadline until) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    if (ssl_ != nullptr) {
      ERR_clear_error();
      const int got = SSL_read(ssl_.get(), at, static_cast<int>(std::min<size_t>(bytes, INT_MAX)));
      if (got <= 0) {
        RETURN_IF_ERROR(AwaitTls(got, until));
        continue;
      }
      at += got;
      bytes -= static_cast<size_t>(got);
      continue;
    }
    const ssize_t got = ::recv(fd_.get(), at, bytes, 0);
    if (got > 0) {
      at += got;
      bytes -= static_cast<size_t>(got);
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      RETURN_IF_ERROR(Await(POLLIN, until));
    } else if (got == 0 || errno != EINTR) {
      return Broken("the connection broke");
    }
  }
  return absl::OkStatus();
}

absl::Status BulkSocket::Write(const void* from, size_t bytes, DialDeadline until) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kPieceBytes);
    ssize_t sent = 0;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      sent = SSL_write(ssl_.get(), at, static_cast<int>(piece));
      if (sent <= 0) {
        RETURN_IF_ERROR(AwaitTls(static_cast<int>(sent), until));
        continue;
      }
    } else {
      sent = ::send(fd_.get(), at, piece, MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        RETURN_IF_ERROR(Await(POLLOUT, until));
        continue;
      }
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return Broken("the connection broke");
    }
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> BulkSocket::ReadSome(void* to, size_t bytes) {
  ssize_t got = 0;
  if (ssl_ != nullptr) {
    ERR_clear_error();
    got = SSL_read(ssl_.get(), to, static_cast<int>(std::min<size_t>(bytes, INT_MAX)));
    if (got <= 0) return NothingNow(static_cast<int>(got));
  } else {
    got = ::recv(fd_.get(), to, bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
    if (got <= 0) return Broken("the connection broke");
  }
  return static_cast<size_t>(got);
}

absl::StatusOr<size_t> BulkSocket::WriteSome(const void* from, size_t bytes) {
  ssize_t sent = 0;
  if (ssl_ != nullptr) {
    ERR_clear_error();
    sent = SSL_write(ssl_.get(), from, static_cast<int>(std::min(bytes, kPieceBytes)));
    if (sent <= 0) return NothingNow(static_cast<int>(sent));
  } else {
    sent = ::send(fd_.get(), from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
    if (sent < 0) return Broken("the connection broke");
  }
  return static_cast<size_t>(sent);
}

absl::StatusOr<size_t> BulkSocket::NothingNow(int done) {
  const int why = SSL_get_error(ssl_.get(), done);
  ERR_clear_error();
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return 0;
  return Broken("the connection broke");
}

void BulkSocket::Shutdown() { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace paceline::wire

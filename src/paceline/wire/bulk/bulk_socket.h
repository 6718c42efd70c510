#pragma once

// Inside of wire: one connection of the bulk channel, plain TCP or TLS 1.3 with certificates of the
// job on both sides. It blocks, with a deadline for each call; its owner has a thread for it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "openssl/ssl.h"
#include "paceline/base/fd.h"
#include "paceline/wire/client/tcp_dial.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

// What both sides of a TLS connection present and believe; nothing without certificates.
class BulkTls {
 public:
  // For both directions: hosts have certificates for clients, and the job's CA is asked, and the
  // names in them, not what a certificate is usually for.
  static absl::StatusOr<std::unique_ptr<BulkTls>> Make(const Credentials& credentials);
  // Null when there are no certificates.
  SSL_CTX* context() const { return context_.get(); }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, &SSL_CTX_free};
};

class BulkSocket {
 public:
  // UNAVAILABLE: the connection broke, or the handshake took too long. PERMISSION_DENIED: not a
  // process of this job. `node`: whom the other side's certificate must name; empty: any host;
  // kServerName: the master's. `read_ahead`: TLS takes up to so many bytes at once, and not a
  // record of 16 KiB with two calls. Only for who never waits for the descriptor itself: what TLS
  // has taken already does not make it readable.
  static absl::StatusOr<std::unique_ptr<BulkSocket>> Connect(Fd fd, const BulkTls& tls,
                                                             std::string_view node,
                                                             DialDeadline until,
                                                             size_t read_ahead = 0);
  static absl::StatusOr<std::unique_ptr<BulkSocket>> Accept(Fd fd, const BulkTls& tls,
                                                            DialDeadline until);

  // All of it, or UNAVAILABLE.
  absl::Status Read(void* to, size_t bytes, DialDeadline until);
  absl::Status Write(const void* from, size_t bytes, DialDeadline until);
  // What is there, or what goes, at once; 0: nothing now. UNAVAILABLE: the connection is over.
  absl::StatusOr<size_t> ReadSome(void* to, size_t bytes);
  absl::StatusOr<size_t> WriteSome(const void* from, size_t bytes);
  int fd() const { return fd_.get(); }

  // Ends every call of other threads, at once and for ever.
  void Shutdown();

 private:
  explicit BulkSocket(Fd fd) : fd_(std::move(fd)) {}
  static absl::StatusOr<std::unique_ptr<BulkSocket>> Begin(Fd fd, const BulkTls& tls,
                                                           bool is_server, size_t read_ahead,
                                                           DialDeadline until);
  // After a call of OpenSSL that did not succeed: waits until it is worth another.
  absl::Status AwaitTls(int done, DialDeadline until);
  absl::Status Await(short what, DialDeadline until);
  absl::StatusOr<size_t> NothingNow(int done);

  const Fd fd_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
};

}  // namespace paceline::wire

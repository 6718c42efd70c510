#pragma once

// Internal to wire: one connection of the bulk channel, plain TCP, or TLS 1.3 with the job's
// certificates on both sides. Calls block until a deadline; the owner has a thread for it.

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
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/tcp_dial.h"

namespace paceline::wire {

// A TLS connection's certificates and trust, for both sides; empty without certificates.
class BulkTls {
 public:
  // For both directions: hosts have client certificates only, so a certificate's CA and names are
  // checked but not its purpose.
  static absl::StatusOr<std::unique_ptr<BulkTls>> Make(const Credentials& credentials);
  // Null without certificates.
  SSL_CTX* context() const { return context_.get(); }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, &SSL_CTX_free};
};

class BulkSocket {
 public:
  // UNAVAILABLE: the connection broke, or the handshake took too long. PERMISSION_DENIED: not a
  // process of this job. `node`: the name in the other side's certificate; empty: any host;
  // kServerName: the master's. `read_ahead`: the number of bytes that TLS may read at once, instead
  // of two calls for each record of 16 KiB. Leave it 0 if the owner polls the descriptor: bytes
  // that TLS has already read do not make the descriptor readable.
  static absl::StatusOr<std::unique_ptr<BulkSocket>> Connect(Fd fd, const BulkTls& tls,
                                                             std::string_view node,
                                                             DialDeadline until,
                                                             size_t read_ahead = 0);
  static absl::StatusOr<std::unique_ptr<BulkSocket>> Accept(Fd fd, const BulkTls& tls,
                                                            DialDeadline until);

  // Transfers all bytes, or fails with UNAVAILABLE.
  absl::Status Read(void* to, size_t bytes, DialDeadline until);
  absl::Status Write(const void* from, size_t bytes, DialDeadline until);
  // Transfers what is possible without blocking; 0: nothing now. UNAVAILABLE: the connection ended.
  absl::StatusOr<size_t> ReadSome(void* to, size_t bytes);
  absl::StatusOr<size_t> WriteSome(const void* from, size_t bytes);
  int fd() const { return fd_.get(); }

  // Makes current and later calls of all threads fail.
  void Shutdown();

 private:
  explicit BulkSocket(Fd fd) : fd_(std::move(fd)) {}
  static absl::StatusOr<std::unique_ptr<BulkSocket>> Begin(Fd fd, const BulkTls& tls,
                                                           bool is_server, size_t read_ahead,
                                                           DialDeadline until);
  // After an incomplete OpenSSL call: waits until it can be repeated.
  absl::Status AwaitTls(int done, DialDeadline until);
  absl::Status Await(short what, DialDeadline until);
  absl::StatusOr<size_t> NothingNow(int done);

  const Fd fd_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
};

}  // namespace paceline::wire

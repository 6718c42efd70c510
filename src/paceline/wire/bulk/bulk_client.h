#pragma once

// The client end of the bulk channel: one connection to one node, for one image after the other.
// Blocks; Cancel, from another thread, ends a call.

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/instant.h"
#include "paceline/wire/bulk/bulk_format.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

struct BulkTarget {
  std::string address;  // HOST:PORT
  std::string node;     // with certificates: the server's node name
};

class BulkClient {
 public:
  // What agents wait for: a host that they call, and the bytes of one chunk.
  static constexpr Duration kDialTimeout = Duration::Seconds(5);
  static constexpr Duration kReadTimeout = Duration::Seconds(30);
  static constexpr Duration kAnswerPatience = Duration::Seconds(20);

  // Connects; then both sides have proved that they know the job's token. UNAVAILABLE: no process
  // answers. PERMISSION_DENIED: a process without the token answers. The process must ignore
  // SIGPIPE.
  static absl::StatusOr<std::unique_ptr<BulkClient>> Dial(const BulkTarget& target,
                                                          const Credentials& credentials,
                                                          const BulkTls& tls, Duration timeout);

  // Requests an image, whose bytes follow from the requested chunk on. Read all of them before the
  // next call. INVALID_ARGUMENT: the answer is malformed. UNAVAILABLE: the connection broke, or no
  // answer came within `patience`.
  absl::StatusOr<BulkAnswer> Ask(const BulkRequest& request, Duration patience = kAnswerPatience);
  // UNAVAILABLE if the bytes do not come within `patience`.
  absl::Status Read(std::byte* to, size_t bytes, Duration patience);

  void Cancel() { socket_->Shutdown(); }

 private:
  explicit BulkClient(std::unique_ptr<BulkSocket> socket) : socket_(std::move(socket)) {}

  const std::unique_ptr<BulkSocket> socket_;
};

}  // namespace paceline::wire

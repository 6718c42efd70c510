#pragma once

// The asking side of the bulk channel: one connection to one node, for one image after the other.
// It blocks; Cancel ends that from another thread.

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
  std::string node;     // with certificates: whose it must be
};

class BulkClient {
 public:
  // Connected, and both sides have proved that they know the job's token. UNAVAILABLE: nobody
  // answers. PERMISSION_DENIED: somebody else does. The process shall ignore SIGPIPE.
  static absl::StatusOr<std::unique_ptr<BulkClient>> Dial(const BulkTarget& target,
                                                          const Credentials& credentials,
                                                          const BulkTls& tls, Duration timeout);

  // The image's bytes follow, from the asked chunk on; read all of them before the next call.
  // INVALID_ARGUMENT: the answer is none. UNAVAILABLE: the connection broke.
  absl::StatusOr<BulkAnswer> Ask(const BulkRequest& request);
  // UNAVAILABLE when they do not come for `patience`.
  absl::Status Read(std::byte* to, size_t bytes, Duration patience);

  void Cancel() { socket_->Shutdown(); }

 private:
  explicit BulkClient(std::unique_ptr<BulkSocket> socket) : socket_(std::move(socket)) {}

  const std::unique_ptr<BulkSocket> socket_;
};

}  // namespace paceline::wire

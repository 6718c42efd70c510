#pragma once

// One connection of the lease channel: frames (model/lease_frame.h) between an agent and its
// master, for all processes of the agent's node. TCP with the proof of the bulk channel, TLS with
// the job's certificates; after that nothing blocks. gRPC is not used, because a message there
// costs more than all that a lease does: docs/adr/0012.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/instant.h"
#include "paceline/model/lease_frame.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

class BulkSocket;

// Agents send a kPing that often. A master that dies closes its connections by itself.
inline constexpr Duration kLeasePing = Duration::Milliseconds(200);

class LeaseSocket {
 public:
  // What waits to be taken by the other side. Beyond, the connection is given up.
  static constexpr size_t kUnsentBytesMax = size_t{64} << 20;

  // Connected, and both sides have proved that they know the job's token. Blocks for `timeout` at
  // most. UNAVAILABLE: nobody answers. PERMISSION_DENIED: somebody else does.
  static absl::StatusOr<std::unique_ptr<LeaseSocket>> Dial(const std::string& address,
                                                           const Credentials& credentials,
                                                           Duration timeout);
  explicit LeaseSocket(std::unique_ptr<BulkSocket> socket);
  ~LeaseSocket();
  LeaseSocket(const LeaseSocket&) = delete;
  LeaseSocket& operator=(const LeaseSocket&) = delete;

  int fd() const;

  // Appends what is there. UNAVAILABLE: the connection is over; what came before it was appended.
  absl::Status Receive(std::vector<LeaseFrame>* frames);

  // Sent by the next Flush, as far as the other side takes it.
  void Add(const LeaseFrame& frame) { AppendFrame(frame, &unsent_); }
  absl::Status Flush();
  bool has_unsent() const { return sent_ < unsent_.size(); }

 private:
  const std::unique_ptr<BulkSocket> socket_;
  std::string unread_;
  std::string unsent_;
  size_t sent_ = 0;  // of unsent_
};

}  // namespace paceline::wire

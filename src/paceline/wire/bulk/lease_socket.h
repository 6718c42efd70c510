#pragma once

// One connection of the lease channel: frames (model/lease_frame.h) between an agent and its
// master, for all processes of the agent's node. TCP with the bulk channel's proof, and TLS with
// the job's certificates; after that calls do not block. gRPC is not used, because one message
// there costs more than all work on a lease: docs/adr/0012.

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

// An agent sends a kPing this often. A dying master's connections close by themselves.
inline constexpr Duration kLeasePing = Duration::Milliseconds(200);

class LeaseSocket {
 public:
  // Limit of unsent bytes. Beyond it the connection is given up.
  static constexpr size_t kUnsentBytesMax = size_t{64} << 20;

  // Connects; then both sides have proved that they know the job's token. Blocks for at most
  // `timeout`. UNAVAILABLE: no process answers. PERMISSION_DENIED: a process without the token
  // answers.
  static absl::StatusOr<std::unique_ptr<LeaseSocket>> Dial(const std::string& address,
                                                           const Credentials& credentials,
                                                           Duration timeout);
  explicit LeaseSocket(std::unique_ptr<BulkSocket> socket);
  ~LeaseSocket();
  LeaseSocket(const LeaseSocket&) = delete;
  LeaseSocket& operator=(const LeaseSocket&) = delete;

  int fd() const;

  // Appends received frames. UNAVAILABLE: the connection ended; earlier frames were appended.
  absl::Status Receive(std::vector<LeaseFrame>* frames);

  // Queued for the next Flush, which sends what the other side accepts.
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

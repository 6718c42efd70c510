#pragma once

// Internal to wire: which user holds the other end of a connection within this host.
//
// Any local user can listen on a port that a dead master has left. Only the kernel can tell that
// user from the job's: it lists each socket with the user id of the process that made it. The same
// connection is used afterwards, so no other process can take its place.

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace paceline::wire {

// OK if the process at the other end of `fd`, a connection over loopback, is of this user or root.
// FAILED_PRECONDITION with its Problem (PL-E107): of another user, or the kernel does not say.
// UNAVAILABLE: the connection is over.
absl::Status CheckPeerIsOurs(int fd, const std::string& address);

// The parts, for tests. nullopt: no such connection is listed. Until a process accepts a
// connection, its owner is that of the listening socket.
struct SocketLists {
  bool is_readable = false;
  std::optional<uid_t> owner;
};
SocketLists AskKernelForPeer(int fd);
SocketLists ReadTablesForPeer(int fd);

}  // namespace paceline::wire

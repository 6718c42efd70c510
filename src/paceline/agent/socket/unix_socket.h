#pragma once

// Unix sockets that processes of the same user may connect to.

#include <sys/socket.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/fd.h"

namespace paceline::agent {

// Listens without blocking. Replaces a listener at `path`, which belonged to a dead agent.
// INVALID_ARGUMENT: the path is too long for a socket. INTERNAL.
absl::StatusOr<Fd> ListenAt(const std::string& path);

// Call it after accept failed with `error`. If the process has no free descriptor, the connection
// stays in the kernel's queue, and the loop would find `listening` ready again at once, for ever.
// So the loop does not watch `listening` for 20 ms. Cancel `timer` before closing `listening`.
void PauseAccepting(Reactor& reactor, int listening, int error, Reactor::TimerId* timer);

// The connected process, if it belongs to this user.
std::optional<ucred> SameUserAt(int fd);

}  // namespace paceline::agent

#pragma once

// Unix sockets that processes of the same user may connect to.

#include <sys/socket.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"

namespace paceline::agent {

// Listens without blocking. Replaces a listener at `path`, which belonged to a dead agent.
// INVALID_ARGUMENT: the path is too long for a socket. INTERNAL.
absl::StatusOr<Fd> ListenAt(const std::string& path);

// The connected process, if it belongs to this user.
std::optional<ucred> SameUserAt(int fd);

}  // namespace paceline::agent

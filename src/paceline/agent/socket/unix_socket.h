#pragma once

// Unix sockets that processes of the same user may connect to.

#include <sys/socket.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"

namespace paceline::agent {

// Listens, without blocking. Whoever listened at `path` before, an agent that died, no longer does.
// INVALID_ARGUMENT: the path is too long for a socket. INTERNAL.
absl::StatusOr<Fd> ListenAt(const std::string& path);

// Who connected there, if it is a process of this user.
std::optional<ucred> SameUserAt(int fd);

}  // namespace paceline::agent

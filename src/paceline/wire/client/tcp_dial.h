#pragma once

// Inside of wire: a TCP connection by hand, for the handshakes that gRPC cannot be asked for.

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"

namespace paceline::wire {

using DialDeadline = std::chrono::steady_clock::time_point;

// False when the time is up first. `what`: POLLIN, POLLOUT.
bool WaitForSocket(int fd, short what, DialDeadline until);

// Non-blocking and connected. INVALID_ARGUMENT: not HOST:PORT. UNAVAILABLE: nobody answers.
absl::StatusOr<Fd> DialTcp(const std::string& address, DialDeadline until);

}  // namespace paceline::wire

#pragma once

// Internal to wire: a plain TCP connection, for handshakes that gRPC cannot make.

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"

namespace paceline::wire {

using DialDeadline = std::chrono::steady_clock::time_point;

// False if the time is over first. `what`: POLLIN, POLLOUT.
bool WaitForSocket(int fd, short what, DialDeadline until);

// Non-blocking and connected. INVALID_ARGUMENT: not HOST:PORT. UNAVAILABLE: no process answers.
absl::StatusOr<Fd> DialTcp(const std::string& address, DialDeadline until);

}  // namespace paceline::wire

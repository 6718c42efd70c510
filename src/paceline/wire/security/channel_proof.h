#pragma once

// Inside of wire: how both ends of a channel beside gRPC prove that they know the job's token, by
// an HMAC over both sides' nonces; the token is never sent. docs/formats/bulk_channel.md.

#include <chrono>
#include <string_view>

#include "absl/status/status.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/client/tcp_dial.h"

namespace paceline::wire {

// For the handshake and the proof of a stranger.
inline constexpr std::chrono::seconds kProofPatience{5};

struct ProofTarget {
  std::string_view address;  // for the error
  std::string_view magic;    // 16 bytes: which channel it is
};

// UNAUTHENTICATED: a wrong token. UNAVAILABLE: it broke, or took longer than kProofPatience.
absl::Status ProveAsServer(BulkSocket* socket, std::string_view token, std::string_view magic);
// PERMISSION_DENIED: the other side does not speak this channel, or does not know the token.
absl::Status ProveAsClient(BulkSocket* socket, const ProofTarget& target, std::string_view token,
                           DialDeadline until);

}  // namespace paceline::wire

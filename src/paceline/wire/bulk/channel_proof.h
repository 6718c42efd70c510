#pragma once

// Internal to wire: how both ends of a channel other than gRPC prove the job's token, by an HMAC
// over both nonces. The token is never sent. docs/formats/bulk_channel.md.

#include <chrono>
#include <string_view>

#include "absl/status/status.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/tcp_dial.h"

namespace paceline::wire {

// Time for the handshake and the proof.
inline constexpr std::chrono::seconds kProofPatience{5};

struct ProofTarget {
  std::string_view address;  // for the error
  std::string_view magic;    // 16 bytes that identify the channel
};

// UNAUTHENTICATED: wrong token. UNAVAILABLE: broken, or slower than kProofPatience.
absl::Status ProveAsServer(BulkSocket* socket, std::string_view token, std::string_view magic);
// PERMISSION_DENIED: the other side does not speak this protocol, or lacks the token.
absl::Status ProveAsClient(BulkSocket* socket, const ProofTarget& target, std::string_view token,
                           DialDeadline until);

}  // namespace paceline::wire

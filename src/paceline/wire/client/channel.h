#pragma once

// Internal to wire: how clients of the master connect, authenticate and read errors.

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "paceline/base/instant.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

inline constexpr int kAgentMessageBytesMax = 256 * 1024;
inline constexpr int kControlMessageBytesMax = 1024 * 1024;
// Limit of an answer from the master: the status of 10,000 nodes is larger than any request.
inline constexpr int kReplyBytesMax = 64 * 1024 * 1024;
// Limit of concurrent streams on one connection to a server of the job.
inline constexpr int kStreamsPerConnectionMax = 2048;

// How long one attempt to connect may take.
inline constexpr Duration kConnectPatience = Duration::Seconds(2);
// For a listener that accepts and stays silent; others answer at once.
inline constexpr Duration kProbePatience = Duration::Seconds(1);

// False for loopback without TLS: such a channel is one connection, made by Dial, and ends with it.
bool ConnectsAgain(const std::string& address, const Credentials& credentials);

// A channel with its own connection, so that another channel's back-off does not delay it. Proxies
// from the environment are not used, because a job's master is never behind one. A relay's silence
// is detected sooner than a master's: the host must switch to another route before the master
// counts the node as lost.
//
// Fails only if the channel does not connect again, and then blocks for at most kConnectPatience.
// UNAVAILABLE: no process answers. FAILED_PRECONDITION with its Problem: another user's process
// listens there, see security/socket_owner.h.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const std::string& address,
                                                    const Credentials& credentials,
                                                    bool is_relay = false);

// The same, and tries again until that time while no process answers.
absl::StatusOr<std::shared_ptr<grpc::Channel>> DialUntil(
    const std::string& address, const Credentials& credentials,
    std::chrono::system_clock::time_point until);

// Called before a process makes its first channel or server. Debian builds Abseil with deadlock
// checks, on which gRPC's threads spend a quarter of their time, more with every connection; they
// are switched off. gRPC also prints errors that it returns, one line for each failed handshake, to
// the user's terminal. That is switched off unless GRPC_VERBOSITY is set.
void PrepareTransport();

// Waits until the channel is connected. UNAVAILABLE: no process answered in time.
// FAILED_PRECONDITION, at once and with its Problem: only one side uses TLS.
absl::Status AwaitConnection(grpc::Channel* channel, const std::string& address,
                             const Credentials& credentials,
                             std::chrono::system_clock::time_point until);

void AddToken(grpc::ClientContext* context, const Credentials& credentials);

absl::Status ToAbsl(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace paceline::wire

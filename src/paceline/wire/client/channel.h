#pragma once

// Inside of wire: how every client of the master dials, proves itself and reads errors.

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

inline constexpr int kAgentMessageBytesMax = 256 * 1024;
inline constexpr int kControlMessageBytesMax = 1024 * 1024;
// What a client takes from its master: a status of 10,000 nodes is larger than what a master takes.
inline constexpr int kReplyBytesMax = 64 * 1024 * 1024;
// Open at once on one connection to a server of the job.
inline constexpr int kStreamsPerConnectionMax = 2048;

// A channel with connections of its own: another channel's back-off does not hold it up. Proxies
// of the environment are not used: a job's master is never behind one.
// A relay's silence is found out sooner than a master's: behind a relay a host goes on by another
// way, and has to, before the master counts its silence as a lost node.
std::shared_ptr<grpc::Channel> Dial(const std::string& address, const Credentials& credentials,
                                    bool is_relay = false);

// Before the first channel or server of a process. Debian builds Abseil with its checks for
// inverted lock order, and gRPC's threads then spend a quarter of their time on a graph of locks
// that grows with every connection. Those locks are not ours to debug. And gRPC prints what it also
// returns as a status, a line for each handshake that fails, into a user's terminal: it shall not,
// unless GRPC_VERBOSITY is set.
void PrepareTransport();

// Until the channel is connected. UNAVAILABLE: nobody was there in time. FAILED_PRECONDITION, at
// once and with its Problem: one side speaks TLS and the other does not.
absl::Status AwaitConnection(grpc::Channel* channel, const std::string& address,
                             const Credentials& credentials,
                             std::chrono::system_clock::time_point until);

void AddToken(grpc::ClientContext* context, const Credentials& credentials);

absl::Status ToAbsl(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace paceline::wire

#include "paceline/wire/client/channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "grpc/support/log.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/to_proto.h"
#include "paceline/wire/security/certificates.h"
#include "paceline/wire/security/peer_limits.h"
#include "paceline/wire/security/socket_owner.h"
#include "paceline/wire/speech.h"
#include "paceline/wire/tcp_dial.h"

namespace paceline::wire {

void PrepareTransport() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // By the function and not by the variable, which ranks would inherit.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

namespace {

grpc::ChannelArguments ArgumentsOf(bool is_relay) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  // In fact the timeout of one connect.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(kConnectPatience / Duration::Milliseconds(1)));
  // Detects a silently cut link within seconds, even if this side sends nothing.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, is_relay ? 1500 : 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, is_relay ? 1000 : 3000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);  // for a relay without callers
  arguments.SetMaxReceiveMessageSize(kReplyBytesMax);
  return arguments;
}

// A connection to this user's process, or root's. gRPC gets that very connection, so no other
// process can take its place.
absl::StatusOr<std::shared_ptr<grpc::Channel>> DialOwn(const std::string& address,
                                                       const grpc::ChannelArguments& arguments) {
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(kConnectPatience.nanoseconds());
  ASSIGN_OR_RETURN(Fd fd, DialTcp(address, until));
  RETURN_IF_ERROR(CheckPeerIsOurs(fd.get(), address));
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // as gRPC's own connections
  return grpc::CreateCustomInsecureChannelFromFd(address, fd.Release(), arguments);
}

}  // namespace

bool ConnectsAgain(const std::string& address, const Credentials& credentials) {
  return credentials.is_tls() || !IsLoopbackAddress(address);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const std::string& address,
                                                    const Credentials& credentials, bool is_relay) {
  PrepareTransport();
  grpc::ChannelArguments arguments = ArgumentsOf(is_relay);
  if (!ConnectsAgain(address, credentials)) return DialOwn(address, arguments);
  if (!credentials.is_tls()) {
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }
  arguments.SetSslTargetNameOverride(std::string(kServerName));
  return grpc::CreateCustomChannel(address,
                                   grpc::SslCredentials({.pem_root_certs = credentials.ca_pem,
                                                         .pem_private_key = credentials.key_pem,
                                                         .pem_cert_chain = credentials.cert_pem}),
                                   arguments);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> DialUntil(
    const std::string& address, const Credentials& credentials,
    std::chrono::system_clock::time_point until) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  for (;;) {
    auto channel = Dial(address, credentials);
    if (!absl::IsUnavailable(channel.status())) return channel;
    if (std::chrono::system_clock::now() + kPause > until) {
      return absl::UnavailableError("the master does not answer");
    }
    std::this_thread::sleep_for(kPause);
  }
}

absl::Status AwaitConnection(grpc::Channel* channel, const std::string& address,
                             const Credentials& credentials,
                             std::chrono::system_clock::time_point until) {
  for (;;) {
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return absl::OkStatus();
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
      RETURN_IF_ERROR(CheckSpeech(address, credentials.is_tls(), kProbePatience));
    }
    if (!channel->WaitForStateChange(state, until)) {
      return absl::UnavailableError("the master does not answer");
    }
  }
}

void AddToken(grpc::ClientContext* context, const Credentials& credentials) {
  context->AddMetadata("authorization", "Bearer " + credentials.token);
}

absl::Status ToAbsl(const grpc::Status& status) {
  return MakeStatus(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::Status ToGrpc(const absl::Status& status) {
  // An error's text is sent in a header, whose size is limited.
  return {static_cast<grpc::StatusCode>(status.code()), CleanText(Text(status).substr(0, 1024))};
}

}  // namespace paceline::wire

#include "paceline/wire/client/agent_stream.h"

#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/v1/master.grpc.pb.h"
#include "paceline/wire/client/client_stream.h"
#include "paceline/wire/client/dialler.h"
#include "paceline/wire/codec/from_proto.h"

namespace paceline::wire {
namespace {

using AgentCall = ClientStream<pb::AgentMessage, pb::MasterMessage>;

}  // namespace

class AgentStream::Channel {
 public:
  Channel(AgentStreamOptions options, Sink sink)
      : options_(std::move(options)),
        sink_(std::move(sink)),
        dialler_(Route(options_.address, options_.relays, options_.who), options_.credentials) {
    stream_ = std::make_shared<AgentCall>(
        AgentCall::Hooks{
            .call = [this](grpc::ClientContext* context,
                           AgentCall::Reactor* reactor) -> absl::Status {
              AddToken(context, options_.credentials);
              is_registered_ = false;
              ASSIGN_OR_RETURN(const auto channel, dialler_.Next());
              stub_ = pb::Master::NewStub(channel);
              stub_->async()->Attach(context, reactor);
              return absl::OkStatus();
            },
            .on_open =
                [this] {
                  dialler_.Opened();
                  sink_(StreamOpened{});
                },
            .on_message = [this](const pb::MasterMessage& message) { return Heard(message); },
            .on_broken = [this](const grpc::Status& status) { Broken(status); }},
        ReconnectPace{.first = options_.reconnect_delay,
                      .longest = options_.reconnect_delay_max,
                      .seed = options_.jitter_seed});
    stream_->Start();
  }

  ~Channel() { stream_->Shutdown(); }

  bool Send(const AgentMessage& message) {
    if (std::holds_alternative<Register>(message)) is_registered_ = true;
    if (!is_registered_) return false;
    pb::AgentMessage encoded;
    ToProto(message, &encoded);
    return stream_->Write(std::move(encoded));
  }

  void HangUp() { stream_->HangUp(); }
  void Flush(Duration timeout) { stream_->Flush(timeout); }

 private:
  AgentCall::Verdict Heard(const pb::MasterMessage& encoded) {
    absl::StatusOr<MasterMessage> message = FromProto(encoded);
    // An unreadable message is not from this job's master, so the agent connects again.
    if (!message.ok()) return AgentCall::Verdict::kReconnect;
    const auto* refusal = std::get_if<Refusal>(&*message);
    const auto verdict = refusal == nullptr ? AgentCall::Verdict::kGoOn
                         : refusal->retry   ? AgentCall::Verdict::kReconnect
                                            : AgentCall::Verdict::kStop;
    std::visit([this](auto& body) { sink_(std::move(body)); }, *message);
    return verdict;
  }

  void Broken(const grpc::Status& status) {
    dialler_.Broken(status);
    is_registered_ = false;
    sink_(StreamBroken{.why = status.ok() ? "the master closed the stream" : status.error_message(),
                       .is_denied = status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
                                    status.error_code() == grpc::StatusCode::PERMISSION_DENIED});
  }

  const AgentStreamOptions options_;
  const Sink sink_;
  Dialler dialler_;
  std::unique_ptr<pb::Master::Stub> stub_;  // of the present attempt
  std::shared_ptr<AgentCall> stream_;       // owners: this, and each RPC of it
  std::atomic<bool> is_registered_ = false;
};

AgentStream::AgentStream(AgentStreamOptions options, Sink sink)
    : channel_(std::make_unique<Channel>(std::move(options), std::move(sink))) {}
AgentStream::~AgentStream() = default;
bool AgentStream::Send(AgentMessage message) { return channel_->Send(message); }
void AgentStream::HangUp() { channel_->HangUp(); }
void AgentStream::Flush(Duration timeout) { channel_->Flush(timeout); }

}  // namespace paceline::wire

#include "paceline/wire/server/relay.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <utility>

#include "grpcpp/alarm.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/wire/client/channel.h"
#include "paceline/wire/security/guard.h"
#include "paceline/wire/server/server_setup.h"

namespace paceline::wire {
namespace {

// Time for the master to accept a call. After it the caller gets an error and tries another route:
// the master may be gone, or only this relay's link to it.
constexpr auto kOpenPatience = std::chrono::seconds(5);

constexpr std::string_view kMasterAway = "the relay does not reach the master";
constexpr std::string_view kEnroll = "/paceline.v1.Enrollment/Enroll";

ServerCredentials ServingAs(const Credentials& own) {
  return {.token = own.token,
          .ca_pem = own.ca_pem,
          .cert_pem = own.is_tls() ? own.cert_pem + own.ca_pem : "",
          .key_pem = own.key_pem};
}

// Counts the calls that a relay is passing on at present. Thread-safe.
class CallCount {
 public:
  uint32_t all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  void Begin() {
    const std::lock_guard lock(mutex_);
    ++all_;
  }
  // To be called when the master has accepted the call.
  void Open() {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  void End(bool was_open) {
    const std::lock_guard lock(mutex_);
    if (--all_ == 0) none_left_.notify_all();
    if (was_open && --open_ == 0) none_open_.notify_all();
  }
  void WaitUntilNoneIsOpen() {
    std::unique_lock lock(mutex_);
    none_open_.wait(lock, [this] { return open_ == 0; });
  }
  void WaitUntilNoneIsLeft() {
    std::unique_lock lock(mutex_);
    none_left_.wait(lock, [this] { return all_ == 0; });
  }

 private:
  mutable std::mutex mutex_;  // guards the counts
  std::condition_variable none_open_;
  std::condition_variable none_left_;
  uint32_t all_ = 0;
  uint32_t open_ = 0;
};

// The channel to the master for all calls. Thread-safe.
class WayUp {
 public:
  using Stub = std::shared_ptr<grpc::GenericStub>;  // owners: this, and each call on it

  WayUp(std::string address, Credentials credentials)
      : address_(std::move(address)), credentials_(std::move(credentials)) {}

  absl::StatusOr<Stub> Get() {
    const std::lock_guard lock(mutex_);
    if (stub_ == nullptr) {
      ASSIGN_OR_RETURN(channel_, Dial(address_, credentials_));
      stub_ = std::make_shared<grpc::GenericStub>(channel_);
    }
    return stub_;
  }
  // Blocks while the connection stands. True: the master does not accept connections any more.
  bool AwaitChange() {
    const absl::StatusOr<Stub> stub = Get();
    if (!stub.ok()) return true;
    const std::shared_ptr<grpc::Channel> channel = Channel();
    const bool connects_again = ConnectsAgain(address_, credentials_);
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/connects_again);
    const bool is_broken =
        state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN;
    if (is_broken && connects_again) return true;
    if (is_broken || (state == GRPC_CHANNEL_IDLE && !connects_again)) {
      Broken(*stub);
    } else {
      channel->WaitForStateChange(state, std::chrono::system_clock::time_point::max());
    }
    return false;
  }
  // A call on that stub failed for lack of a connection.
  void Broken(const Stub& stub) {
    const std::lock_guard lock(mutex_);
    if (stub == stub_ && !ConnectsAgain(address_, credentials_)) stub_ = nullptr;
  }

 private:
  std::shared_ptr<grpc::Channel> Channel() {
    const std::lock_guard lock(mutex_);
    return channel_;
  }

  const std::string address_;
  const Credentials credentials_;
  std::mutex mutex_;                        // guards the members below
  std::shared_ptr<grpc::Channel> channel_;  // owners: this, stub_
  Stub stub_;
};

// What all calls of a relay share. It outlives them, because its channel may be the last of the
// process. gRPC's threads run the calls, and a thread of gRPC that frees the last channel waits for
// its own end, and then uses a queue that it has freed.
struct CallShare {
  CallCount count;
  WayUp way_up;
};

// One relayed call. At most one message is in flight in each direction, so a slow reader slows its
// writer, and nothing is queued here.
//
//   caller ──Down: read──▶ from_caller_ ──Up: write──▶ master
//   caller ◀──Down: write── from_master_ ◀──Up: read── master
//
// Down and Up are gRPC's reactors. Each ends with its own OnDone, and the later one deletes the
// object. Up has a hold (gRPC's word for "operations will come from outside") until its last read
// has failed. So it cannot end while the caller may still send, or while Down writes.
class RelayedCall {
 public:
  RelayedCall(grpc::GenericCallbackServerContext* context, WayUp::Stub stub, CallShare* share)
      : share_(*share), stub_(std::move(stub)), down_(this), up_(this) {
    share_.count.Begin();
    const auto authorization = context->client_metadata().find("authorization");
    up_context_.AddMetadata("authorization",
                            {authorization->second.data(), authorization->second.size()});
    const std::string nodes = JoinWith(NodesOfPeer(*context), ",");
    if (!nodes.empty()) up_context_.AddMetadata(kNodesHeader, nodes);
    up_context_.set_wait_for_ready(true);
    stub_->PrepareBidiStreamingCall(&up_context_, context->method(), {}, &up_);
    up_.AddHold();
  }

  grpc::ServerGenericBidiReactor* down() { return &down_; }

  // Called after construction, because gRPC may call back from here on.
  void Begin() {
    patience_.Set(std::chrono::system_clock::now() + kOpenPatience, [this](bool is_over) {
      if (is_over && !is_open_) up_context_.TryCancel();
      Release();
    });
    up_.StartCall();
    down_.StartRead(&from_caller_);
  }

 private:
  struct Down final : grpc::ServerGenericBidiReactor {
    explicit Down(RelayedCall* its_call) : call(its_call) {}
    void OnReadDone(bool ok) override { call->CallerSaid(ok); }
    void OnWriteDone(bool ok) override { call->CallerTold(ok); }
    void OnCancel() override { call->up_context_.TryCancel(); }
    void OnDone() override { call->Release(); }
    RelayedCall* const call;
  };
  struct Up final : grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
    explicit Up(RelayedCall* its_call) : call(its_call) {}
    void OnReadInitialMetadataDone(bool ok) override { call->MasterOpened(ok); }
    void OnReadDone(bool ok) override { call->MasterSaid(ok); }
    void OnWriteDone(bool ok) override { call->MasterTold(ok); }
    void OnDone(const grpc::Status& status) override { call->MasterEnded(status); }
    RelayedCall* const call;
  };

  void CallerSaid(bool ok) {
    const std::lock_guard lock(mutex_);
    if (is_up_over_) return;
    if (ok) {
      up_.StartWrite(&from_caller_);
    } else {
      up_.StartWritesDone();
    }
  }
  void MasterTold(bool ok) {
    if (ok) down_.StartRead(&from_caller_);  // else Up ends with the reason
  }

  void MasterOpened(bool ok) {
    if (ok) {
      is_open_ = true;
      share_.count.Open();
      patience_.Cancel();
      down_.StartSendInitialMetadata();
    }
    up_.StartRead(&from_master_);
  }
  void MasterSaid(bool ok) {
    if (ok) {
      down_.StartWrite(&from_master_);
    } else {
      EndUp();
    }
  }
  void CallerTold(bool ok) {
    if (ok) {
      up_.StartRead(&from_master_);
      return;
    }
    up_context_.TryCancel();
    EndUp();
  }

  void EndUp() {
    {
      const std::lock_guard lock(mutex_);
      is_up_over_ = true;
    }
    up_.RemoveHold();
  }
  void MasterEnded(const grpc::Status& status) {
    patience_.Cancel();
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) share_.way_up.Broken(stub_);
    const bool is_impatience = !is_open_ && status.error_code() == grpc::StatusCode::CANCELLED;
    down_.Finish(is_impatience
                     ? grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(kMasterAway))
                     : status);
    Release();
  }

  // Parts: Down, Up and the alarm.
  void Release() {
    if (parts_left_.fetch_sub(1) > 1) return;
    CallShare& share = share_;
    const bool was_open = is_open_;
    delete this;
    share.count.End(was_open);
  }

  CallShare& share_;
  const WayUp::Stub stub_;
  std::atomic<int> parts_left_ = 3;
  std::atomic<bool> is_open_ = false;
  grpc::ClientContext up_context_;
  grpc::Alarm patience_;
  grpc::ByteBuffer from_caller_;
  grpc::ByteBuffer from_master_;
  std::mutex mutex_;
  bool is_up_over_ = false;  // guarded: no write to Up may start any more
  Down down_;
  Up up_;
};

class DeniedCall final : public grpc::ServerGenericBidiReactor {
 public:
  explicit DeniedCall(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

class Relay::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(RelayOptions options)
      : options_(std::move(options)),
        serving_(ServingAs(options_.credentials)),
        guard_(serving_,
               UnprovenConnections::BoundsFor(options_.listen, options_.unproven_per_peer_max,
                                              options_.calls_max, DescriptorLimit())),
        share_{.way_up = {options_.master, options_.credentials}} {}
  ~Service() override {
    server_.reset();
    share_.count.WaitUntilNoneIsLeft();
  }

  absl::Status Start() {
    ASSIGN_OR_RETURN(const auto builder, BeginServer(serving_));
    builder->RegisterCallbackGenericService(this);
    ASSIGN_OR_RETURN(server_, JobServer::Start(builder.get(), {"relay", options_.listen}, serving_,
                                               guard_.unproven()));
    return absl::OkStatus();
  }

  int port() const { return server_->port(); }
  void WaitUntilMasterHasGone() {
    do {
      share_.count.WaitUntilNoneIsOpen();
    } while (!share_.way_up.AwaitChange());
  }

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    // A host that enrolls has no certificate yet. The master checks its token as well.
    grpc::Status status =
        context->method() == kEnroll ? guard_.CheckToken(*context) : guard_.Check(*context);
    if (status.ok() && share_.count.all() >= options_.calls_max) {
      status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "this relay has no room"};
    }
    if (!status.ok()) return new DeniedCall(status);
    auto stub = share_.way_up.Get();
    if (absl::IsUnavailable(stub.status())) {
      return new DeniedCall({grpc::StatusCode::UNAVAILABLE, std::string(kMasterAway)});
    }
    if (!stub.ok()) return new DeniedCall(ToGrpc(stub.status()));
    auto* call = new RelayedCall(context, *std::move(stub), &share_);  // deletes itself
    call->Begin();
    return call->down();
  }

  const RelayOptions options_;
  const ServerCredentials serving_;
  const Guard guard_;
  CallShare share_;
  std::unique_ptr<JobServer> server_;
};

Relay::Relay(std::unique_ptr<Service> service) : service_(std::move(service)) {}
Relay::~Relay() = default;

absl::StatusOr<std::unique_ptr<Relay>> Relay::Start(RelayOptions options) {
  auto service = std::make_unique<Service>(std::move(options));
  RETURN_IF_ERROR(service->Start());
  return std::unique_ptr<Relay>(new Relay(std::move(service)));
}

void Relay::WaitUntilMasterHasGone() { service_->WaitUntilMasterHasGone(); }

uint32_t Relay::port() const { return static_cast<uint32_t>(service_->port()); }

}  // namespace paceline::wire

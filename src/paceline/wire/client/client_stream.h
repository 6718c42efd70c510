#pragma once

// Internal to wire: one bidirectional stream that reconnects without limit. AgentStream and
// SupervisorStream use it with their own messages.
//
//   kDialling ──initial metadata──▶ kOpen ──any end──▶ kPausing ──pause over──▶ kDialling
//        └───────────────────refused or lost──────────────▲
//   any ──Shutdown, or the last message heard──▶ kStopped
//
// One Attempt is one RPC. Writes start under the lock, and only while the attempt's read is
// pending. So gRPC cannot end the RPC between the check of the state and the write.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "grpcpp/alarm.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "paceline/base/instant.h"
#include "paceline/base/prng.h"
#include "paceline/wire/client/channel.h"

namespace paceline::wire {

struct ReconnectPace {
  Duration first;
  Duration longest;
  uint64_t seed = 0;
};

template <class Out, class In>
class ClientStream : public std::enable_shared_from_this<ClientStream<Out, In>> {
 public:
  using Reactor = grpc::ClientBidiReactor<Out, In>;
  enum class Verdict { kGoOn, kReconnect, kStop };
  struct Hooks {
    // Starts the RPC with this context and reactor. On an error there is no RPC, and the attempt
    // ends with that error.
    std::function<absl::Status(grpc::ClientContext*, Reactor*)> call;
    std::function<void()> on_open;
    std::function<Verdict(const In&)> on_message;
    std::function<void(const grpc::Status&)> on_broken;
  };
  static constexpr size_t kQueueMax = 1024;

  ClientStream(Hooks hooks, ReconnectPace pace)
      : hooks_(std::move(hooks)), pace_(pace), pause_(pace.first), prng_(pace.seed) {}

  void Start() { Dial(); }

  void Shutdown() {
    std::unique_lock lock(mutex_);
    is_stopped_ = true;
    if (attempt_ != nullptr) attempt_->context.TryCancel();
    if (is_pausing_) alarm_->Cancel();
    changed_.wait(lock, [&] { return attempt_ == nullptr && !is_pausing_; });
    alarm_.reset();  // its callback holds this object
  }

  // False: not open, or the queue was full and the stream was given up.
  bool Write(Out message) {
    const std::lock_guard lock(mutex_);
    if (attempt_ == nullptr || !attempt_->is_open) return false;
    if (attempt_->queue.size() >= kQueueMax) {
      attempt_->context.TryCancel();
      return false;
    }
    attempt_->queue.push_back(std::move(message));
    WriteNext();
    return true;
  }

  // Ends the present attempt; the next one comes after the longest pause.
  void HangUp() {
    const std::lock_guard lock(mutex_);
    if (attempt_ == nullptr) return;
    pause_ = pace_.longest;
    attempt_->context.TryCancel();
  }

  void Flush(Duration timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(timeout.nanoseconds()), [&] {
      return attempt_ == nullptr || !attempt_->is_open ||
             (attempt_->queue.empty() && !attempt_->is_writing);
    });
  }

 private:
  struct Attempt : Reactor {
    explicit Attempt(std::shared_ptr<ClientStream> owner) : stream(std::move(owner)) {}
    void OnReadInitialMetadataDone(bool ok) override { stream->Opened(this, ok); }
    void OnReadDone(bool ok) override { stream->Heard(this, ok); }
    void OnWriteDone(bool ok) override { stream->Written(this, ok); }
    void OnDone(const grpc::Status& status) override {
      const std::shared_ptr<ClientStream> keep = stream;
      keep->Ended(this, status);
    }

    const std::shared_ptr<ClientStream> stream;  // owners: the handle's Channel and this RPC
    grpc::ClientContext context;
    bool is_open = false;
    bool is_writing = false;
    bool is_final = false;  // the last message has come: do not dial again
    std::deque<Out> queue;
    Out writing;
    In heard;
  };

  void Dial() {
    Attempt* attempt = nullptr;
    {
      const std::lock_guard lock(mutex_);
      is_pausing_ = false;
      if (is_stopped_) {
        changed_.notify_all();
        return;
      }
      attempt = attempt_ = new Attempt(this->shared_from_this());
    }
    // Without the lock, because connecting may take a while. Only this attempt's end frees it.
    const absl::Status started = hooks_.call(&attempt->context, attempt);
    if (!started.ok()) return Ended(attempt, ToGrpc(started));
    attempt->StartCall();
  }

  void Opened(Attempt* attempt, bool ok) {
    if (ok) {
      {
        const std::lock_guard lock(mutex_);
        attempt->is_open = true;
        pause_ = pace_.first;
      }
      hooks_.on_open();
    }
    attempt->StartRead(&attempt->heard);
  }

  void Heard(Attempt* attempt, bool ok) {
    if (!ok) {
      const std::lock_guard lock(mutex_);
      attempt->is_open = false;
      changed_.notify_all();
      return;
    }
    const Verdict verdict = hooks_.on_message(attempt->heard);
    if (verdict != Verdict::kGoOn) {
      const std::lock_guard lock(mutex_);
      attempt->is_final = verdict == Verdict::kStop;
      pause_ = pace_.longest;  // the server was reached, so an immediate retry would not help
      attempt->context.TryCancel();
    }
    attempt->StartRead(&attempt->heard);
  }

  void Written(Attempt* attempt, bool ok) {
    const std::lock_guard lock(mutex_);
    attempt->is_writing = false;
    if (!ok) attempt->is_open = false;
    WriteNext();
    changed_.notify_all();
  }

  // The lock must be held.
  void WriteNext() {
    Attempt* attempt = attempt_;
    if (!attempt->is_open || attempt->is_writing || attempt->queue.empty()) return;
    attempt->writing = std::move(attempt->queue.front());
    attempt->queue.pop_front();
    attempt->is_writing = true;
    attempt->StartWrite(&attempt->writing);
  }

  void Ended(Attempt* attempt, const grpc::Status& status) {
    const bool is_final = attempt->is_final;
    if (!is_final) hooks_.on_broken(status);
    const std::lock_guard lock(mutex_);
    attempt_ = nullptr;
    delete attempt;
    if (is_final) is_stopped_ = true;
    if (!is_stopped_) Pause();
    changed_.notify_all();
  }

  // The lock must be held. Half of the pause is random, so that agents do not reconnect at the same
  // moment.
  void Pause() {
    const int64_t half = pause_.nanoseconds() / 2;
    const std::chrono::nanoseconds wait(half + prng_.Between(0, half));
    pause_ = std::min(pause_ * 2, pace_.longest);
    is_pausing_ = true;
    // A new alarm for each pause, because this may run in the old alarm's callback.
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(wait),
                [self = this->shared_from_this()](bool) { self->Dial(); });
  }

  const Hooks hooks_;
  const ReconnectPace pace_;
  std::mutex mutex_;  // guards the members below and the fields of *attempt_
  std::condition_variable changed_;
  Duration pause_;
  Prng prng_;
  Attempt* attempt_ = nullptr;  // deletes itself through Ended
  std::unique_ptr<grpc::Alarm> alarm_;
  bool is_pausing_ = false;
  bool is_stopped_ = false;
};

}  // namespace paceline::wire

#pragma once

// Internal to wire: one accepted bidirectional stream of the master.
//
// The lock guards the writing half only. A stream is finished once, and not during a write; after
// Finish nothing is started. OnDone is the last call and deletes the stream.

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "grpcpp/alarm.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

namespace paceline::wire {

template <class In, class Out>
class ServerStream : public grpc::ServerBidiReactor<In, Out> {
 public:
  // Sends queued messages, then ends the stream with `status`.
  void CloseGently(grpc::Status status) {
    const std::lock_guard lock(mutex_);
    if (!is_closing_) end_ = std::move(status);
    is_closing_ = true;
    WriteNext();
  }

  // Ends the stream, whether or not the other side reads. A write in progress may arrive, so that
  // the other side gets `status` and not only an end.
  void CloseHard(grpc::Status status) {
    const std::lock_guard lock(mutex_);
    if (!is_closing_) end_ = std::move(status);
    is_closing_ = true;
    if (!std::exchange(is_hard_, true) && is_writing_) {
      patience_.emplace().Set(std::chrono::system_clock::now() + kLastWritePatience,
                              [rope = rope_](bool is_over) {
                                if (is_over) rope->Cut();
                              });
    }
    WriteNext();
  }

 protected:
  explicit ServerStream(grpc::CallbackServerContext* context)
      : context_(context), rope_(std::make_shared<Rope>(context)) {}
  ~ServerStream() override { rope_->Drop(); }

  // Called after construction, so that no callback sees a half-made object.
  void Open() {
    this->StartSendInitialMetadata();
    this->StartRead(&heard_);
  }

  virtual void Heard(const In& message) = 0;
  // The next message to write; false if there is none. The lock must be held.
  virtual bool TakeNext(Out* message) = 0;

  // Changes TakeNext's queue under the lock, then writes.
  template <class Change>
  void Queue(Change change) {
    const std::lock_guard lock(mutex_);
    if (is_closing_) return;
    change();
    WriteNext();
  }

 private:
  static constexpr std::chrono::milliseconds kLastWritePatience{500};

  // Shared with an alarm that may outlive the stream.
  class Rope {
   public:
    explicit Rope(grpc::CallbackServerContext* context) : context_(context) {}
    void Cut() {
      const std::lock_guard lock(mutex_);
      if (context_ != nullptr) context_->TryCancel();
    }
    void Drop() {
      const std::lock_guard lock(mutex_);
      context_ = nullptr;
    }

   private:
    std::mutex mutex_;
    grpc::CallbackServerContext* context_;
  };

  // The other side is gone.
  void Break(grpc::Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_closing_) end_ = std::move(status);
      is_closing_ = is_hard_ = true;
      WriteNext();
      if (!is_writing_) return;
    }
    context_->TryCancel();  // the write fails at once, and WriteNext finishes
  }
  void OnReadDone(bool ok) final {
    if (!ok) {
      Break(grpc::Status::OK);
      return;
    }
    Heard(heard_);
    this->StartRead(&heard_);
  }
  void OnWriteDone(bool ok) final {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    if (!ok) is_closing_ = is_hard_ = true;
    WriteNext();
  }
  void OnCancel() final { Break(grpc::Status::CANCELLED); }

  void WriteNext() {
    if (is_writing_ || is_finished_) return;
    if (!is_hard_ && TakeNext(&writing_)) {
      is_writing_ = true;
      this->StartWrite(&writing_);
    } else if (is_closing_) {
      is_finished_ = true;
      this->Finish(end_);
    }
  }

  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<Rope> rope_;     // owners: this object and its alarm
  std::optional<grpc::Alarm> patience_;  // for the last write; guarded by mutex_
  In heard_;
  std::mutex mutex_;  // guards the members below
  Out writing_;
  grpc::Status end_;
  bool is_writing_ = false;
  bool is_closing_ = false;
  bool is_hard_ = false;
  bool is_finished_ = false;
};

}  // namespace paceline::wire

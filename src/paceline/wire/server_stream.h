#pragma once

// Inside of wire: one accepted bidirectional stream of the master.
//
// The lock guards the writing half only. A stream is finished once, and never while a write is on
// its way; after Finish nothing is started any more. OnDone is the last call, and deletes.

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

namespace paceline::wire {

template <class In, class Out>
class ServerStream : public grpc::ServerBidiReactor<In, Out> {
 public:
  // Sends what is queued, then ends the stream with `status`.
  void CloseGently(grpc::Status status) {
    const std::lock_guard lock(mutex_);
    if (!is_closing_) end_ = std::move(status);
    is_closing_ = true;
    WriteNext();
  }

  // Ends it now, whether or not the other side still reads.
  void CloseHard(grpc::Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_closing_) end_ = std::move(status);
      is_closing_ = true;
      is_hard_ = true;
      if (!is_writing_) {
        WriteNext();
        return;
      }
    }
    context_->TryCancel();  // the write comes back at once, and WriteNext finishes
  }

 protected:
  explicit ServerStream(grpc::CallbackServerContext* context) : context_(context) {}

  // After construction: nothing can call back into a half-made object.
  void Open() {
    this->StartSendInitialMetadata();
    this->StartRead(&heard_);
  }

  virtual void Heard(const In& message) = 0;
  // The next message to write; false when there is none. Under the lock.
  virtual bool TakeNext(Out* message) = 0;

  // Changes the queue behind TakeNext under the lock, then writes.
  template <class Change>
  void Queue(Change change) {
    const std::lock_guard lock(mutex_);
    if (is_closing_) return;
    change();
    WriteNext();
  }

 private:
  void OnReadDone(bool ok) final {
    if (!ok) {
      CloseHard(grpc::Status::OK);
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
  void OnCancel() final { CloseHard(grpc::Status::CANCELLED); }

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
  In heard_;
  std::mutex mutex_;  // guards all below
  Out writing_;
  grpc::Status end_;
  bool is_writing_ = false;
  bool is_closing_ = false;
  bool is_hard_ = false;
  bool is_finished_ = false;
};

}  // namespace paceline::wire

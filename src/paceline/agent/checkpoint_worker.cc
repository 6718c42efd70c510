#include "paceline/agent/checkpoint_worker.h"

#include <pthread.h>

#include <utility>

#include "paceline/agent/reactor.h"
#include "paceline/base/log.h"

namespace paceline::agent {
namespace {

CheckpointDone Do(const ShardTask& task) {
  const int64_t began = MonotonicNs();
  const ckpt::Arena& arena = *task.arena;
  const ckpt::ShardBytes bytes{.file = arena.FileOf(task.image),
                               .file_hashes = arena.FileHashesOf(task.image),
                               .notes = arena.NotesOf(task.image),
                               .notes_hashes = arena.NotesHashesOf(task.image)};
  const Result<void> written = ckpt::WriteShard(task.place, bytes);
  ShardDone done{task, "", Duration::Nanoseconds(MonotonicNs() - began)};
  // Complete already: an earlier answer of ours was lost.
  if (!written.ok() && written.failure().kind != FailureKind::kExists) {
    done.problem = written.failure().message;
  }
  return done;
}

CheckpointDone Do(const CommitTask& task) {
  CommitDone done{task.place.order.name, "", 0};
  const Result<uint64_t> bytes = ckpt::Commit(task.place);
  if (!bytes.ok()) {
    done.problem = bytes.failure().message;
    return done;
  }
  done.bytes = *bytes;
  ckpt::Prune(task.place.directory, task.keep);
  return done;
}

CheckpointDone Do(const LookTask& task) {
  return LookDone{task.directory, ckpt::Newest(task.directory, task.except)};
}

}  // namespace

CheckpointWorker::CheckpointWorker(Sink sink)
    : sink_(std::move(sink)), thread_([this] { Work(); }) {
  ::pthread_setname_np(thread_.native_handle(), "checkpoints");
}

CheckpointWorker::~CheckpointWorker() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void CheckpointWorker::Add(CheckpointTask task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void CheckpointWorker::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
    if (is_ending_) return;
    const CheckpointTask task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    sink_(std::visit([](const auto& one) { return Do(one); }, task));
    lock.lock();
  }
}

}  // namespace paceline::agent

#include "paceline/agent/memory/checkpoint_worker.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "paceline/agent/shaping.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/ckpt/storage/directory_claim.h"
#include "paceline/ckpt/storage/rescue_files.h"

namespace paceline::agent {
namespace {

ckpt::Pacer::Clock RealClock() {
  return {.now_ns = MonotonicNs, .sleep_ns = [](int64_t ns) {
            std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
          }};
}

// Lowers the priority of this thread only; see agent/shaping.h. Without permission it is not
// lowered.
void Yield() {
  const auto thread = static_cast<id_t>(::gettid());
  (void)::setpriority(PRIO_PROCESS, thread, kWorkerNice);
  constexpr int kOfOneThread = 1;           // IOPRIO_WHO_PROCESS
  constexpr int kLastOfBest = 2 << 13 | 7;  // IOPRIO_CLASS_BE, level 7
  (void)::syscall(SYS_ioprio_set, kOfOneThread, 0, kLastOfBest);
}

// True if writes fail until a person grants rights or frees room.
bool RefusesWrites(const Failure& failure) {
  const int error = failure.error_number;
  return failure.kind == FailureKind::kNotOurs || failure.kind == FailureKind::kFull ||
         error == EACCES || error == EPERM || error == EROFS;
}

Result<void> LookForClaim(ckpt::Store* store, ClaimDone* done) {
  ASSIGN_OR_RETURN(done->found, ckpt::ReadClaim(store));
  const std::string& own = done->task.job_id;
  if (done->found.has_value() && done->found->job_id == own) return {};
  ASSIGN_OR_RETURN(done->foreign, ckpt::ForeignIn(store, own));
  return {};
}

}  // namespace

// With remote storage, write to the local disk first. This frees the memory soon, and storage that
// hangs blocks only tasks that need it. A rescue writes to storage directly: the job's ranks have
// ended, so no save waits for the memory.
Result<void> CheckpointWorker::Write(ckpt::Store* store, ShardTask* task) {
  const auto send = [&]() -> Result<void> {
    RETURN_IF_ERROR(AskForLeave(store, task->place.job_id, task->term, task->known));
    return tier_->Send(store, task->place, &pacer_);
  };
  if (task->claim == nullptr) return send();
  const ckpt::Arena& arena = *task->claim->arena;
  const ArenaImage& what = task->claim->image;
  ckpt::MemorySource file(arena.FileOf(what));
  ckpt::MemorySource notes(arena.NotesOf(what));
  const ckpt::ShardImage image{.file = &file,
                               .file_hashes = arena.FileHashesOf(what),
                               .notes = &notes,
                               .notes_hashes = arena.NotesHashesOf(what)};
  if (tier_->is_on() && !task->is_rescue && IsFar(*store)) {
    const Result<void> kept = tier_->Write(task->place, image, what, &pacer_);
    if (kept.ok()) {
      task->claim.reset();
      sink_(ImageFreed());
      return send();
    }
    LogWarning("local_tier_left_out",
               {{"rank", task->place.rank}, {"why", kept.failure().message}});
  }
  RETURN_IF_ERROR(AskForLeave(store, task->place.job_id, task->term, task->known));
  return ckpt::WriteShard(store, task->place, image, &pacer_);
}

Result<void> CheckpointWorker::AskForLeave(
    ckpt::Store* store, const std::string& job_id, uint64_t term,
    const std::optional<std::vector<ForeignCheckpoint>>& known) {
  ASSIGN_OR_RETURN(const bool has_claim, ckpt::CheckClaim(store, job_id, term, known));
  if (!has_claim && known.has_value()) sink_(ClaimGone());
  return {};
}

// Returns true if the store is on another host. The answer is kept, because a query to a server
// that hangs would block before the local disk has the image.
bool CheckpointWorker::IsFar(const ckpt::Store& store) {
  if (far_ != store.root() && LocalTier::Serves(store)) far_ = store.root();
  return far_ == store.root();
}

void CheckpointWorker::Do(ShardTask& task) {
  const int64_t began = MonotonicNs();
  const Result<ckpt::Store*> store = store_.At(task.directory);
  const Result<void> written = store.ok() ? Write(*store, &task) : store.failure();
  ShardDone done{task, "", Duration::Nanoseconds(MonotonicNs() - began)};
  // kExists: complete already, but our earlier answer was lost.
  if (!written.ok() && written.failure().kind != FailureKind::kExists) {
    done.problem = written.failure().message;
  }
  sink_(std::move(done));
}

void CheckpointWorker::Do(const CommitTask& task) {
  CommitDone done{.name = task.place.order.name};
  const Result<ckpt::Store*> store = store_.At(task.directory);
  const auto commit = [&]() -> Result<ckpt::Manifest> {
    if (!store.ok()) return store.failure();
    RETURN_IF_ERROR(AskForLeave(*store, task.place.job_id, task.term, task.known));
    return ckpt::Commit(*store, task.place);
  };
  const Result<ckpt::Manifest> whole = commit();
  if (whole.ok()) {
    done.bytes = whole->bytes();
    done.has_own_parameters = !whole->differing.parameters.empty();
  } else {
    done.problem = whole.failure().message;
    done.is_passed = whole.failure().kind == FailureKind::kFenced;
  }
  sink_(std::move(done));
  if (!whole.ok()) return;
  // Clean-up, for which no rank waits.
  ckpt::RemoveParts(*store, task.place.order);
  const Result<void> pruned = ckpt::Prune(*store, task.keep);
  if (!pruned.ok()) LogWarning("retention", {{"why", pruned.failure().message}});
}

void CheckpointWorker::Do(const LookTask& task) {
  LookDone done{task.directory, "", std::nullopt};
  done.is_for_world = task.is_for_world;
  const Result<ckpt::Store*> store = store_.At(task.directory);
  const auto newest = store.ok() ? ckpt::Newest(*store, task.except)
                                 : Result<std::optional<StoredCheckpoint>>(store.failure());
  if (newest.ok()) {
    done.stored = *newest;
    if (done.stored.has_value()) {
      auto passed = ckpt::PassedOverFor(*store, done.stored->name, task.except);
      if (passed.ok()) done.passed_over = *std::move(passed);  // else the next read says why
    }
  } else {
    done.problem = newest.failure().message;
    const Failure& failure = newest.failure();
    done.is_refused = failure.kind == FailureKind::kNotOurs || ckpt::IsDenied(failure);
    done.is_newer = ckpt::IsNewer(newest.failure());
  }
  sink_(std::move(done));
}

void CheckpointWorker::Do(const FetchTask& task) {
  FetchDone done{task, "", FailureKind::kSystem, {}};
  const Result<ckpt::Store*> store = store_.At(task.directory);
  const auto fetched = store.ok() ? tier_->Fetch(*store, task.name, task.wish)
                                  : Result<ckpt::Copied>(store.failure());
  if (fetched.ok()) {
    done.fetched = *fetched;
  } else {
    done.problem = fetched.failure().message;
    done.kind = fetched.failure().kind;
  }
  sink_(std::move(done));
}

void CheckpointWorker::Do(const ClaimTask& task) {
  ClaimDone done{.task = task, .found = {}, .problem = ""};
  const Result<ckpt::Store*> store = store_.At(task.directory);
  if (!store.ok()) {
    done.problem = store.failure().message;
  } else if (!task.claim.has_value()) {
    const Result<void> looked = LookForClaim(*store, &done);
    if (!looked.ok()) done.problem = looked.failure().message;
  } else {
    const Result<void> written = ckpt::WriteClaim(*store, task.over, *task.claim);
    done.is_passed = !written.ok() && written.failure().kind == FailureKind::kFenced;
    if (!written.ok() && !done.is_passed) {
      done.problem = written.failure().message;
      done.is_refused = RefusesWrites(written.failure());
    }
  }
  sink_(std::move(done));
}

void CheckpointWorker::Do(const UnclaimTask& task) {
  const Result<ckpt::Store*> store = store_.At(task.directory);
  const Result<void> removed = store.ok() ? ckpt::RemoveClaim(*store, task.claim) : store.failure();
  if (!removed.ok()) LogWarning("claim_stays", {{"why", removed.failure().message}});
}

void CheckpointWorker::Do(const RescueTask& task) {
  RescueDone done{.call = {}, .has_answered = task.answer.has_value(), .problem = ""};
  const auto look = [&]() -> Result<std::optional<RescueCall>> {
    ASSIGN_OR_RETURN(ckpt::Store* const store, store_.At(task.directory));
    if (task.answer.has_value()) RETURN_IF_ERROR(ckpt::PutRescueAnswer(store, *task.answer));
    return ckpt::ReadRescueCall(store);
  };
  Result<std::optional<RescueCall>> call = look();
  if (call.ok()) {
    done.call = *std::move(call);
  } else {
    done.problem = call.failure().message;
  }
  sink_(std::move(done));
}

CheckpointWorker::CheckpointWorker(Sink sink, ckpt::StoreHost host, LocalTier* tier)
    : sink_(std::move(sink)),
      store_(std::move(host)),
      tier_(tier),
      pacer_(RealClock()),
      thread_([this] { Work(); }) {
  ::pthread_setname_np(thread_.native_handle(), "checkpoints");
}

CheckpointWorker::~CheckpointWorker() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointWorker::Add(CheckpointTask task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

bool CheckpointWorker::AwaitIdle(Duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(limit.nanoseconds()),
                           [this] { return tasks_.empty() && !is_working_; });
}

void CheckpointWorker::Work() {
  Yield();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
    if (is_ending_) return;
    CheckpointTask task = std::move(tasks_.front());
    tasks_.pop_front();
    is_working_ = true;
    lock.unlock();
    std::visit([this](auto& one) { Do(one); }, task);
    lock.lock();
    is_working_ = false;
    changed_.notify_all();
  }
}

}  // namespace paceline::agent

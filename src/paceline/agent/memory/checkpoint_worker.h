#pragma once

// The thread that moves checkpoints between memory and storage, so that a slow or stuck file system
// holds up neither the agent's loop nor a rank. It takes one task after the other and posts what
// came of it to the loop.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/agent/memory/local_tier.h"
#include "paceline/agent/memory/opened_store.h"
#include "paceline/base/instant.h"
#include "paceline/ckpt/disk/pacer.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/stores.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/directory_claim.h"

namespace paceline::agent {

// Without a claim the image is taken from the local tier.
struct ShardTask {
  std::string directory;
  ckpt::ShardPlace place;
  std::shared_ptr<const ImageClaim> claim;
  // Checkpoints of other jobs that the directory held when this job claimed it. Nothing: this job
  // has no claim there.
  std::optional<std::vector<ForeignCheckpoint>> known = {};
};
struct CommitTask {
  std::string directory;
  ckpt::CommitPlace place;
  uint32_t keep = 3;
  std::optional<std::vector<ForeignCheckpoint>> known = {};  // as above
};
// What is the newest checkpoint there?
struct LookTask {
  std::string directory;
  std::set<std::string> except;
};
// For a restore: what ranks read of a store that has no paths.
struct FetchTask {
  std::string directory;
  std::string name;  // of the checkpoint
  ckpt::CopyWish wish;
  uint64_t asked_by = 0;
};
// Who saves to that directory? And with `claim`: this job does, if `over` stands there.
struct ClaimTask {
  std::string directory;
  std::optional<DirectoryClaim> claim = {};
  std::optional<DirectoryClaim> over = {};
  std::string job_id = {};  // of a look: this job
};
struct UnclaimTask {
  std::string directory;
  DirectoryClaim claim;
};
using CheckpointTask =
    std::variant<ShardTask, CommitTask, LookTask, FetchTask, ClaimTask, UnclaimTask>;

// A write found no claim of this job, which had one: it has to be claimed anew.
struct ClaimGone {};
// An image stands on the local disk, and goes on to storage from there; its memory is free.
struct ImageFreed {};

struct ShardDone {
  ShardTask task;
  std::string problem;  // empty: durable
  Duration took;
};
struct FetchDone {
  FetchTask task;
  std::string problem;                      // empty: the files are in the local tier
  FailureKind kind = FailureKind::kSystem;  // of the problem
  ckpt::Copied fetched;
};
struct CommitDone {
  std::string name;
  std::string problem;
  uint64_t bytes = 0;
  bool has_own_parameters = false;
};
struct LookDone {
  std::string directory;
  std::string problem;  // the store cannot be asked now, which is not the same as an empty one
  std::optional<StoredCheckpoint> stored;
  bool is_refused = false;                         // it lets nobody in who comes like this
  bool is_newer = false;                           // a newer version wrote the newest checkpoint
  std::vector<ckpt::PassedOver> passed_over = {};  // newer than `stored`
};
struct ClaimDone {
  ClaimTask task;
  std::optional<DirectoryClaim> found;  // of a look
  // Of a look that found no claim of this job: what others have there.
  std::vector<ForeignCheckpoint> foreign = {};
  bool is_passed = false;  // of a claim: something else stands there
  std::string problem;
  bool is_refused = false;  // of a problem: storage takes no writes, for lack of rights or room
};
using CheckpointDone =
    std::variant<ShardDone, CommitDone, LookDone, FetchDone, ImageFreed, ClaimDone, ClaimGone>;

class CheckpointWorker {
 public:
  // Runs on the worker's thread.
  using Sink = std::function<void(CheckpointDone)>;

  // The tier outlives the worker.
  CheckpointWorker(Sink sink, ckpt::StoreHost host, LocalTier* tier);
  // Waits for the present task alone; what waits is dropped.
  ~CheckpointWorker();
  CheckpointWorker(const CheckpointWorker&) = delete;
  CheckpointWorker& operator=(const CheckpointWorker&) = delete;

  void Add(CheckpointTask task);
  // Until all that was added is done, or that time is over: false.
  bool AwaitIdle(Duration limit);
  // Of what it writes from now on, and of what it writes now; agent/shaping.h.
  void SetRate(uint64_t bytes_per_second) { pacer_.SetRate(bytes_per_second); }

 private:
  void Work();
  // Each tells the sink what came of it.
  void Do(ShardTask& task);
  void Do(const CommitTask& task);
  void Do(const LookTask& task);
  void Do(const FetchTask& task);
  void Do(const ClaimTask& task);
  void Do(const UnclaimTask& task);
  Result<void> Write(ckpt::Store* store, ShardTask* task);
  Result<void> AskForLeave(ckpt::Store* store, const std::string& job_id,
                           const std::optional<std::vector<ForeignCheckpoint>>& known);
  bool IsFar(const ckpt::Store& store);

  const Sink sink_;
  OpenedStore store_;  // the thread's
  std::string far_;    // the root of a store that wants the tier; likewise
  LocalTier* const tier_;
  ckpt::Pacer pacer_;
  std::mutex mutex_;  // guards the four below
  std::condition_variable changed_;
  std::deque<CheckpointTask> tasks_;
  bool is_working_ = false;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace paceline::agent

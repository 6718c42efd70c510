#pragma once

// The thread that moves checkpoints between memory and storage, so that a slow file system blocks
// neither the agent's loop nor a rank. It runs one task after the other and posts each result to
// the loop.

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
#include "paceline/model/rescue.h"

namespace paceline::agent {

// Without a claim, the image comes from the local tier.
struct ShardTask {
  std::string directory;
  ckpt::ShardPlace place;
  std::shared_ptr<const ImageClaim> claim;
  // Other jobs' checkpoints in the directory when this job claimed it. None: this job has no claim
  // there.
  std::optional<std::vector<ForeignCheckpoint>> known = {};
  uint64_t term = 0;       // of the master that this node listens to
  bool is_rescue = false;  // asked for by a rescue, and not by a master
};
struct CommitTask {
  std::string directory;
  ckpt::CommitPlace place;
  uint32_t keep = 3;
  std::optional<std::vector<ForeignCheckpoint>> known = {};  // as above
  uint64_t term = 0;                                         // as above
};
// Finds the newest checkpoint in a directory.
struct LookTask {
  std::string directory;
  std::set<std::string> except;
  bool is_for_world = false;  // a keeper wants to number a world, and no station has asked
};
// For a restore: fetches the files that ranks read, if the store has no paths.
struct FetchTask {
  std::string directory;
  std::string name;  // of the checkpoint
  ckpt::CopyWish wish;
  uint64_t asked_by = 0;
};
// Reads the claim of a directory. With `claim`: replaces the claim `over` by this job's.
struct ClaimTask {
  std::string directory;
  std::optional<DirectoryClaim> claim = {};
  std::optional<DirectoryClaim> over = {};
  std::string job_id = {};  // of a read: this job
};
struct UnclaimTask {
  std::string directory;
  DirectoryClaim claim;
};
// Looks for the call of a rescue. With `answer`: puts this node's answer there first.
struct RescueTask {
  std::string directory;
  std::optional<RescueAnswer> answer = {};
};
using CheckpointTask =
    std::variant<ShardTask, CommitTask, LookTask, FetchTask, ClaimTask, UnclaimTask, RescueTask>;

// A write found that this job's claim is gone. It must be claimed again.
struct ClaimGone {};
// An image is on the local disk now, so its memory is free. It goes to storage from there.
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
  bool is_passed = false;  // see core::CommitEnded
};
struct LookDone {
  std::string directory;
  std::string problem;  // the store does not answer; it may not be empty
  std::optional<StoredCheckpoint> stored;
  bool is_refused = false;                         // the store refuses these credentials
  bool is_newer = false;                           // a newer version wrote the newest checkpoint
  std::vector<ckpt::PassedOver> passed_over = {};  // newer than `stored`
  bool is_for_world = false;                       // of the task
};
struct ClaimDone {
  ClaimTask task;
  std::optional<DirectoryClaim> found;  // of a read
  // Other jobs' checkpoints, after a read that found no claim of this job.
  std::vector<ForeignCheckpoint> foreign = {};
  bool is_passed = false;  // of a claim: another claim is there
  std::string problem;
  bool is_refused = false;  // of a problem: no rights or no room to write
};
struct RescueDone {
  std::optional<RescueCall> call;
  bool has_answered = false;  // the task had an answer
  std::string problem;        // storage does not answer, or refuses the answer
};
using CheckpointDone = std::variant<ShardDone, CommitDone, LookDone, FetchDone, ImageFreed,
                                    ClaimDone, ClaimGone, RescueDone>;

class CheckpointWorker {
 public:
  // Runs on the worker's thread.
  using Sink = std::function<void(CheckpointDone)>;

  // The tier must outlive the worker.
  CheckpointWorker(Sink sink, ckpt::StoreHost host, LocalTier* tier);
  // Waits for the current task and drops the others.
  ~CheckpointWorker();
  CheckpointWorker(const CheckpointWorker&) = delete;
  CheckpointWorker& operator=(const CheckpointWorker&) = delete;

  void Add(CheckpointTask task);
  // Waits until all tasks are done; false after `limit`.
  bool AwaitIdle(Duration limit);
  // Limits the current and later writes; see agent/shaping.h.
  void SetRate(uint64_t bytes_per_second) { pacer_.SetRate(bytes_per_second); }

 private:
  void Work();
  // Each gives its result to the sink.
  void Do(ShardTask& task);
  void Do(const CommitTask& task);
  void Do(const LookTask& task);
  void Do(const FetchTask& task);
  void Do(const ClaimTask& task);
  void Do(const UnclaimTask& task);
  void Do(const RescueTask& task);
  Result<void> Write(ckpt::Store* store, ShardTask* task);
  Result<void> AskForLeave(ckpt::Store* store, const std::string& job_id, uint64_t term,
                           const std::optional<std::vector<ForeignCheckpoint>>& known);
  bool IsFar(const ckpt::Store& store);

  const Sink sink_;
  OpenedStore store_;  // used by the thread
  std::string far_;    // used by the thread: root of a store that needs the tier
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

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

#include "paceline/base/instant.h"
#include "paceline/ckpt/arena.h"
#include "paceline/ckpt/storage.h"
#include "paceline/model/checkpoint.h"

namespace paceline::agent {

// The image is claimed by whoever makes the task (Arena::BeginRead), and released by the loop when
// the task is done.
struct ShardTask {
  ckpt::ShardPlace place;
  std::shared_ptr<ckpt::Arena> arena;  // owners: this task and the station
  ArenaImage image;
};
struct CommitTask {
  ckpt::CommitPlace place;
  uint32_t keep = 3;
};
// What is the newest checkpoint there?
struct LookTask {
  std::string directory;
  std::set<std::string> except;
};
using CheckpointTask = std::variant<ShardTask, CommitTask, LookTask>;

struct ShardDone {
  ShardTask task;
  std::string problem;  // empty: durable
  Duration took;
};
struct CommitDone {
  std::string name;
  std::string problem;
  uint64_t bytes = 0;
};
struct LookDone {
  std::string directory;
  std::optional<StoredCheckpoint> stored;
};
using CheckpointDone = std::variant<ShardDone, CommitDone, LookDone>;

class CheckpointWorker {
 public:
  // Runs on the worker's thread.
  using Sink = std::function<void(CheckpointDone)>;

  explicit CheckpointWorker(Sink sink);
  // Waits for the present task alone; what waits is dropped.
  ~CheckpointWorker();
  CheckpointWorker(const CheckpointWorker&) = delete;
  CheckpointWorker& operator=(const CheckpointWorker&) = delete;

  void Add(CheckpointTask task);

 private:
  void Work();

  const Sink sink_;
  std::mutex mutex_;  // guards the three below
  std::condition_variable changed_;
  std::deque<CheckpointTask> tasks_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace paceline::agent

#pragma once

// The Checkpointers of one node's simulated ranks: they open at the station, restore the decided
// step before they meet their peers, reconnect to a new agent, and wait at the end until their last
// step is in storage. The saves themselves are computed in workload.h.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/checkpoint/station_machine.h"
#include "paceline/model/checkpoint.h"
#include "paceline/sim/checkpoint/arena.h"

namespace paceline::sim {

class Node;
class SimWorld;

// The state with which a rank begins.
struct Restored {
  SavedStep saved;       // step -1: nothing
  uint64_t content = 0;  // identifies the state
  int64_t done = 0;      // steps done in that state
};

class RankSaves {
 public:
  RankSaves(SimWorld& world, Node& node) : world_(world), node_(node) {}

  // Its modules are imported.
  void Begin(int32_t pid);
  // The rank has done its last step: close() waits for storage, then the process exits.
  void Finish(int32_t pid);
  void Ended(int32_t pid) { ranks_.erase(pid); }
  // The node has a new agent: living ranks connect to it.
  void AgentStarted();
  // The rank's peer at the present agent; 0: it has no open checkpoint there.
  core::StationPeer PeerOf(int32_t pid) const;

  // --- from the station ---
  void OnRestore(const core::AnswerRestore& answer);
  void OnDurable(core::StationPeer peer);
  void OnProblem(const core::AnswerProblem& answer);

 private:
  enum class Stage { kOpening, kRestoring, kReading, kTraining, kWaiting };
  struct One {
    Stage stage = Stage::kOpening;
    core::StationPeer peer = 0;
    uint64_t attempt = 0;  // attempt to open; older ones are stale
    Instant since;         // when it began to look for an agent
    SavedStep awaited;
  };

  void OpenAfter(int32_t pid, Duration wait);
  void Open(int32_t pid, uint64_t attempt);
  void OpenAt(int32_t pid);
  void Ask(const One& one, uint32_t world_size);
  int32_t PidOf(core::StationPeer peer) const;
  void Read(int32_t pid, const core::AnswerRestore& answer);
  // False if the restore failed; the rank fails then.
  bool Load(int32_t pid, const core::AnswerRestore& answer, Restored* restored);
  bool LoadFromMemory(int32_t pid, const core::AnswerRestore& answer,
                      std::vector<SimImage>* images);
  bool LoadFromStorage(int32_t pid, const core::AnswerRestore& answer,
                       std::vector<SimImage>* images);
  void Judge(int32_t pid, const core::AnswerRestore& answer, const std::vector<SimImage>& images);
  void Train(int32_t pid, const Restored& restored);
  void Tell(const core::StationEvent& event);
  void Exit(int32_t pid);
  void Fail(int32_t pid, const std::string& why);

  SimWorld& world_;
  Node& node_;
  std::map<int32_t, One> ranks_;  // by pid
};

}  // namespace paceline::sim

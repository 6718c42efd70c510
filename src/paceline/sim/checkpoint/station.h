#pragma once

// The host of core::StationMachine in one simulated agent: claims images in its host's arenas,
// moves them to storage with a worker that runs one task at a time, looks into storage, and answers
// its node's ranks. It lives as long as its agent.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/checkpoint/station_machine.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/sim/checkpoint/arena.h"
#include "paceline/sim/checkpoint/peers.h"
#include "paceline/sim/workload.h"

namespace paceline::sim {

class AgentHost;
class Node;
class SimWorld;

class SimStation {
 public:
  SimStation(SimWorld& world, Node& node, AgentHost& agent);

  const core::StationMachine& machine() const { return machine_; }
  SimPeers& peers() { return peers_; }
  void OpenToPeers();
  // Reports the copies on this host, and failed fetches.
  void SeeCopies();
  void Feed(const core::StationEvent& event);
  // Why the rank may not save here; none if it may.
  std::optional<core::AnswerProblem> Refuses(uint64_t rank, uint64_t generation);
  // Images are being saved again, so reports continue.
  void WatchSaves();
  // The job ends: frees the memory, unless it has the only copy of the newest step.
  void CleanUp();
  void JudgeEnd();
  // On this node; null if neither the rank's own image nor a copy is there.
  SimArena* ArenaWith(Rank rank, SavedStep saved);
  // When it learned that this step is on a second host (newest steps only); Max: it has not.
  Instant ReplicatedAt(SavedStep saved) const {
    const auto heard = replicated_at_.find(saved);
    return heard == replicated_at_.end() ? Instant::Max() : heard->second;
  }
  // When it first reported its host's state for that world; Max: not yet.
  Instant SpokenAt(Generation generation) const {
    return spoken_for_ == generation ? spoken_at_ : Instant::Max();
  }

 private:
  void Do(const core::SendReport& action);
  void Do(const core::AnswerRestore& action);
  void Do(const core::AnswerDurable& action);
  void Do(const core::AnswerReplicated& action);
  void Do(const core::AnswerWithdrawn& action);
  void Do(const core::AnswerNotice&) {}  // for people
  void Do(const core::AnswerProblem& action);
  void Do(const core::SetHold& action);
  void Do(const core::ClearHolds& action);
  void Do(const core::KeepImages& action);
  void Do(const core::WriteImage& action);
  void Do(const core::WriteCommit& action);
  void Do(const core::LookInStorage& action);
  void Do(const core::FetchImages& action);
  void Do(const core::DropCopy& action);
  void Do(const core::FetchStored& action);
  void Do(const core::ShareReading& action);
  void Do(const core::EndStation& action);
  void Rearm();

  // --- the worker ---
  using Job = std::function<void()>;
  void Add(Job job);
  void RunNext();
  void EndJob();
  // Calls `stage` after that much work, when storage is not stalled.
  void After(Duration work, Job stage);
  void EndImage(const core::WriteImage& action, const std::string& problem);
  void JudgeLost(const core::WriteImage& action);
  void Assemble(const core::WriteCommit& action);
  void EndCommit(const core::WriteCommit& action, const std::string& problem,
                 bool is_passed = false);
  Duration DrawShort();

  SimWorld& world_;
  Node& node_;
  AgentHost& agent_;
  core::StationMachine machine_;
  SimPeers peers_;
  Instant armed_for_ = Instant::Max();
  // The step that a rank was told to keep, and the rank's step then.
  struct Told {
    std::optional<SavedStep> from;
    Workload::Saving saving;
  };
  std::map<uint32_t, Told> told_;                     // by rank
  std::vector<std::pair<uint32_t, SavedStep>> kept_;  // the ranks' own images
  std::map<SavedStep, Instant> replicated_at_;
  Generation spoken_for_;
  Instant spoken_at_ = Instant::Max();
  bool is_watching_ = false;
  std::deque<Job> jobs_;
  bool is_busy_ = false;
};

}  // namespace paceline::sim

#pragma once

// A node's part in checkpoints: gives its ranks their arenas, tells the master what is in memory
// and in storage, carries out the master's orders, and answers ranks that wait. It decides nothing;
// core/checkpoint_ledger.h does. docs/formats/checkpoint_socket.md has what ranks say.
//
// Everything runs on the loop's thread but the tasks of CheckpointWorker.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "paceline/agent/arena_shelf.h"
#include "paceline/agent/checkpoint_worker.h"
#include "paceline/agent/line_server.h"
#include "paceline/agent/reactor.h"
#include "paceline/base/instant.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"

namespace paceline::agent {

class CheckpointStation {
 public:
  struct Setup {
    std::string node;
    std::string job_id;
    std::string boot_id;
    std::string socket;
    std::string arena_root;
    Duration report_every;    // of what is not urgent
    bool is_private = false;  // one rank alone, which may change its mind from run to run
  };
  struct Listener {
    std::function<void(const CheckpointReport&)> report;
    std::function<void()> over;           // the job ends and nothing is on the way any more
    std::function<void()> ranks = [] {};  // one has come or gone
  };

  static absl::StatusOr<std::unique_ptr<CheckpointStation>> Open(Reactor& reactor, Setup setup,
                                                                 Listener listener);
  ~CheckpointStation();
  CheckpointStation(const CheckpointStation&) = delete;
  CheckpointStation& operator=(const CheckpointStation&) = delete;

  // The ranks of that world are here, and nobody of an older one lives.
  void SetGeneration(Generation generation);
  // A master listens from now on: tell it everything.
  void Linked();
  void TellNow();
  // Whoever opens a checkpoint waits until the next SetGeneration.
  void Pause() { is_paused_ = true; }
  bool has_ranks() const { return !ranks_.empty(); }
  // Of all that is in memory here, and of what this station was told.
  uint64_t NewestGeneration();
  void Take(const CheckpointOrder& order);

  // The job ends, and nothing of it is needed here any more.
  bool is_over() const { return order_.is_over; }
  // The job ends, and something of this node may still have to go to storage.
  bool IsAwaited() const { return order_.is_ending && !order_.is_over; }
  // The job is over: memory is given back, unless it holds the only copy of its newest step.
  void CleanUp();

 private:
  struct Peer {
    uint64_t rank = 0;
    uint64_t generation = 0;
    bool wants_restore = false;
    std::optional<SavedStep> awaited;  // in storage
  };

  CheckpointStation(Reactor& reactor, Setup setup, Listener listener);
  void OnLine(LineServer::PeerId peer, const std::string& line);
  void OnOpen(LineServer::PeerId peer, const nlohmann::json& message);
  void OnWait(LineServer::PeerId peer, const nlohmann::json& message);
  void OnDamaged(const nlohmann::json& message);
  void OnDone(CheckpointDone done);
  void On(ShardDone& done);
  void On(const CommitDone& done);
  void On(const LookDone& done);
  void Answer(LineServer::PeerId peer, const nlohmann::json& answer);
  void Refuse(LineServer::PeerId peer, const std::string& what, const std::string& why,
              const std::string& fix);
  const CheckpointTerms& Terms() const;
  void AnswerRestores();
  void AnswerWaits();
  void StartPersist(const PersistOrder& order);
  void Look();
  void SetHold();
  void ReportSoon(bool is_urgent);
  void ReportNow();
  CheckpointReport MakeReport();

  Reactor& reactor_;
  const Setup setup_;
  const Listener listener_;
  ArenaShelf shelf_;
  std::unique_ptr<LineServer> server_;
  std::map<LineServer::PeerId, Peer> ranks_;
  Generation generation_;
  std::optional<CheckpointTerms> terms_;
  CheckpointOrder order_;
  std::map<uint32_t, ShardState> shards_;  // of the newest persist order
  std::optional<PersistOrder> persisting_;
  std::optional<CommitState> commit_;
  std::optional<StoredCheckpoint> stored_;
  std::set<std::string> damaged_;
  std::set<std::pair<ArenaShelf::Place, SavedStep>> bad_images_;
  CheckpointReport told_;
  bool has_told_ = false;
  int64_t told_at_ns_ = 0;
  Reactor::TimerId report_timer_ = 0;
  bool is_report_urgent_ = false;
  bool is_looking_ = false;  // the worker looks for the newest checkpoint in storage
  bool has_looked_ = false;
  bool is_paused_ = false;
  std::vector<std::pair<LineServer::PeerId, std::string>> paused_;  // lines that wait
  std::unique_ptr<CheckpointWorker> worker_;  // last: its thread posts to the loop
};

}  // namespace paceline::agent

#pragma once

// A node's part in checkpoints: gives ranks their arenas, claims and moves images, fetches images
// from other hosts, and talks to ranks and master. It only executes:
// core/checkpoint/station_machine.h decides for this host, and core/checkpoint/ledger.h for the
// job. docs/formats/checkpoint_socket.md has the ranks' messages.
//
// Runs on the loop's thread, except for the tasks of CheckpointWorker.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/agent/memory/checkpoint_worker.h"
#include "paceline/agent/memory/chunk_server.h"
#include "paceline/agent/memory/claim_desk.h"
#include "paceline/agent/memory/local_tier.h"
#include "paceline/agent/memory/peer_memory.h"
#include "paceline/agent/memory/rescue_desk.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/socket/line_server.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/instant.h"
#include "paceline/core/checkpoint/station_machine.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::agent {

class CheckpointStation {
 public:
  struct Setup {
    std::string node;
    std::string job_id;
    std::string boot_id;
    std::string socket;
    ArenaShelf::Roots arena_roots;
    std::string tier;       // folder on the local disk; "": none
    std::string directory;  // of the checkpoints, as an earlier agent knew it; "": not known
    ckpt::StoreHost store_host;
    Duration report_every;    // for reports that are not urgent
    bool is_private = false;  // serves a single rank, whose terms may change from run to run
    // Settings for the exchange of images with other hosts. None: no exchange.
    struct Peers {
      std::string host;    // address of this host for the others
      std::string domain;  // failure domain: equal for hosts that may be lost together
      wire::Credentials credentials;
    };
    std::optional<Peers> peers = {};
  };
  struct Admission {
    std::string waits_for = {};  // why it waits, until SetGeneration or Readmit; empty: admitted
    std::optional<core::AnswerProblem> problem;  // why it is refused
  };
  struct Listener {
    std::function<void(const CheckpointReport&)> report;
    std::function<void()> over;           // the job ends, and no transfer is left
    std::function<void()> ranks = [] {};  // a rank has come or gone
    // Whether the process may open a checkpoint. None: any process may, at once.
    std::function<Admission(pid_t pid, const nlohmann::json& open)> admits = {};
    // A process asks this keeper to decide for the keepers of other hosts. Returns the answer.
    std::function<nlohmann::json(const nlohmann::json& lead)> leads = {};
    // Rank 0 tells which parallel plan the ranks carry out. Returns the answer.
    std::function<nlohmann::json(const nlohmann::json& plan)> plans = {};
    // A rescue has begun. End the ranks, and listen to no master of a lower term.
    std::function<void(uint64_t term)> rescued = {};
  };

  static absl::StatusOr<std::unique_ptr<CheckpointStation>> Open(Reactor& reactor, Setup setup,
                                                                 Listener listener);
  ~CheckpointStation();
  CheckpointStation(const CheckpointStation&) = delete;
  CheckpointStation& operator=(const CheckpointStation&) = delete;

  // The node listens to a master of that term.
  void SetTerm(uint64_t term);
  // The ranks of that world run here; no rank of an older world lives.
  void SetGeneration(Generation generation);
  // Look at storage and memory again, because others may have changed them.
  void LookAnew();
  // From now on exchange images with other hosts; replaces the settings of an earlier call.
  void OpenToPeers(Setup::Peers peers);
  // A new master is connected: report everything.
  void Linked();
  void TellNow();
  // Repeat the admission of waiting processes.
  void Readmit();
  // Closes the process's connections, which its children may hold open.
  void ProcessEnded(pid_t pid) { server_->DropProcess(pid); }
  bool has_ranks() const { return machine_.has_ranks(); }
  // True if a process waits until it is known whether another job saves to its directory.
  bool has_unclaimed() const { return !unclaimed_.empty(); }
  // No rank saves to the directory now, so another job may claim it.
  void ReleaseClaim() { claims_->Release(); }
  // The generation of the newest image in memory or on the local disk; 0 if there is none.
  uint64_t NewestImage();
  // The highest generation in the directory, as this station sees it; the first call begins the
  // look. 0: none, or the directory did not answer within 10 s. None: not known yet, and Readmit
  // follows.
  std::optional<uint64_t> StoredGeneration(const std::string& directory);
  // The next call of StoredGeneration looks again.
  void ForgetStored();
  void Take(const CheckpointOrder& order);

  // The job ends, and none of this node's images are needed.
  bool is_over() const { return machine_.order().is_over || !rescued_.empty(); }
  // The checkpoint that a rescue has brought to storage. "": none.
  const std::string& rescued() const { return rescued_; }
  // Tells whether the agent is connected to a master. An agent without one takes part in a rescue.
  void SetLinked(bool is_linked);
  // HOST:PORT at which other hosts fetch images; "": they cannot.
  std::string bulk_address() const { return peers_ == nullptr ? "" : peers_->address(); }
  // The directory of the checkpoints; "": no rank has named it yet.
  std::string Directory() const;
  // Whether an agent whose ranks have ended may exit. False: images of this node may still have to
  // go to storage, because a master may order it (`has_hope`), or for a rescue.
  bool MayEnd(bool has_hope);
  // The job is over: removes the arenas, unless they have the only copy of the newest step.
  void CleanUp();

 private:
  struct Waiting {  // for its admission
    LineServer::PeerId peer = 0;
    std::string line;
    std::string what;
  };
  struct Opener {
    int64_t rank = 0;
    int64_t generation = 0;
    ProcessId process;  // as its message says
  };
  CheckpointStation(Reactor& reactor, Setup setup, Listener listener);
  std::unique_ptr<CheckpointWorker> MakeWorker();
  void OnLine(LineServer::PeerId peer, const std::string& line);
  void OnOpen(LineServer::PeerId peer, const std::string& line, const nlohmann::json& message);
  std::optional<core::AnswerProblem> TakenBy(LineServer::PeerId peer, const Opener& opener) const;
  bool HasClaim(LineServer::PeerId peer, const std::string& line, const std::string& directory);
  void OnClaim();
  void TellAll(const std::string& text);
  void OnDamaged(const nlohmann::json& message);
  void LetGo();
  void Wait(Waiting waiting);
  void OnDone(CheckpointDone done);
  void On(ShardDone& done);
  void On(const CommitDone& done);
  void On(const ClaimGone&);
  // Tells the claim desk what a failed write says about claims.
  void TellClaims(const std::string& problem);
  // Why this job must not write to its directory; empty if it may.
  std::string WhyLost(const std::string& directory) const;
  void On(const LookDone& done);
  void EndWorldLook(uint64_t generation);
  void On(const FetchDone& done);
  void On(const ImageFreed& freed);
  void On(const ClaimDone&) {}   // the claim desk handles it
  void On(const RescueDone&) {}  // likewise
  RescueAnswer Memory();
  void WriteRescued(const RescueShard& shard, const RescueCall& call);

  void Feed(const core::StationEvent& event);
  void Rearm();
  void Report();
  void SeeCopies();
  void SetRate();
  void Do(const core::SendReport& action);
  void Do(const core::AnswerRestore& action);
  void Do(const core::AnswerDurable& action);
  void Do(const core::AnswerReplicated& action);
  void Do(const core::AnswerWithdrawn& action);
  void Do(const core::AnswerNotice& action);
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
  void Answer(LineServer::PeerId peer, const nlohmann::json& answer);
  void Refuse(const core::AnswerProblem& problem);

  Reactor& reactor_;
  const Setup setup_;
  const Listener listener_;
  core::StationMachine machine_;
  ArenaShelf shelf_;
  LocalTier tier_;
  std::vector<MemoryImage> on_disk_;  // of tier_, at the last look
  struct {
    std::string by;  // the checkpoint that the last look at storage found
    std::vector<ckpt::PassedOver> folders;
  } passed_over_;
  std::unique_ptr<LineServer> server_;
  std::vector<std::shared_ptr<const ImageClaim>> kept_;
  std::optional<SavedStep> persisting_;  // the newest step of which images are being written
  uint64_t persist_bytes_ = 0;           // of that step, on this node
  struct {
    std::string directory;  // empty: there is no look
    std::optional<uint64_t> generation;
    Reactor::TimerId timer = 0;
  } world_look_;  // see StoredGeneration
  Reactor::TimerId timer_ = 0;
  Instant armed_for_ = Instant::Max();
  std::vector<Waiting> waiting_;
  Reactor::TimerId waiting_timer_ = 0;
  std::map<LineServer::PeerId, Opener> openers_;  // processes with an open checkpoint
  std::vector<std::pair<LineServer::PeerId, std::string>> unclaimed_;  // until the claim is decided
  // Last, because their threads post to the loop. Reads have their own thread, so that a storage
  // that blocks writes does not block a restore.
  std::unique_ptr<PeerMemory> peers_;
  std::unique_ptr<ChunkServer> chunks_;  // if there are peers
  std::unique_ptr<CheckpointWorker> worker_;
  std::unique_ptr<CheckpointWorker> reader_;
  std::unique_ptr<ClaimDesk> claims_;
  std::unique_ptr<RescueDesk> rescue_;  // of an agent
  std::string rescued_;
  uint64_t term_ = 0;  // of the master
};

}  // namespace paceline::agent

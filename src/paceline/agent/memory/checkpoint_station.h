#pragma once

// A node's part in checkpoints: gives its ranks their arenas, claims and moves images, fetches what
// other hosts have, and talks with ranks and master. It decides nothing;
// core/checkpoint/station_machine.h does, for this host, and core/checkpoint/ledger.h, for the job.
// docs/formats/checkpoint_socket.md has what ranks say.
//
// Everything runs on the loop's thread but the tasks of CheckpointWorker.

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
    std::string tier;  // folder on the local disk; "": none
    ckpt::StoreHost store_host;
    Duration report_every;    // of what is not urgent
    bool is_private = false;  // one rank alone, which may change its mind from run to run
    // What it needs to exchange images with other hosts; none: it does not.
    struct Peers {
      std::string host;    // where they reach this one
      std::string domain;  // of failures: hosts that may be lost together have the same
      wire::Credentials credentials;
    };
    std::optional<Peers> peers = {};
  };
  struct Admission {
    std::string waits_for = {};  // until the next SetGeneration or Readmit; empty: it may
    std::optional<core::AnswerProblem> problem;  // it may not
  };
  struct Listener {
    std::function<void(const CheckpointReport&)> report;
    std::function<void()> over;           // the job ends and nothing is on the way any more
    std::function<void()> ranks = [] {};  // one has come or gone
    // May that process open a checkpoint? None: any may, at once.
    std::function<Admission(pid_t pid, const nlohmann::json& open)> admits = {};
    // A process asks that this keeper decides for those of other hosts: the answer.
    std::function<nlohmann::json(const nlohmann::json& lead)> leads = {};
  };

  static absl::StatusOr<std::unique_ptr<CheckpointStation>> Open(Reactor& reactor, Setup setup,
                                                                 Listener listener);
  ~CheckpointStation();
  CheckpointStation(const CheckpointStation&) = delete;
  CheckpointStation& operator=(const CheckpointStation&) = delete;

  // The ranks of that world are here, and nobody of an older one lives.
  void SetGeneration(Generation generation);
  // Somebody else may have changed storage, or memory, since they were looked at.
  void LookAnew();
  // Images are exchanged with other hosts from now on, instead of those of an earlier call.
  void OpenToPeers(Setup::Peers peers);
  // A master listens from now on: tell it everything.
  void Linked();
  void TellNow();
  // Processes that wait for their admission ask for it again.
  void Readmit();
  // Its connections are closed, although children of it may hold them open.
  void ProcessEnded(pid_t pid) { server_->DropProcess(pid); }
  bool has_ranks() const { return machine_.has_ranks(); }
  // A process waits until it is known whether another job saves to its directory.
  bool has_unclaimed() const { return !unclaimed_.empty(); }
  // Nobody saves to the directory for now: another job may.
  void ReleaseClaim() { claims_->Release(); }
  // The generation of the newest image in memory here, or on the local disk; 0: there is none.
  uint64_t NewestImage();
  void Take(const CheckpointOrder& order);

  // The job ends, and nothing of it is needed here any more.
  bool is_over() const { return machine_.order().is_over; }
  // The job ends, and something of this node may still have to go to storage.
  bool IsAwaited() const { return machine_.IsAwaited(); }
  // The job is over: memory is given back, unless it holds the only copy of its newest step.
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
    ProcessId process;  // as it says
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
  void Wait(Waiting waiting);
  void OnDone(CheckpointDone done);
  void On(ShardDone& done);
  void On(const CommitDone& done);
  void On(const ClaimGone&);
  // What a write found of claims.
  void TellClaims(const std::string& problem);
  // Why this job may write nothing to its directory; empty: it may.
  std::string WhyLost(const std::string& directory) const;
  void On(const LookDone& done);
  void On(const FetchDone& done);
  void On(const ImageFreed& freed);
  void On(const ClaimDone&) {}  // is the desk's

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
  std::vector<MemoryImage> on_disk_;  // of tier_, as it was looked at last
  struct {
    std::string by;  // the checkpoint that the last look at storage has found
    std::vector<ckpt::PassedOver> folders;
  } passed_over_;
  std::unique_ptr<LineServer> server_;
  std::vector<std::shared_ptr<const ImageClaim>> kept_;
  std::optional<SavedStep> persisting_;  // the newest step of which something is written
  uint64_t persist_bytes_ = 0;           // of that, on this node
  Reactor::TimerId timer_ = 0;
  Instant armed_for_ = Instant::Max();
  std::vector<Waiting> waiting_;
  Reactor::TimerId waiting_timer_ = 0;
  std::map<LineServer::PeerId, Opener> openers_;                       // whose checkpoints are open
  std::vector<std::pair<LineServer::PeerId, std::string>> unclaimed_;  // until that is decided
  // Last: their threads post to the loop. A storage that takes nothing must not keep a world from
  // restoring, so what reads has a thread of its own.
  std::unique_ptr<PeerMemory> peers_;
  std::unique_ptr<ChunkServer> chunks_;  // where there are peers
  std::unique_ptr<CheckpointWorker> worker_;
  std::unique_ptr<CheckpointWorker> reader_;
  std::unique_ptr<ClaimDesk> claims_;
};

}  // namespace paceline::agent

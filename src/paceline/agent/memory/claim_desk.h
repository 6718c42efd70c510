#pragma once

// Claims the directory of checkpoints for this job, renews the claim, and gives it back. What it
// does is decided by core/checkpoint/claim_machine.h; this carries it out, on a thread of its own,
// so that a long transfer never keeps a claim from being renewed.
//
// Everything but that thread's work runs on the loop's thread.

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "paceline/agent/memory/checkpoint_worker.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/core/checkpoint/claim_machine.h"

namespace paceline::agent {

// What this host sees of the process that a claim names.
core::WriterLife LifeOf(const DirectoryClaim& claim);

class ClaimDesk {
 public:
  struct Setup {
    std::string job_id;
    std::string boot_id;
    ckpt::StoreHost store_host;
  };
  struct Listener {
    std::function<void()> changed;                 // what may() or waits_for() says
    std::function<void(const std::string&)> says;  // for people
  };
  ClaimDesk(Reactor& reactor, const Setup& setup, LocalTier* tier, Listener listener);
  ~ClaimDesk();
  ClaimDesk(const ClaimDesk&) = delete;
  ClaimDesk& operator=(const ClaimDesk&) = delete;

  // A rank wants to save there. A job has one directory.
  void Want(const std::string& directory);
  core::ClaimMachine::Answer may() const { return machine_.answer(); }
  // The job that has it instead, when may() says no; for people.
  std::string Other() const;
  // The job that has taken the directory from this one; empty: none has.
  const std::string& lost_to() const { return machine_.lost_to(); }
  // Checkpoints of other jobs that the directory held when this job claimed it. Nothing: this job
  // has no claim there, so it must not remove or overwrite anything.
  std::optional<std::vector<ForeignCheckpoint>> known() const { return machine_.known(); }
  // A write to the directory found no claim there.
  void Missed();
  // A write to the directory found another job's claim there. `problem` is what the write said.
  void Taken(const std::string& problem);
  std::string waits_for() const { return machine_.WaitsFor(); }
  // Nobody saves any more. Waits for storage, a moment at most.
  void Release();

 private:
  void Feed(const core::ClaimEvent& event);
  // What the worker's thread may still hold when the desk has gone.
  struct Mailbox {
    std::mutex mutex;  // guards the other
    ClaimDesk* desk = nullptr;
  };

  void OnDone(const ClaimDone& done);
  void Do(const core::LookAtClaim& action);
  void Do(const core::WriteClaim& action);
  void Do(const core::RemoveClaim& action);
  void Do(const core::SayOfClaim& action);

  Reactor& reactor_;
  const DirectoryClaim self_;
  const Listener listener_;
  core::ClaimMachine machine_;
  std::string directory_;
  std::string told_;     // waits_for() as the listener knows it
  std::string problem_;  // of the last look or claim
  Reactor::TimerId timer_ = 0;
  const std::shared_ptr<Mailbox> mailbox_;  // owners: this and the worker
  std::unique_ptr<CheckpointWorker> worker_;
};

}  // namespace paceline::agent

#pragma once

// Claims the directory of checkpoints for this job, renews the claim and releases it.
// core/checkpoint/claim_machine.h decides. The writes run on a thread of their own, so that a long
// transfer does not delay a renewal.
//
// Everything else runs on the loop's thread.

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "paceline/agent/memory/checkpoint_worker.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/core/checkpoint/claim_machine.h"

namespace paceline::agent {

// Whether the process that a claim names lives, as seen from this host.
core::WriterLife LifeOf(const DirectoryClaim& claim);

// The claim of this process for a job, without a beat.
DirectoryClaim ClaimOfThisProcess(const std::string& job_id, const std::string& boot_id);

class ClaimDesk {
 public:
  struct Setup {
    std::string job_id;
    std::string boot_id;
    ckpt::StoreHost store_host;
  };
  struct Listener {
    std::function<void()> changed;                       // may() or waits_for() has changed
    std::function<void(const std::string&)> says;        // a sentence for people
    std::function<void(const RescueDone&)> looked = {};  // the answer to LookForRescue
  };
  ClaimDesk(Reactor& reactor, const Setup& setup, LocalTier* tier, Listener listener);
  ~ClaimDesk();
  ClaimDesk(const ClaimDesk&) = delete;
  ClaimDesk& operator=(const ClaimDesk&) = delete;

  // The master that this node listens to has that term.
  void SetTerm(uint64_t term) { Feed(core::TermKnown{term}); }
  // A rank wants to save to the directory. A job has one directory.
  void Want(const std::string& directory);
  core::ClaimMachine::Answer may() const { return machine_.answer(); }
  // If may() refuses: the job that has the claim, for people.
  std::string Other() const;
  // The job that took the directory from this one; empty: none.
  const std::string& lost_to() const { return machine_.lost_to(); }
  // Other jobs' checkpoints in the directory when this job claimed it. None: this job has no claim,
  // so it must not remove or overwrite anything.
  std::optional<std::vector<ForeignCheckpoint>> known() const { return machine_.known(); }
  // A write found no claim in the directory.
  void Missed();
  // A write found another job's claim in the directory. `problem` is the write's message.
  void Taken(const std::string& problem);
  // Looks for the call of a rescue, on the thread of the claims.
  void LookForRescue(RescueTask task) { worker_->Add(std::move(task)); }
  std::string waits_for() const { return machine_.WaitsFor(); }
  // No rank saves any more: release the claim. Waits briefly for storage.
  void Release();

 private:
  void Feed(const core::ClaimEvent& event);
  // Shared with the worker's thread, which may outlive the desk.
  struct Mailbox {
    std::mutex mutex;  // guards the other member
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
  std::string told_;     // the last value given to the listener
  std::string problem_;  // of the last read or claim
  Reactor::TimerId timer_ = 0;
  const std::shared_ptr<Mailbox> mailbox_;  // owners: this object and the worker
  std::unique_ptr<CheckpointWorker> worker_;
};

}  // namespace paceline::agent

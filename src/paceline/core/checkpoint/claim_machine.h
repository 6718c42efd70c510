#pragma once

// One writer for a directory: whether this job may save to its directory of checkpoints, as a pure
// machine. A claim in the directory names the job that may. The job's agents, or its keeper, renew
// the claim. A job with all its worlds, ranks and masters counts as one writer.
//
//   unknown ──no claim, or its process is gone──▶ ours ──becomes another job's──▶ lost
//      │ another job's                              ▲
//      ▼                                            │ unchanged for 30 s
//   watching ───────────────────────────────────────┘
//      │ changes, or its process lives on this host
//      ▼
//   theirs   until a rank asks again
//
// A process of this host can be checked. For other hosts only the claim is visible, so a new job
// watches it by its own clock. Time without an answer from storage does not count, because the
// other job could not renew its claim either.
//
// Storage that does not answer does not stop training: ranks are admitted and save to memory. A
// write is refused while the directory has another job's claim, but not if it has none. A job that
// finds another job's claim has lost the directory for good, even after that job has ended: the
// checkpoints there are then not its own, and retention would remove them. The same holds if its
// own claim is gone and another job has written checkpoints. The job trains on and saves to memory.
//
// A claim carries the term of the job's master. A process that listens to a newer master claims the
// directory at once; one that listens to an older master leaves the claim alone, and its writes are
// refused until it has met the newer one.
//
// Pure: no clock, no chance, no I/O.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/directory_claim.h"

namespace paceline::core {

// The state of the process that a claim names, as seen from this host.
enum class WriterLife { kNotSeen, kLives, kGone };

// ---- what happened ----

struct ClaimWanted {};  // a rank wants to save there
struct ClaimLooked {
  std::optional<DirectoryClaim> claim;
  // If there is no claim of this job: other jobs' checkpoints in the directory.
  std::vector<ForeignCheckpoint> foreign = {};
  WriterLife life = WriterLife::kNotSeen;
  std::string problem;  // storage could not be read; empty: it could
};
struct ClaimWritten {
  bool is_passed = false;   // another claim came first; nothing was written
  std::string problem;      // empty: it is written
  bool is_refused = false;  // of a problem: no rights or no room
};
// A write found another job's claim. `by` names that job, for people.
struct ClaimTaken {
  std::string by;
};
// The master that this process listens to has that term.
struct TermKnown {
  uint64_t term = 0;
};
struct ClaimMissed {};    // a write found that this job's claim is gone
struct ClaimReleased {};  // no rank saves any more, and no write is in progress
struct ClaimTimePassed {};

using ClaimEvent = std::variant<ClaimWanted, ClaimLooked, ClaimWritten, ClaimTaken, TermKnown,
                                ClaimMissed, ClaimReleased, ClaimTimePassed>;

// ---- what the host shall do ----

struct LookAtClaim {};  // ClaimLooked follows
// Write `claim` if the present one is still `over`; ClaimWritten follows.
struct WriteClaim {
  std::optional<DirectoryClaim> over;
  DirectoryClaim claim;
};
struct RemoveClaim {  // if it is the present one
  DirectoryClaim claim;
};
struct SayOfClaim {  // for people
  std::string text;
};

using ClaimAction = std::variant<LookAtClaim, WriteClaim, RemoveClaim, SayOfClaim>;

struct ClaimTimes {
  Duration renew_every = Duration::Seconds(5);  // also the pause after a problem
  Duration watch_for = Duration::Seconds(30);
  Duration look_every = Duration::Seconds(1);  // while watching
  // Another agent of the job renews the claim if it is not renewed for this long.
  Duration stand_in_after = Duration::Seconds(12);
  // If storage does not answer within this time, ranks are admitted.
  Duration answer_within = Duration::Seconds(2);
};

class ClaimMachine {
 public:
  // `self` without a beat.
  explicit ClaimMachine(DirectoryClaim self, ClaimTimes times = {})
      : self_(std::move(self)), times_(times) {}

  std::vector<ClaimAction> Step(Instant now, const ClaimEvent& event);
  Instant NextDeadline() const;

  // Whether a rank may open its checkpoints.
  enum class Answer { kWait, kYes, kNo };
  Answer answer() const;
  // The job that has the claim, if the answer is kNo.
  const std::optional<DirectoryClaim>& other() const { return other_; }
  // The job that took the directory from this one, for people; empty: none. This job must not write
  // there any more.
  const std::string& lost_to() const { return lost_to_; }
  // Other jobs' checkpoints when this job claimed the directory; none: it has no claim.
  std::optional<std::vector<ForeignCheckpoint>> known() const {
    return state_ == State::kOurs ? std::optional(known_) : std::nullopt;
  }
  // Why the answer takes long; empty if it does not.
  std::string WaitsFor() const;

 private:
  enum class State { kIdle, kUnknown, kWatching, kOurs, kTheirs, kLost };

  void On(const ClaimWanted& event);
  void On(const ClaimLooked& event);
  void On(const ClaimWritten& event);
  void On(const ClaimTaken& event);
  void On(const TermKnown& event);
  void On(const ClaimMissed& event);
  void On(const ClaimReleased& event);
  void On(const ClaimTimePassed&) {}
  void TellRefusal(const std::string& why);
  void Look();
  void Write(std::optional<DirectoryClaim> over);
  void Renew(const DirectoryClaim& seen, WriterLife life);
  void Watch(const DirectoryClaim& seen);
  void Yield(const DirectoryClaim& seen);
  void Lose(std::string by);

  DirectoryClaim self_;
  const ClaimTimes times_;
  Instant now_;
  std::vector<ClaimAction> actions_;
  State state_ = State::kIdle;
  bool is_asking_ = false;  // waits for the host's answer
  bool is_blind_ = false;   // storage does not answer
  // Other jobs' checkpoints when this job claimed the directory. If there are more when its claim
  // is gone, another job was there, or it is another directory.
  std::vector<ForeignCheckpoint> known_;
  std::string lost_to_;       // if kLost
  std::string told_refusal_;  // the last reason that was printed
  bool has_admitted_ = false;
  uint64_t beat_ = 0;
  Instant look_at_ = Instant::Max();
  Instant blind_at_ = Instant::Max();
  std::optional<DirectoryClaim> written_;  // this process's claim in the directory
  std::optional<DirectoryClaim> other_;    // the last seen one
  Instant unchanged_since_;                // of other_
};

// "job j1 (process 17 on h1, since …)".
std::string Say(const DirectoryClaim& claim);

}  // namespace paceline::core

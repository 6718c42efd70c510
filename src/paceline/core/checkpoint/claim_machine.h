#pragma once

// One directory, one writer: whether this job may save to its directory of checkpoints, as a pure
// machine. A claim in the directory names the job that does. The agents of a job, or its keeper,
// renew the claim; a job with all its worlds, ranks and masters is one writer.
//
//   unknown ──nobody's, or its process is gone──▶ ours ──becomes another job's──▶ lost
//      │ another job's                              ▲
//      ▼                                            │ unchanged for 30 s
//   watching ───────────────────────────────────────┘
//      │ changes, or its process lives on this host
//      ▼
//   theirs   until a rank asks again
//
// A process of this host is seen to live or not. Of another host nothing is seen but the claim, so
// a newcomer watches the claim on its own clock. Time in which storage did not answer does not
// count: the other job could not renew its claim either.
//
// Storage that does not answer keeps nobody from training: ranks are admitted, and save to memory.
// A write is refused while another job's claim stands in the directory; without any claim it is
// not. A job that finds another job's claim there has lost the directory, also after that job has
// ended: what lies there then is not of this job, and retention would remove it. The same holds
// when its own claim is gone and checkpoints of another job have come. It trains on and saves to
// memory.
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

// What the host sees of the process that a claim names.
enum class WriterLife { kNotSeen, kLives, kGone };

// ---- what happened ----

struct ClaimWanted {};  // a rank wants to save there
struct ClaimLooked {
  std::optional<DirectoryClaim> claim;
  // Without a claim of this job: what others have in the directory.
  std::vector<ForeignCheckpoint> foreign = {};
  WriterLife life = WriterLife::kNotSeen;
  std::string problem;  // storage could not be read; empty: it was
};
struct ClaimWritten {
  bool is_passed = false;   // another one was there meanwhile: nothing was written
  std::string problem;      // empty: it stands there
  bool is_refused = false;  // of a problem: storage takes no writes, for lack of rights or room
};
// A write found another job's claim there: `by` says whose, for people.
struct ClaimTaken {
  std::string by;
};
struct ClaimMissed {};    // a write found no claim of this job there, which had one
struct ClaimReleased {};  // no rank saves any more, and nothing is on its way
struct ClaimTimePassed {};

using ClaimEvent = std::variant<ClaimWanted, ClaimLooked, ClaimWritten, ClaimTaken, ClaimMissed,
                                ClaimReleased, ClaimTimePassed>;

// ---- what the host shall do ----

struct LookAtClaim {};  // ClaimLooked follows
// Write `claim` if what stands there is still `over`; ClaimWritten follows.
struct WriteClaim {
  std::optional<DirectoryClaim> over;
  DirectoryClaim claim;
};
struct RemoveClaim {  // if what stands there is that
  DirectoryClaim claim;
};
struct SayOfClaim {  // for people
  std::string text;
};

using ClaimAction = std::variant<LookAtClaim, WriteClaim, RemoveClaim, SayOfClaim>;

struct ClaimTimes {
  Duration renew_every = Duration::Seconds(5);  // also: looked at again after a problem
  Duration watch_for = Duration::Seconds(30);
  Duration look_every = Duration::Seconds(1);  // of what is watched
  // Another agent of the job takes the claim over when it was not renewed for so long.
  Duration stand_in_after = Duration::Seconds(12);
  // Storage that has said nothing for so long does not hold up a rank.
  Duration answer_within = Duration::Seconds(2);
};

class ClaimMachine {
 public:
  // `self` without a beat.
  explicit ClaimMachine(DirectoryClaim self, ClaimTimes times = {})
      : self_(std::move(self)), times_(times) {}

  std::vector<ClaimAction> Step(Instant now, const ClaimEvent& event);
  Instant NextDeadline() const;

  // May a rank open its checkpoints?
  enum class Answer { kWait, kYes, kNo };
  Answer answer() const;
  // The job that has the claim instead; of kNo.
  const std::optional<DirectoryClaim>& other() const { return other_; }
  // The job that has taken the directory from this one, for people; empty: none has. This job may
  // write nothing there any more.
  const std::string& lost_to() const { return lost_to_; }
  // What others had in the directory when this job claimed it; none: it has no claim there.
  std::optional<std::vector<ForeignCheckpoint>> known() const {
    return state_ == State::kOurs ? std::optional(known_) : std::nullopt;
  }
  // Why it takes long; empty: it does not.
  std::string WaitsFor() const;

 private:
  enum class State { kIdle, kUnknown, kWatching, kOurs, kTheirs, kLost };

  void On(const ClaimWanted& event);
  void On(const ClaimLooked& event);
  void On(const ClaimWritten& event);
  void On(const ClaimTaken& event);
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

  const DirectoryClaim self_;
  const ClaimTimes times_;
  Instant now_;
  std::vector<ClaimAction> actions_;
  State state_ = State::kIdle;
  bool is_asking_ = false;  // an answer of the host is awaited
  bool is_blind_ = false;   // storage does not answer
  // What others had in the directory when this job claimed it. If there is more when its claim is
  // gone, another job has been there meanwhile, or the directory is another one.
  std::vector<ForeignCheckpoint> known_;
  std::string lost_to_;       // of kLost
  std::string told_refusal_;  // the last reason that people heard
  bool has_admitted_ = false;
  uint64_t beat_ = 0;
  Instant look_at_ = Instant::Max();
  Instant blind_at_ = Instant::Max();
  std::optional<DirectoryClaim> written_;  // as it stands there, if this process wrote it
  std::optional<DirectoryClaim> other_;    // as it was seen last
  Instant unchanged_since_;                // of other_
};

// "job j1 (process 17 on h1, since …)".
std::string Say(const DirectoryClaim& claim);

}  // namespace paceline::core

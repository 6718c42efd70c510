#include "paceline/core/checkpoint/claim_machine.h"

#include <algorithm>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/checkpoint/storage_wait.h"

namespace paceline::core {

std::string Say(const DirectoryClaim& claim) {
  return Concat("job ", claim.job_id, " (process ", claim.pid, " on ", claim.host, ", since ",
                claim.since, ")");
}

std::vector<ClaimAction> ClaimMachine::Step(Instant now, const ClaimEvent& event) {
  now_ = now;
  std::visit([this](const auto& one) { On(one); }, event);
  if (blind_at_ <= now_) {
    blind_at_ = Instant::Max();
    is_blind_ = true;
  }
  if (look_at_ <= now_) Look();
  if (answer() == Answer::kYes && state_ != State::kIdle) has_admitted_ = true;
  return std::exchange(actions_, {});
}

Instant ClaimMachine::NextDeadline() const { return std::min(look_at_, blind_at_); }

ClaimMachine::Answer ClaimMachine::answer() const {
  switch (state_) {
    case State::kOurs:
    case State::kLost: return Answer::kYes;
    case State::kTheirs: return Answer::kNo;
    case State::kIdle:
    case State::kUnknown:
    case State::kWatching: return is_blind_ ? Answer::kYes : Answer::kWait;
  }
  return Answer::kWait;
}

std::string ClaimMachine::WaitsFor() const {
  if (state_ != State::kWatching || is_blind_) return "";
  return Concat("waits up to ", times_.watch_for.seconds(), " s to see whether ", Say(*other_),
                " still saves to that directory");
}

void ClaimMachine::On(const ClaimWanted&) {
  if (state_ == State::kOurs || state_ == State::kLost || state_ == State::kWatching) return;
  if (state_ != State::kUnknown && !is_blind_) blind_at_ = now_ + times_.answer_within;
  state_ = State::kUnknown;
  Look();
}

void ClaimMachine::On(const ClaimLooked& event) {
  is_asking_ = false;
  if (state_ == State::kIdle || state_ == State::kLost) return;
  look_at_ = now_ + times_.look_every;
  blind_at_ = Instant::Max();
  const bool was_blind = std::exchange(is_blind_, !event.problem.empty());
  if (is_blind_) look_at_ = now_ + times_.renew_every;
  if (is_blind_) return;
  if (was_blind) unchanged_since_ = now_;
  if (!event.claim.has_value()) {
    const bool is_gone = state_ == State::kOurs && other_.has_value();
    other_.reset();
    if (state_ == State::kOurs) {
      for (const ForeignCheckpoint& one : event.foreign) {
        const bool is_new = std::find(known_.begin(), known_.end(), one) == known_.end();
        if (is_new) return Lose("job " + one.job_id);
      }
    } else {
      known_ = event.foreign;
    }
    if (is_gone) {
      MARK("a claim is gone");
      actions_.push_back(
          SayOfClaim{"this job's claim is gone, for example because the directory was deleted; "
                     "training goes on from memory"});
    }
    return Write(std::nullopt);
  }
  const DirectoryClaim& seen = *event.claim;
  if (state_ != State::kOurs) known_ = event.foreign;
  if (seen.job_id == self_.job_id) return Renew(seen, event.life);
  if (event.life == WriterLife::kGone) {
    actions_.push_back(SayOfClaim{Concat("takes over from ", Say(seen), ", which has ended")});
    return Write(seen);
  }
  // Another job has replaced this job's claim.
  if (state_ == State::kOurs || event.life == WriterLife::kLives) return Yield(seen);
  Watch(seen);
}

// The claim is of this job: of this process, an earlier one, or another agent.
void ClaimMachine::Renew(const DirectoryClaim& seen, WriterLife life) {
  if (other_ != seen) unchanged_since_ = now_;
  other_ = seen;
  state_ = State::kOurs;
  look_at_ = now_ + times_.renew_every;
  if (seen.term > self_.term) {
    MARK("a claim for a newer master is left alone");
    return;
  }
  const bool is_mine = seen.IsBySameProcess(self_) || seen.term < self_.term;
  const bool is_silent =
      life == WriterLife::kGone || now_ >= unchanged_since_ + times_.stand_in_after;
  if (is_mine || is_silent) Write(seen);
}

void ClaimMachine::Watch(const DirectoryClaim& seen) {
  if (state_ != State::kWatching) {
    state_ = State::kWatching;
    other_ = seen;
    unchanged_since_ = now_;
  } else if (other_ != seen) {
    Yield(seen);
  } else if (now_ >= unchanged_since_ + times_.watch_for) {
    MARK("a claim is taken over");
    actions_.push_back(SayOfClaim{Concat("takes over from ", Say(seen), ", which was silent for ",
                                         times_.watch_for.seconds(), " s")});
    Write(seen);
  }
}

// The directory belongs to another job. Running ranks train on.
void ClaimMachine::Yield(const DirectoryClaim& seen) {
  MARK("another job saves there");
  const bool trains = state_ == State::kOurs || has_admitted_;
  other_ = seen;
  if (trains) return Lose(Say(seen));
  state_ = State::kTheirs;
  written_.reset();
  look_at_ = Instant::Max();
}

void ClaimMachine::Lose(std::string by) {
  state_ = State::kLost;
  written_.reset();
  look_at_ = Instant::Max();
  blind_at_ = Instant::Max();
  lost_to_ = std::move(by);
  actions_.push_back(SayOfClaim{
      Concat(lost_to_, " saves there now; this job keeps training and saves to memory only")});
}

void ClaimMachine::On(const ClaimTaken& event) {
  if (state_ == State::kIdle || state_ == State::kLost) return;
  MARK("a write found another job's claim");
  Lose(event.by);
}

void ClaimMachine::On(const ClaimWritten& event) {
  is_asking_ = false;
  if (state_ == State::kIdle || state_ == State::kLost) return;
  look_at_ = now_ + times_.renew_every;
  is_blind_ = !event.problem.empty();
  blind_at_ = Instant::Max();
  TellRefusal(event.is_refused ? event.problem : "");
  if (is_blind_) return;
  if (event.is_passed) return Look();
  state_ = State::kOurs;
  other_ = written_;
  unchanged_since_ = now_;
}

// The claim is a job's first write, minutes before its first checkpoint. So a refused claim is the
// earliest sign that storage takes no writes. It is printed once for each reason. `why` is empty if
// the claim was written.
void ClaimMachine::TellRefusal(const std::string& why) {
  // A temporary file's name has a random number.
  if (IsSameReason(std::exchange(told_refusal_, why), why) || why.empty()) return;
  MARK("storage refuses a claim");
  actions_.push_back(SayOfClaim{Concat("storage refuses writes: ", why, "; steps stay in memory; ",
                                       MendingOf("", why), "; paceline tries again by itself")});
}

void ClaimMachine::On(const TermKnown& event) {
  if (event.term <= self_.term) return;
  self_.term = event.term;
  if (state_ == State::kOurs) Look();
}

void ClaimMachine::On(const ClaimMissed&) {
  if (state_ == State::kOurs) Look();
}

void ClaimMachine::On(const ClaimReleased&) {
  // Writes in progress are finished before this.
  if (written_.has_value()) actions_.push_back(RemoveClaim{*written_});
  written_.reset();
  if (state_ == State::kLost) return;
  other_.reset();
  state_ = State::kIdle;
  look_at_ = Instant::Max();
  blind_at_ = Instant::Max();
  is_blind_ = false;
  told_refusal_.clear();
  has_admitted_ = false;
}

void ClaimMachine::Look() {
  look_at_ = Instant::Max();
  if (is_asking_) return;
  is_asking_ = true;
  actions_.push_back(LookAtClaim{});
}

void ClaimMachine::Write(std::optional<DirectoryClaim> over) {
  written_ = self_;
  written_->beat = ++beat_;
  look_at_ = Instant::Max();
  is_asking_ = true;
  actions_.push_back(WriteClaim{std::move(over), *written_});
}

}  // namespace paceline::core

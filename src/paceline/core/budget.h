#pragma once

// The restart budget: when does trying again stop making sense?
//
// A count of restarts alone is the wrong measure: a job that trains for a month outlives hundreds
// of failures, and a script with a bug never gets past its second. So failures are counted since
// the last progress, and progress is a new highest step:
//   - absolute steps told by pl.step(n): higher than ever before;
//     (the optimizer's own step, which its checkpoint holds, counts as such a step)
//   - steps counted by the optimizer hook, which start at 0 in every attempt: more than in any
//     failed attempt since the last progress;
//   - no steps at all: kQuietProgress of undisturbed running.
// A script that saves and resumes by itself tells nothing. What shows that its attempts come
// further is a checkpoint that a rank finished, and training for much longer than a restart takes.
// Both are weaker: they forgive failures of different kinds, but not the same failure at the same
// step of the attempt. So does a Checkpointer's script that counts its steps from 0 in each epoch,
// when every rank has saved one of a further pass.
// The same failure (equal fingerprint at an equal step) three times, or five failures of any kind,
// without progress: stop. A given --max-restarts replaces all this by a hard cap on charged
// failures, as torchrun's. What is nobody's fault (a taken port, a lost node) is never charged.

#include <string>

#include "paceline/base/instant.h"
#include "paceline/core/job_state.h"
#include "paceline/core/record.h"
#include "paceline/model/node.h"

namespace paceline::core {

// Unlike failures get this many tries more than alike ones.
inline constexpr uint32_t kUnlikeFailuresExtra = 2;
// Worlds in a row that find their store's port taken.
inline constexpr uint32_t kPortTakenMax = 5;
inline constexpr size_t kFailureNodesMax = 4;
inline constexpr Duration kQuietProgress = Duration::Seconds(600);
// Training for so many times as long as a restart takes, and at least so long, is progress.
inline constexpr int kLongAttemptRestarts = 10;
inline constexpr Duration kLongAttemptMin = Duration::Seconds(60);

// Its text says that a peer went away: another rank probably failed first.
bool LooksLikeCascade(const ExitCause& cause);

// Equal for equal failures. Empty when equality says nothing, because the rank did not end by
// itself: SIGKILL and SIGTERM come from outside, except from the kernel when memory ran out.
std::string FailureFingerprint(const ExitCause& cause);

// "ValueError: bad batch (train.py:31)", "was killed by SIGKILL", "exited with code 3", …
std::string FailureText(const ExitCause& cause);

// The text goes on after "rank 3": "was killed by SIGKILL". Otherwise it is a message.
bool TellsOfRank(const std::string& text);

// "at step 120", "after 50 optimizer steps", "before its first step".
std::string StepText(int64_t step, int64_t step_count);

// Parts of Apply.
void Charge(JobState& state, Instant at, const RankFailed& fact);
void LiftCharge(JobState& state);
void AddWitness(JobState& state, const RankFailed& fact);
void Refill(JobState& state, const ProgressMade& fact);

struct BudgetVerdict {
  bool exhausted = false;
  std::string reason;  // a sentence, when exhausted
};
BudgetVerdict JudgeBudget(const JobState& state);

// The next world starts no earlier than this after the start of the one that failed: it spaces
// starts, so an attempt that lived longer than its pause is followed at once, and only a script
// that dies as soon as it starts is slowed down. 0 under a hard cap, whose user counts restarts and
// asked for nothing else.
Duration RestartDelay(const JobState& state);

}  // namespace paceline::core

#pragma once

// The restart budget: when to stop trying again.
//
// A count of restarts alone is the wrong measure: a job that trains for a month survives hundreds
// of failures, and a script with a bug never gets past its second. So failures are counted since
// the last progress. Progress is a new highest step:
//   - absolute steps, reported by pl.step(n) or read from the optimizer's own step, which its
//     checkpoint holds: higher than ever before;
//   - steps counted by the optimizer hook, which start at 0 in every attempt: more than in any
//     failed attempt since the last progress. Ranks may be at different ones, so that forgives
//     different failures alone;
//   - no steps at all: kQuietProgress without a failure;
//   - leased samples: more are acknowledged than at the last failure. No attempt repeats them. A
//     failure that narrows the search for a sample on which workers die counts, too. The search
//     ends, because it counts only if some sample was acknowledged since the last one was found.
//
// Weaker evidence also counts as progress, because a script that saves and resumes by itself
// reports no steps, and some scripts count their steps from 0 in each epoch:
//   - a rank has finished a checkpoint;
//   - training has lasted much longer than a restart takes;
//   - every rank has saved a step of a later pass over the data.
// Weaker evidence forgives different failures, but not the same failure at the same step of the
// attempt.
//
// Without progress, the job stops after the same failure (equal fingerprint at an equal step)
// three times, or after five failures of any kind. If a connection breaks because a rank had
// returned early, it is the same failure wherever it breaks. If the user gives --max-restarts, a
// hard cap on charged failures replaces all this, as in torchrun. A taken port or a lost node is
// never charged.
//
// The job stops sooner for failures that no restart mends:
//   - at the first one that its error record calls final;
//   - at the second one if the script's own code raised the same exception before the first step of
//     two worlds in a row, or exited there with the same code and last line. One bad host may be
//     the cause: if only some nodes had the failure, and others can take their seats, they are
//     tried first. Codes that ask a scheduler for another try, or tell of a signal, do not count.

#include <string>
#include <string_view>

#include "paceline/base/instant.h"
#include "paceline/core/job_state.h"
#include "paceline/core/record.h"
#include "paceline/model/node.h"

namespace paceline::core {

// Different failures get this many more tries than equal ones.
inline constexpr uint32_t kUnlikeFailuresExtra = 2;
// Worlds in a row that may find their store's port taken.
inline constexpr uint32_t kPortTakenMax = 5;
// Worlds in a row in which the script's own code may raise one exception, or exit with one code,
// before the first step.
inline constexpr uint32_t kRepeatedMax = 2;
inline constexpr size_t kFailureNodesMax = 4;
inline constexpr Duration kQuietProgress = Duration::Seconds(600);
// Training this many times as long as a restart takes, and at least this long, is progress.
inline constexpr int kLongAttemptRestarts = 10;
inline constexpr Duration kLongAttemptMin = Duration::Seconds(60);

// True if its class or, without one, its text says that a peer went away, so another rank probably
// failed first.
bool LooksLikeCascade(const ExitCause& cause);

// Equal for equal failures. Empty if the rank did not end by itself: SIGKILL and SIGTERM come from
// outside, except from the kernel when memory runs out.
std::string FailureFingerprint(const ExitCause& cause);

// What FailureText begins with for a rank that was not started.
inline constexpr std::string_view kNotStartedText = "could not be started";
// These words stand in the verdict on a script that fails on one of several nodes, before the
// node's name.
inline constexpr std::string_view kEachTimeOnText = ", each time on ";
// What the headline of a rank that exited without an exception begins with, before the code.
inline constexpr std::string_view kExitedText = "exited with code ";
// Stands in such a headline between the code and the rank's last line on stderr.
inline constexpr std::string_view kLastLineText = "; its last line on stderr was: ";
// The end of a headline about a rank whose script returned while the other ranks still trained.
inline constexpr std::string_view kEndedEarlyText = "had ended with exit code 0 before";

// True if the headline tells that such a rank is the cause of the failure.
bool NamesEarlyEnd(std::string_view headline);

// "ValueError: bad batch (train.py:31)", "was killed by SIGKILL", "exited with code 3", …
std::string FailureText(const ExitCause& cause);

// True if "rank 3 " + text is a sentence, as with "was killed by SIGKILL". Otherwise the text is a
// message of its own.
bool TellsOfRank(const std::string& text);

// "exited with code 2 before its first step; its last line …", "was killed by SIGKILL, at step 19".
std::string WithStep(const std::string& failure, const std::string& step);

// "at step 120", "after 50 optimizer steps", "before its first step".
std::string StepText(int64_t step, int64_t step_count);

// Counts a charged failure in a budget, of the job or of one task. `stale`: the last failure is too
// long ago to count with this one.
void CountFailure(BudgetState& budget, Instant at, const RankFailed& fact, bool stale);

// So many equal failures in a row end a job.
uint32_t AlikeMax(const JobSpec& spec);

// The least time between the starts of two attempts, after so many failures without progress.
Duration RestartDelay(const JobSpec& spec, uint32_t failures);

// Parts of Apply.
void Charge(JobState& state, Instant at, const RankFailed& fact);
void LiftCharge(JobState& state);
void AddWitness(JobState& state, const RankFailed& fact);
void Refill(JobState& state, const ProgressMade& fact);
// Clears the failures, because the node that failed is out of the job or failed long ago.
void ForgetFailures(JobState& state);

struct BudgetVerdict {
  bool exhausted = false;
  std::string reason;  // a sentence, if exhausted
};

// True if the same failure came as often in a row, without progress, as a job may have it.
bool HasFailedAlike(const JobState& state);

BudgetVerdict JudgeBudget(const JobState& state);

// Exhausted if the failure of this world is an exception or an exit code of the script's own code
// that ended the world before, too, each time before the first step. `can_go_without_blamed`:
// enough other nodes are here, so one bad host is replaced first, unless every node had the
// failure.
BudgetVerdict JudgeRepeated(const JobState& state, bool can_go_without_blamed);

// The least time between the start of the failed world and that of the next one. If the failed
// world ran for longer, the next one starts at once. So only a script that fails at its start is
// slowed down. 0 with --max-restarts.
Duration RestartDelay(const JobState& state);

// Work on leased data since the last failure, as a sentence's part; empty: none. It is progress,
// whatever steps are known.
std::string LeasedWorkSinceFailure(const Watch& watch);

}  // namespace paceline::core

#include "paceline/core/budget.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "paceline/base/bytes_text.h"
#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/signal_number.h"

namespace paceline::core {

namespace {

// What gloo, NCCL and Python print when the other end of a connection is gone. Only for failures
// without a class, as in journals of agents that knew none.
constexpr std::array<std::string_view, 8> kCascadeTexts = {
    "connection reset",   "connection closed by peer", "broken pipe",
    "connection refused", "remote process exited",     "socket closed",
    "peer closed",        "connection was reset"};

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string SignalText(int signal) {
  switch (signal) {
    case 2: return "SIGINT";
    case 4: return "SIGILL";
    case 6: return "SIGABRT";
    case 7: return "SIGBUS";
    case 8: return "SIGFPE";
    case kSigkill: return "SIGKILL";
    case 11: return "SIGSEGV";
    case kSigterm: return "SIGTERM";
    default: return "signal " + std::to_string(signal);
  }
}

bool IsFromOutside(const ExitCause& cause) {
  if (cause.kind == ExitCause::Kind::kUnknown) return true;
  return cause.kind == ExitCause::Kind::kSignaled && !cause.cgroup_oom &&
         (cause.code == kSigkill || cause.code == kSigterm);
}

// Exit codes after which another try may help. 75, 85 and 99 ask a scheduler for one (EX_TEMPFAIL,
// HTCondor, Grid Engine). 120: Python could not write its output. From 124 on, `timeout`, shells
// and containers tell of a time limit, of a program that could not be started, or of a signal.
bool AsksForAnotherTry(int code) {
  constexpr std::array<int, 4> kCodes = {75, 85, 99, 120};
  constexpr int kFromShells = 124;
  return code >= kFromShells || std::find(kCodes.begin(), kCodes.end(), code) != kCodes.end();
}

// True if the script ended itself by an exit code, without an exception.
bool IsOwnExit(const ExitCause& cause) {
  return cause.kind == ExitCause::Kind::kExited && cause.headline.starts_with(kExitedText) &&
         !AsksForAnotherTry(cause.code) && !LooksLikeCascade(cause);
}

// The place where a survivor's connection broke is chance if a rank had ended before.
bool HasSameCause(const BudgetState& budget, const ExitCause& cause) {
  if (NamesEarlyEnd(cause.headline) && NamesEarlyEnd(budget.last_headline)) return true;
  const std::string fingerprint = FailureFingerprint(cause);
  return !fingerprint.empty() && fingerprint == budget.last_fingerprint;
}

bool SameFailure(const BudgetState& budget, const RankFailed& fact) {
  if (!HasSameCause(budget, fact.cause)) return false;
  // A failure before the first step: this attempt came no further than the one before.
  if (fact.step < 0 && fact.step_count == 0) return true;
  if (fact.step != budget.last_failure_step) return false;
  return fact.step >= 0 || fact.step_count == budget.last_failure_step_count;
}

void AddNode(BudgetState& budget, NodeId node) {
  auto& nodes = budget.same_failure_nodes;
  if (nodes.size() >= kFailureNodesMax) return;
  if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
}

uint32_t& FailuresOf(JobState& state, NodeId node) {
  return state.nodes[node].failures_without_progress;
}

// Ends a streak of failures: they do not count with the next one.
void ForgetStreak(JobState& state) {
  state.budget.failures_without_progress = 0;
  for (auto& [id, node] : state.nodes) {
    node.failures_without_progress = 0;
    node.fresh_image_tried = false;
  }
}

// "a rank on n1 was killed by SIGKILL", "ValueError: … on n1"
std::string LastFailureText(const JobState& state) {
  const std::string& what = state.budget.last_headline;
  const std::string node = state.NameOf(state.budget.last_failure_node);
  return TellsOfRank(what) ? "a rank on " + node + " " + what : what + " on " + node;
}

std::string TimesText(const BudgetState& budget) {
  return " (" + std::to_string(budget.same_failure_count) + " times without progress)";
}

// "your script fails at step 3: KeyError: 'x' (train.py:1) (3 times without progress)", "your
// script exits with code 2 before its first step (2 times without progress); its last line …".
std::string ScriptFails(const BudgetState& budget, const std::string& where) {
  const std::string& what = budget.last_headline;
  if (!what.starts_with(kExitedText)) {
    return "your script fails " + where + ": " + what + TimesText(budget);
  }
  const size_t line = std::min(what.find(kLastLineText), what.size());
  return "your script exits with code " +
         what.substr(kExitedText.size(), line - kExitedText.size()) + " " + where +
         TimesText(budget) + what.substr(line);
}

BudgetVerdict SameFailureVerdict(const JobState& state) {
  const BudgetState& budget = state.budget;
  const std::string where = StepText(budget.last_failure_step, budget.last_failure_step_count);
  const std::string times = TimesText(budget);
  const bool one_of_many =
      budget.same_failure_nodes.size() == 1 && state.last_world.seats.size() > 1;
  if (budget.last_not_started) {
    // No line of the script ran, so the script is not to blame and there is no step to name.
    MARK("same failure to start");
    const std::string node = state.NameOf(budget.last_failure_node);
    return {true, "the worker processes " +
                      (one_of_many                         ? "of " + node + " "
                       : state.last_world.seats.size() > 1 ? std::string("of every node ")
                                                           : std::string()) +
                      budget.last_headline + times + "; see logs/" + node + "/starter.log"};
  }
  if (one_of_many) {
    MARK("same failure on one node");
    return {true, ScriptFails(budget, where + std::string(kEachTimeOnText) +
                                          state.NameOf(budget.same_failure_nodes.front()))};
  }
  MARK("same failure everywhere");
  const std::string nodes = state.last_world.seats.size() > 1 ? " on every node" : "";
  return {true, ScriptFails(budget, where + nodes)};
}

}  // namespace

bool LooksLikeCascade(const ExitCause& cause) {
  if (cause.role != ExitCause::Role::kNone) return cause.role == ExitCause::Role::kCascade;
  const std::string text = Lower(cause.headline);
  return std::any_of(kCascadeTexts.begin(), kCascadeTexts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string::npos; });
}

bool NamesEarlyEnd(std::string_view headline) { return headline.ends_with(kEndedEarlyText); }

std::string FailureFingerprint(const ExitCause& cause) {
  // Agents report a text for these, too, but equal kills from outside are not equal failures.
  if (IsFromOutside(cause)) return "";
  if (!cause.fingerprint.empty()) return cause.fingerprint;
  if (cause.cgroup_oom) return "out of memory";
  switch (cause.kind) {
    case ExitCause::Kind::kExited: return "exit " + std::to_string(cause.code);
    case ExitCause::Kind::kSignaled: return "signal " + std::to_string(cause.code);
    case ExitCause::Kind::kUnknown: return "";
    case ExitCause::Kind::kNotStarted: return "not started: " + cause.headline;
    case ExitCause::Kind::kHung: return "";  // stopped from outside
  }
  return "";
}

std::string FailureText(const ExitCause& cause) {
  if (cause.port_taken) return "the store's port was taken";
  if (cause.cgroup_oom && cause.memory_limit > 0) {
    return "was killed at its node's memory limit of " + BinaryText(cause.memory_limit) +
           (cause.is_final ? ", which is [memory] most" : "");
  }
  if (cause.cgroup_oom) return "was killed because its cgroup ran out of memory";
  switch (cause.kind) {
    case ExitCause::Kind::kExited:
      if (!cause.headline.empty()) return cause.headline;
      return std::string(kExitedText) + std::to_string(cause.code);
    case ExitCause::Kind::kSignaled:
      if (!cause.headline.empty()) return cause.headline;
      return "was killed by " + SignalText(cause.code);
    case ExitCause::Kind::kUnknown:
      return cause.headline.empty() ? "ended for an unknown cause" : cause.headline;
    case ExitCause::Kind::kNotStarted:
      return std::string(kNotStartedText) + (cause.headline.empty() ? "" : ": " + cause.headline);
    case ExitCause::Kind::kHung: return cause.headline.empty() ? "was hung" : cause.headline;
  }
  return "ended";
}

bool TellsOfRank(const std::string& text) {
  constexpr std::array<std::string_view, 8> kVerbs = {"was ",  "exited ", "ended ",  "could ",
                                                      "made ", "called ", "raised ", "and rank"};
  return std::any_of(kVerbs.begin(), kVerbs.end(),
                     [&](std::string_view verb) { return text.rfind(verb, 0) == 0; });
}

std::string WithStep(const std::string& failure, const std::string& step) {
  const size_t line = failure.find(kLastLineText);
  if (line == std::string::npos) return failure + ", " + step;
  return failure.substr(0, line) + " " + step + failure.substr(line);
}

std::string StepText(int64_t step, int64_t step_count) {
  if (step >= 0) return "at step " + std::to_string(step);
  if (step_count > 0) return "after " + std::to_string(step_count) + " optimizer steps";
  return "before its first step";
}

uint32_t AlikeMax(const JobSpec& spec) { return std::max(1U, spec.budgets.no_progress_failures); }

void CountFailure(BudgetState& budget, Instant at, const RankFailed& fact, bool stale) {
  ++budget.charged_failures;
  ++budget.failures_without_progress;
  if (SameFailure(budget, fact) && !stale) {
    ++budget.same_failure_count;
  } else {
    budget.same_failure_count = FailureFingerprint(fact.cause).empty() ? 0 : 1;
    budget.same_failure_nodes.clear();
  }
  AddNode(budget, fact.node);
  budget.last_fingerprint = FailureFingerprint(fact.cause);
  budget.last_headline = FailureText(fact.cause);
  budget.last_is_final = fact.cause.is_final;
  budget.last_is_repeatable = fact.cause.is_repeatable || IsOwnExit(fact.cause);
  budget.last_not_started = fact.cause.kind == ExitCause::Kind::kNotStarted;
  budget.last_before_step = fact.step < 0 && fact.step_count == 0;
  const bool no_further = budget.same_failure_count > 1 && fact.step < 0 && fact.step_count == 0;
  if (!no_further) {
    budget.last_failure_step = fact.step;
    budget.last_failure_step_count = fact.step_count;
  }
  budget.last_failure_node = fact.node;
  budget.last_failure_at = at;
  budget.step_count_max = std::max(budget.step_count_max, fact.step_count);
}

void Charge(JobState& state, Instant at, const RankFailed& fact) {
  state.budget_before = state.budget;
  const bool stale = at - state.budget.last_failure_at > state.spec.timers.restart_window;
  if (stale) ForgetFailures(state);
  CountFailure(state.budget, at, fact, stale);
  state.step_max = std::max(state.step_max, fact.step);
  ++FailuresOf(state, fact.node);
}

void LiftCharge(JobState& state) {
  Incident& incident = state.incident.pending ? state.incident : state.last_incident;
  if (incident.failure.value() == 0) return;
  MARK("charge lifted");
  uint32_t& failures = FailuresOf(state, state.budget.last_failure_node);
  if (failures > 0) --failures;
  state.budget = state.budget_before;
  incident.failure = RecordSeq();
  incident.has_blamed = false;
}

void AddWitness(JobState& state, const RankFailed& fact) {
  const std::string fingerprint = FailureFingerprint(fact.cause);
  if (fingerprint.empty() || fingerprint != state.budget.last_fingerprint) return;
  AddNode(state.budget, fact.node);
}

void Refill(JobState& state, const ProgressMade& fact) {
  BudgetState& budget = state.budget;
  ForgetStreak(state);
  // A script that fails in the same way at the same step has not progressed, even if it wrote a
  // file.
  if (!fact.evidence.empty() && !fact.is_lasting) return;
  // Counted steps begin at 0 in each attempt, and the rank that fails may be behind the others.
  const bool is_counted = fact.step < 0 && fact.step_count > 0 && !fact.is_lasting;
  budget.step_count_max = is_counted ? fact.step_count : 0;
  // A failure that returns at its old step was not overcome by the steps before it, nor by those
  // of other ranks.
  const bool is_behind = fact.step >= 0 && fact.step <= budget.last_failure_step + 1;
  if (is_counted || (is_behind && !fact.is_lasting)) return;
  budget.same_failure_count = 0;
  budget.same_failure_nodes.clear();
}

void ForgetFailures(JobState& state) {
  ForgetStreak(state);
  state.budget.same_failure_count = 0;
}

bool HasFailedAlike(const JobState& state) {
  return state.budget.same_failure_count >= AlikeMax(state.spec);
}

BudgetVerdict JudgeBudget(const JobState& state) {
  const BudgetState& budget = state.budget;
  if (state.port_taken_count >= kPortTakenMax) {
    return {true, "the port of the training store was taken " + std::to_string(kPortTakenMax) +
                      " times in a row: something on the host of rank 0 takes every free port"};
  }
  if (budget.last_is_final) {
    return {true, "no restart can mend this: " + LastFailureText(state)};
  }
  if (state.spec.max_restarts) {
    if (budget.charged_failures <= *state.spec.max_restarts) return {};
    return {true, "failure " + std::to_string(budget.charged_failures) +
                      " is more than --max-restarts " + std::to_string(*state.spec.max_restarts) +
                      " allows: " + LastFailureText(state)};
  }
  if (HasFailedAlike(state)) return SameFailureVerdict(state);
  if (budget.failures_without_progress < AlikeMax(state.spec) + kUnlikeFailuresExtra) return {};
  return {true, std::to_string(budget.failures_without_progress) +
                    " failures without a new highest step, the last one " +
                    StepText(budget.last_failure_step, budget.last_failure_step_count) + ": " +
                    LastFailureText(state)};
}

BudgetVerdict JudgeRepeated(const JobState& state, bool can_go_without_blamed) {
  const BudgetState& budget = state.budget;
  // The first of these attempts may have made steps, and failed where the others begin.
  const bool has_no_step = budget.last_before_step && budget.last_failure_step < 0 &&
                           budget.last_failure_step_count == 0;
  const bool is_again = budget.last_is_repeatable && has_no_step &&
                        budget.same_failure_count >= kRepeatedMax && !state.spec.max_restarts;
  if (!is_again) return {};
  const size_t everywhere = std::min(state.last_world.seats.size(), kFailureNodesMax);
  const bool is_everywhere = budget.same_failure_nodes.size() >= everywhere;
  if (can_go_without_blamed && !is_everywhere) return {};
  MARK("a failure comes again before the first step");
  return SameFailureVerdict(state);
}

Duration RestartDelay(const JobState& state) {
  return RestartDelay(state.spec, state.budget.failures_without_progress);
}

Duration RestartDelay(const JobSpec& spec, uint32_t failures) {
  constexpr uint32_t kDoublingsMax = 16;
  if (failures < 2 || spec.max_restarts) return Duration();
  const Timers& timers = spec.timers;
  const uint32_t doublings = std::min(failures - 2, kDoublingsMax);
  return std::min(timers.restart_delay * (int64_t{1} << doublings), timers.restart_delay_max);
}

std::string LeasedWorkSinceFailure(const Watch& watch) {
  const uint64_t samples = watch.leased_work.samples - watch.leased_work_before.samples;
  if (samples > 0)
    return Counted(samples, "leased sample") + " acknowledged since the last failure";
  if (watch.leased_work.searches == watch.leased_work_before.searches) return "";
  return "the search for a sample on which workers die went on";
}

}  // namespace paceline::core

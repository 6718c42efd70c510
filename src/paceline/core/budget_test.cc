#include "paceline/core/budget.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline::core {
namespace {

// As agents report it: with a text for every end.
ExitCause Signaled(int signal, const std::string& text) {
  ExitCause cause;
  cause.kind = ExitCause::Kind::kSignaled;
  cause.code = signal;
  cause.fingerprint = text;
  cause.headline = "killed by " + text;
  return cause;
}

TEST(BudgetTest, EqualKillsFromOutsideAreNoEqualFailures) {
  EXPECT_EQ(FailureFingerprint(Signaled(9, "SIGKILL")), "");
  EXPECT_EQ(FailureFingerprint(Signaled(15, "SIGTERM")), "");
  ExitCause unknown;
  unknown.fingerprint = "unknown";
  EXPECT_EQ(FailureFingerprint(unknown), "");
}

TEST(BudgetTest, WhatAProcessBringsAboutByItselfHasAFingerprint) {
  EXPECT_EQ(FailureFingerprint(Signaled(11, "SIGSEGV")), "SIGSEGV");
  EXPECT_EQ(FailureFingerprint(Signaled(11, "")), "signal 11");
  ExitCause memory = Signaled(9, "");
  memory.cgroup_oom = true;
  EXPECT_EQ(FailureFingerprint(memory), "out of memory");
  ExitCause exited;
  exited.kind = ExitCause::Kind::kExited;
  exited.code = 3;
  EXPECT_EQ(FailureFingerprint(exited), "exit 3");
}

TEST(BudgetTest, AClassIsBelievedMoreThanWords) {
  ExitCause cause;
  cause.headline = "RuntimeError: Connection reset by peer";
  EXPECT_TRUE(LooksLikeCascade(cause)) << "a journal from before there were classes";
  cause.role = ExitCause::Role::kCause;
  EXPECT_FALSE(LooksLikeCascade(cause));
  cause.role = ExitCause::Role::kAdvice;
  EXPECT_FALSE(LooksLikeCascade(cause));
  cause.headline = "Watchdog caught collective operation timeout";
  cause.role = ExitCause::Role::kNone;
  EXPECT_FALSE(LooksLikeCascade(cause));
  cause.role = ExitCause::Role::kCascade;
  EXPECT_TRUE(LooksLikeCascade(cause));
}

TEST(BudgetTest, AFinalFailureEndsTheBudgetAtOnce) {
  JobState state;
  RankFailed fact;
  fact.cause.kind = ExitCause::Kind::kExited;
  fact.cause.code = 1;
  fact.cause.fingerprint = fact.cause.headline = "PlanError: no plan (train.py:3)";
  Charge(state, Instant(), fact);
  EXPECT_FALSE(JudgeBudget(state).exhausted);
  fact.cause.is_final = true;
  Charge(state, Instant(), fact);
  EXPECT_TRUE(JudgeBudget(state).exhausted);
  const std::string reason = JudgeBudget(state).reason;
  EXPECT_TRUE(reason.starts_with("no restart can mend this: PlanError: no plan")) << reason;
  state.spec.max_restarts = 5;
  EXPECT_TRUE(JudgeBudget(state).exhausted);
}

// A job of two nodes; n1's rank raises before its first step in two worlds.
struct RaisedTwice {
  explicit RaisedTwice(bool is_repeatable) {
    state.last_world.seats.resize(2);
    fact.node = NodeId(1);
    fact.cause.kind = ExitCause::Kind::kExited;
    fact.cause.code = 1;
    fact.cause.fingerprint = fact.cause.headline = "KeyError: 'labels' (train.py:3)";
    fact.cause.is_repeatable = is_repeatable;
    Charge(state, Instant(), fact);
    EXPECT_FALSE(JudgeRepeated(state, /*can_go_without_blamed=*/false).exhausted);
    Charge(state, Instant(), fact);
  }
  JobState state;
  RankFailed fact;
};

TEST(BudgetTest, AnExceptionOfTheScriptEndsTheJobAtTheSecondTime) {
  RaisedTwice twice(/*is_repeatable=*/true);
  EXPECT_FALSE(JudgeBudget(twice.state).exhausted);
  EXPECT_TRUE(JudgeRepeated(twice.state, /*can_go_without_blamed=*/false).exhausted);
  EXPECT_FALSE(JudgeRepeated(twice.state, /*can_go_without_blamed=*/true).exhausted);
  twice.fact.node = NodeId(2);
  AddWitness(twice.state, twice.fact);
  EXPECT_TRUE(JudgeRepeated(twice.state, /*can_go_without_blamed=*/true).exhausted);
  twice.state.spec.max_restarts = 5;
  EXPECT_FALSE(JudgeRepeated(twice.state, /*can_go_without_blamed=*/true).exhausted);
}

// A rank exits with this code before its first step in two worlds, as agents report it.
BudgetVerdict ExitedTwice(int code, const std::string& last_line) {
  JobState state;
  RankFailed fact{.node = NodeId(1), .step = -1};
  fact.cause.kind = ExitCause::Kind::kExited;
  fact.cause.code = code;
  fact.cause.fingerprint = "exit " + std::to_string(code) + ": " + last_line;
  fact.cause.headline =
      std::string(kExitedText) + std::to_string(code) + std::string(kLastLineText) + last_line;
  for (int i = 0; i < 2; ++i) Charge(state, Instant(), fact);
  EXPECT_FALSE(JudgeBudget(state).exhausted);
  return JudgeRepeated(state, /*can_go_without_blamed=*/false);
}

TEST(BudgetTest, AnExitCodeOfTheScriptEndsTheJobAtTheSecondTime) {
  const BudgetVerdict verdict = ExitedTwice(2, "train.py: error: no --lr");
  EXPECT_TRUE(verdict.exhausted);
  EXPECT_EQ(verdict.reason,
            "your script exits with code 2 before its first step (2 times without progress); its "
            "last line on stderr was: train.py: error: no --lr");
}

TEST(BudgetTest, ExitCodesThatAskForAnotherTryHaveThreeTries) {
  for (const int code : {75, 85, 99, 120, 124, 137, 143}) {
    EXPECT_FALSE(ExitedTwice(code, "").exhausted) << code;
  }
  EXPECT_FALSE(ExitedTwice(1, "curl: (7) connection refused").exhausted);
}

TEST(BudgetTest, AnExceptionFromOutsideHasThreeTries) {
  const RaisedTwice twice(/*is_repeatable=*/false);
  EXPECT_FALSE(JudgeRepeated(twice.state, /*can_go_without_blamed=*/false).exhausted);
}

TEST(BudgetTest, AnExceptionAfterAStepHasThreeTries) {
  RaisedTwice twice(/*is_repeatable=*/true);
  twice.fact.step = 7;
  Charge(twice.state, Instant(), twice.fact);
  Charge(twice.state, Instant(), twice.fact);
  EXPECT_FALSE(JudgeRepeated(twice.state, /*can_go_without_blamed=*/false).exhausted);
}

// It saved step 6, fails at step 7, and begins there the next time.
TEST(BudgetTest, AnExceptionThatComesAgainAfterARestoreHasThreeTries) {
  JobState state;
  RankFailed fact{.node = NodeId(1), .step = 6};
  fact.cause.fingerprint = fact.cause.headline = "ValueError: bad batch (train.py:3)";
  fact.cause.is_repeatable = true;
  Charge(state, Instant(), fact);
  fact.step = -1;
  Charge(state, Instant(), fact);
  EXPECT_FALSE(JudgeRepeated(state, /*can_go_without_blamed=*/false).exhausted);
}

// Ranks that do not wait for each other: one of them fails at the same step each time, and another
// one is further by then.
TEST(BudgetTest, StepsOfOtherRanksDoNotForgiveTheSameFailure) {
  JobState state;
  RankFailed fact;
  fact.step = -1;
  fact.step_count = 21;
  fact.cause.kind = ExitCause::Kind::kExited;
  fact.cause.fingerprint = fact.cause.headline = "RuntimeError: no such label (train.py:6)";
  for (int attempt = 1; attempt <= 3; ++attempt) {
    if (attempt > 1) Refill(state, {.step = -1, .step_count = 22});
    EXPECT_FALSE(JudgeBudget(state).exhausted) << "before failure " << attempt;
    Charge(state, Instant(), fact);
    EXPECT_EQ(state.budget.step_count_max, attempt == 1 ? 21 : 22);
  }
  EXPECT_TRUE(JudgeBudget(state).exhausted);
  // At another step it is another failure.
  Refill(state, {.step = -1, .step_count = 80});
  fact.step_count = 90;
  Charge(state, Instant(), fact);
  EXPECT_FALSE(JudgeBudget(state).exhausted);
}

TEST(BudgetTest, PausesDoubleAndEndUnderAHardCap) {
  JobState state;
  state.budget.failures_without_progress = 1;
  EXPECT_EQ(RestartDelay(state), Duration());
  state.budget.failures_without_progress = 2;
  EXPECT_EQ(RestartDelay(state), state.spec.timers.restart_delay);
  state.budget.failures_without_progress = 4;
  EXPECT_EQ(RestartDelay(state), state.spec.timers.restart_delay * 4);
  state.budget.failures_without_progress = 100;
  EXPECT_EQ(RestartDelay(state), state.spec.timers.restart_delay_max);
  state.spec.max_restarts = 1000;
  EXPECT_EQ(RestartDelay(state), Duration());
}

}  // namespace
}  // namespace paceline::core

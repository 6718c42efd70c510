#include "paceline/agent/ranks/exit_cause.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace paceline::agent {
namespace {

constexpr int32_t Exited(int code) { return code << 8; }

ExitEvidence Evidence(int32_t wait_status) {
  ExitEvidence evidence;
  evidence.pid = 4711;
  evidence.wait_status = wait_status;
  return evidence;
}

constexpr const char* kRecord =
    R"({"schema":"paceline.rank_error/1","pid":4711,"type":"ValueError","message":"loss is NaN",
        "traceback":"Traceback …","file":"/home/u/train.py","line":88})";

TEST(ExitCauseTest, SuccessHasNoHeadline) {
  const ExitCause cause = JudgeExit(Evidence(Exited(0)));
  EXPECT_TRUE(cause.is_success());
  EXPECT_EQ(cause.headline, "");
}

TEST(ExitCauseTest, AnExceptionIsNamedByTypeAndPlace) {
  ExitEvidence evidence = Evidence(Exited(1));
  evidence.error_record = kRecord;
  const ExitCause cause = JudgeExit(evidence);
  EXPECT_EQ(cause.fingerprint, "ValueError@train.py:88");
  EXPECT_EQ(cause.headline, "ValueError: loss is NaN (train.py:88)");
  EXPECT_EQ(TracebackOf(kRecord, 4711), "Traceback …");
}

TEST(ExitCauseTest, ARecordSaysThatNoRestartHelps) {
  ExitEvidence evidence = Evidence(Exited(1));
  evidence.error_record = kRecord;
  EXPECT_FALSE(JudgeExit(evidence).is_final);
  EXPECT_FALSE(JudgeExit(evidence).is_repeatable);
  for (const auto& [word, is_final] : {std::pair("true", true), {"false", false}, {"1", false}}) {
    evidence.error_record = std::string(kRecord);
    evidence.error_record.insert(1, std::string("\"final\":") + word + ",");
    EXPECT_EQ(JudgeExit(evidence).is_final, is_final) << word;
  }
}

TEST(ExitCauseTest, ARecordOfAnotherProcessExplainsNothing) {
  ExitEvidence evidence = Evidence(Exited(1));
  evidence.pid = 12;
  evidence.error_record = kRecord;
  EXPECT_EQ(JudgeExit(evidence).fingerprint, "exit 1");
}

TEST(ExitCauseTest, FingerprintsOfAStatusIgnoreNumbers) {
  ExitEvidence first = Evidence(Exited(3));
  ExitEvidence second = first;
  first.stderr_tail = "worker 17: giving up at 0x7f01\n\n";
  second.stderr_tail = "worker 4: giving up at 0x7f93\n";
  EXPECT_EQ(JudgeExit(first).fingerprint, JudgeExit(second).fingerprint);
  EXPECT_EQ(JudgeExit(first).headline,
            "exited with code 3; its last line on stderr was: worker 17: giving up at 0x7f01");
}

TEST(ExitCauseTest, SigkillAloneIsNotCalledOutOfMemory) {
  const ExitCause cause = JudgeExit(Evidence(SIGKILL));
  EXPECT_EQ(cause.kind, ExitCause::Kind::kSignaled);
  EXPECT_FALSE(cause.cgroup_oom);
  EXPECT_EQ(cause.headline, "killed by SIGKILL");
}

TEST(ExitCauseTest, Status137IsAnExitStatusAndNoSignal) {
  const ExitCause cause = JudgeExit(Evidence(Exited(137)));
  EXPECT_EQ(cause.kind, ExitCause::Kind::kExited);
  EXPECT_FALSE(cause.cgroup_oom);
}

TEST(ExitCauseTest, TheKernelsCounterMakesItOutOfMemory) {
  ExitEvidence evidence = Evidence(SIGKILL);
  evidence.cgroup_killed = true;
  EXPECT_TRUE(JudgeExit(evidence).cgroup_oom);
}

TEST(ExitCauseTest, ATakenPortIsSaidSo) {
  ExitEvidence evidence = Evidence(Exited(75));
  evidence.port_taken = true;
  const ExitCause cause = JudgeExit(evidence);
  EXPECT_TRUE(cause.port_taken);
  EXPECT_EQ(cause.fingerprint, "store port taken");
}

TEST(ExitCauseTest, ALostWaitStatusIsUnknown) {
  ExitEvidence evidence;
  evidence.pid = 4711;
  EXPECT_EQ(JudgeExit(evidence).kind, ExitCause::Kind::kUnknown);
}

TEST(ExitCauseTest, HostileRecordsAreText) {
  for (const char* text : {"", "{", "[]", "{\"schema\":7}", "null", "{\"pid\":\"x\"}"}) {
    ExitEvidence evidence = Evidence(Exited(1));
    evidence.error_record = text;
    EXPECT_EQ(JudgeExit(evidence).fingerprint, "exit 1") << text;
  }
}

}  // namespace
}  // namespace paceline::agent

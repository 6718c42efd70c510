#include "paceline/agent/ranks/failure_class.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "paceline/base/text.h"
#include "paceline/logclass/builtin.h"

namespace paceline::agent {
namespace {

using Role = ExitCause::Role;

// The class and role that a failure with this evidence gets: "cuda_oom cause".
std::string ClassOf(const ExitEvidence& evidence) {
  ExitCause cause = JudgeExit(evidence);
  NameClass(logclass::BuiltinRules(), evidence, &cause);
  const char* roles[] = {"-", "cause", "cascade", "advice"};
  return Concat(cause.cause_class, " ", roles[static_cast<size_t>(cause.role)]);
}

ExitEvidence Died(int32_t wait_status, std::string stderr_tail = "") {
  ExitEvidence evidence;
  evidence.pid = 4711;
  evidence.wait_status = wait_status;
  evidence.stderr_tail = std::move(stderr_tail);
  return evidence;
}

ExitEvidence Raised(const std::string& type, const std::string& message, bool is_repeatable) {
  ExitEvidence evidence = Died(1 << 8);
  evidence.error_record =
      Concat(R"({"schema":"paceline.rank_error/1","pid":4711,"type":")", type, R"(","message":")",
             message, R"(","repeatable":)", is_repeatable ? "true" : "false", "}");
  return evidence;
}

TEST(FailureClassTest, AnEndWithoutAFailureHasNone) {
  EXPECT_EQ(ClassOf(Died(0, "CUDA out of memory\n")), " -");
  ExitEvidence taken = Died(75 << 8, "Address already in use\n");
  taken.port_taken = true;
  EXPECT_EQ(ClassOf(taken), " -");
  EXPECT_EQ(ClassOf(Died(3 << 8, "giving up\n")), " -") << "nothing known";
}

TEST(FailureClassTest, WithoutARecordItsWordsCount) {
  EXPECT_EQ(ClassOf(Died(1 << 8, "step 3\nRuntimeError: CUDA out of memory. Tried …\nbye\n")),
            "cuda_oom cause");
  EXPECT_EQ(ClassOf(Died(SIGABRT,
                         "[E ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught "
                         "collective operation timeout: WorkNCCL(SeqNum=1)\n")),
            "nccl_timeout cascade");
}

TEST(FailureClassTest, AnExceptionCountsMoreThanOlderLines) {
  ExitEvidence evidence = Raised("KeyError", "'labels'", true);
  evidence.stderr_tail = "warning: Connection reset by peer, retrying\nCUDA out of memory\n";
  EXPECT_EQ(ClassOf(evidence), "script_error cause");
  evidence = Raised("torch.OutOfMemoryError", "CUDA out of memory. Tried …", false);
  EXPECT_EQ(ClassOf(evidence), "cuda_oom cause");
}

TEST(FailureClassTest, AnExceptionThatFollowsIsExplainedByStderr) {
  ExitEvidence evidence = Raised("RuntimeError", "Connection closed by peer [::1]:9", false);
  EXPECT_EQ(ClassOf(evidence), "connection_reset cascade");
  evidence.stderr_tail = "OSError: [Errno 28] No space left on device\n";
  EXPECT_EQ(ClassOf(evidence), "disk_full cause");
  evidence.stderr_tail = "ImportError: no flash_attn, using the slow one\n";
  EXPECT_EQ(ClassOf(evidence), "connection_reset cascade") << "general words explain nothing";
}

TEST(FailureClassTest, TheKernelExplainsWhatATextDoesNot) {
  const std::string xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n";
  ExitEvidence evidence = Died(1 << 8, "Connection reset by peer\n");
  evidence.kernel_lines = "usb 1-1: new device\n" + xid;
  EXPECT_EQ(ClassOf(evidence), "xid_79 cause");
  evidence = Raised("KeyError", "'labels'", true);
  evidence.kernel_lines = xid;
  EXPECT_EQ(ClassOf(evidence), "script_error cause") << "the script's own code failed";
  evidence = Died(1 << 8);
  evidence.kernel_lines = "Out of memory: Killed process 12 (chrome)\n";
  EXPECT_EQ(ClassOf(evidence), " -") << "another program was killed";
}

TEST(FailureClassTest, AKillIsNoConsequenceOfWhatWasPrinted) {
  EXPECT_EQ(ClassOf(Died(SIGKILL, "Connection reset by peer\n")), "killed cause");
  ExitEvidence evidence = Died(SIGKILL);
  evidence.cgroup_killed = true;
  EXPECT_EQ(ClassOf(evidence), "cgroup_oom cause");
  evidence.kernel_line = "Out of memory: Killed process 4711 (python)";
  EXPECT_EQ(ClassOf(evidence), "host_oom cause");
  EXPECT_EQ(ClassOf(Died(SIGSEGV)), "crashed cause");
}

}  // namespace
}  // namespace paceline::agent

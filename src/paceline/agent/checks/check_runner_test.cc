// Checks of the user: what a host says after each kind of script, on real processes.

#include "paceline/agent/checks/check_runner.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "paceline/agent/checks/check_line.h"
#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

using State = NodeCheck::State;

constexpr int kExitedWith3 = 3 << 8;
constexpr int kEndedBySegv = 11;

TEST(CheckLineTest, TheLastVerdictCounts) {
  const CheckLine line =
      ReadCheck(0,
                "looking at 8 GPUs\n{\"ok\": false, \"reason\": \"old\"}\n"
                "{\"ok\": true, \"reason\": \"8 GPUs\", \"numbers\": {\"gpus\": 8}}\nbye\n");
  EXPECT_TRUE(line.ok);
  EXPECT_EQ(line.reason, "8 GPUs");
  EXPECT_EQ(line.numbers["gpus"], 8);
}

TEST(CheckLineTest, WhatIsNoVerdictIsAFailureWithItsReason) {
  const auto why = [](int status, std::string_view output) {
    const CheckLine line = ReadCheck(status, output);
    EXPECT_FALSE(line.ok) << output;
    return line.reason;
  };
  EXPECT_EQ(why(0, ""), "it printed no JSON line with \"ok\"");
  EXPECT_EQ(why(0, "one\nGPU 3\n"), "it printed no JSON line with \"ok\", but: GPU 3");
  EXPECT_EQ(why(0, "{\"ok\": 1}"), "it printed no JSON line with \"ok\", but: {\"ok\": 1}");
  EXPECT_EQ(why(0, "{\"ok\": false}"), "it says \"ok\": false, and no reason");
  EXPECT_EQ(why(0, "{\"ok\": false, \"reason\": \"a fan\"}"), "a fan");
  EXPECT_EQ(why(kExitedWith3, "Traceback\nKeyError: 1\n"), "it exited with 3: KeyError: 1");
  EXPECT_EQ(why(kExitedWith3, "{\"ok\": true}"), "it exited with 3");
  EXPECT_EQ(why(kEndedBySegv, ""), "it was ended by signal 11");
  EXPECT_LE(why(0, std::string(100'000, 'x')).size(), kCheckReasonMax + 3);
}

class CheckRunnerTest : public ::testing::Test {
 protected:
  std::string Script(const std::string& name, const std::string& body, int mode = 0700) {
    const std::string path = Concat(dir_.path(), "/", name);
    EXPECT_TRUE(ReplaceFile(path, body, 0600).ok());
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  CheckSetup SetupOf(std::vector<std::string> checks, Duration timeout) const {
    return {.checks = std::move(checks),
            .timeout = timeout,
            .retry_after = Duration::Milliseconds(1),
            .node = "n1",
            .boot_id = boot_id_,
            .python = "/usr/bin/python3",
            .cwd = dir_.path(),
            .log_dir = dir_.path(),
            .memory = dir_.path() + "/check.json",
            .env = {{"PATH", "/usr/bin:/bin"}, {"PACELINE_NODE", "n1"}}};
  }
  NodeCheck Run(std::vector<std::string> checks, Duration timeout = Duration::Seconds(60),
                bool forgets = false) {
    reactor_ = *Reactor::Create();
    std::optional<NodeCheck> told;
    CheckRunner runner(*reactor_, SetupOf(std::move(checks), timeout), [&](const NodeCheck& said) {
      told = said;
      reactor_->Stop();
    });
    runner.Start();
    if (!runner.state().is_over() && runner.state().state != State::kNone) reactor_->Run();
    if (forgets) runner.Forget();
    EXPECT_EQ(told.value_or(runner.state()), runner.state());
    return runner.state();
  }
  std::string Read(const std::string& name) {
    return ReadText(Concat(dir_.path(), "/", name), 1 << 16);
  }

  TestDir dir_;
  std::unique_ptr<Reactor> reactor_;
  std::string boot_id_ = "boot-1";
};

TEST_F(CheckRunnerTest, WithoutChecksThereIsNothingToSay) {
  EXPECT_EQ(Run({}).state, State::kNone);
}

TEST_F(CheckRunnerTest, AllMustPassAndTheirNumbersAreKept) {
  const std::string a = Script("gpu.sh",
                               "#!/bin/sh\necho \"{\\\"ok\\\": true, \\\"reason\\\": \\\"on "
                               "$PACELINE_NODE\\\", \\\"numbers\\\": {\\\"gpus\\\": 8}}\"\n");
  const std::string b = Script("disk.sh", "echo '{\"ok\": true, \"numbers\": {\"free\": 0.5}}'\n",
                               0600);  // started by sh
  const NodeCheck said = Run({a, b});
  EXPECT_EQ(said.state, State::kPassed);
  EXPECT_EQ(said.reason, "gpu.sh: on n1");
  EXPECT_EQ(said.numbers, R"({"disk.sh":{"free":0.5},"gpu.sh":{"gpus":8}})");
}

TEST_F(CheckRunnerTest, AHostThatPassedIsNotCheckedAgainInThisBoot) {
  const std::string path = Script(
      "once.sh", "#!/bin/sh\necho x >> runs\necho '{\"ok\": true, \"reason\": \"8 GPUs\"}'\n");
  const NodeCheck first = Run({path});
  EXPECT_EQ(first.state, State::kPassed);
  EXPECT_EQ(first.reason, "once.sh: 8 GPUs");
  EXPECT_EQ(Run({path}), first);  // so that no second record is written
  EXPECT_EQ(Read("runs"), "x\n");
  boot_id_ = "boot-2";
  EXPECT_EQ(Run({path}).state, State::kPassed);
  EXPECT_EQ(Read("runs"), "x\nx\n");
}

TEST_F(CheckRunnerTest, AHostThatWasSentAwayIsCheckedAgain) {
  const std::string path = Script("again.sh", "#!/bin/sh\necho x >> runs\necho '{\"ok\": true}'\n");
  EXPECT_EQ(Run({path}, Duration::Seconds(60), /*forgets=*/true).state, State::kPassed);
  EXPECT_EQ(Run({path}).state, State::kPassed);
  EXPECT_EQ(Read("runs"), "x\nx\n");
}

// The runner tells of each round once. A reactor that was stopped does not run again, so all rounds
// share one run.
TEST_F(CheckRunnerTest, TheMasterMayAskForAnotherRound) {
  const std::string path = Script("again.sh", "#!/bin/sh\necho x >> runs\necho '{\"ok\": true}'\n");
  reactor_ = *Reactor::Create();
  std::vector<NodeCheck> told;
  CheckRunner* asked = nullptr;
  CheckRunner runner(*reactor_, SetupOf({path}, Duration::Seconds(60)), [&](const NodeCheck& said) {
    told.push_back(said);
    if (told.size() == 2) return reactor_->Stop();
    reactor_->Post([&] {
      asked->Again(2);
      asked->Again(2);  // a repeated order
      asked->Again(1);  // an outdated one
    });
  });
  asked = &runner;
  runner.Start();
  reactor_->Run();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].round, 0u);
  EXPECT_EQ(told[1].round, 2u);
  EXPECT_EQ(told[1].state, State::kPassed);
  EXPECT_EQ(Read("runs"), "x\nx\n");
  // The next agent of this boot knows the newest round, and does not check again by itself.
  EXPECT_EQ(Run({path}).round, 2u);
  EXPECT_EQ(Read("runs"), "x\nx\n");
}

TEST_F(CheckRunnerTest, AnOrderInTheMiddleBeginsAnew) {
  const std::string path = Script("slow.sh",
                                  "#!/bin/sh\n[ -e tried ] && { echo '{\"ok\": true}'; exit 0; }\n"
                                  "touch tried\nexec sleep 1000\n");
  reactor_ = *Reactor::Create();
  std::vector<NodeCheck> told;
  CheckRunner runner(*reactor_, SetupOf({path}, Duration::Seconds(60)), [&](const NodeCheck& said) {
    told.push_back(said);
    reactor_->Stop();
  });
  runner.Start();
  while (::access((dir_.path() + "/tried").c_str(), F_OK) != 0) ::usleep(1000);
  runner.Again(1);
  reactor_->Run();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].round, 1u);
  EXPECT_EQ(told[0].state, State::kPassed);
}

TEST_F(CheckRunnerTest, AFailureIsTriedOnceMore) {
  const std::string flaky =
      Script("flaky.sh",
             "#!/bin/sh\n[ -e tried ] && { echo '{\"ok\": true}'; exit 0; }\ntouch tried\n"
             "echo '{\"ok\": false, \"reason\": \"too hot\"}'\n");
  EXPECT_EQ(Run({flaky}).state, State::kPassed);
  const std::string bad = Script(
      "bad.sh", "#!/bin/sh\necho x >> bad_runs\necho '{\"ok\": false, \"reason\": \"a fan\"}'\n");
  const NodeCheck said = Run({flaky, bad});
  EXPECT_EQ(said.state, State::kFailed);
  EXPECT_EQ(said.reason, "bad.sh: a fan");
  EXPECT_EQ(Read("bad_runs"), "x\nx\n");
}

TEST_F(CheckRunnerTest, AScriptThatHangsIsKilledWithItsChildren) {
  const std::string path =
      Script("hangs.sh", "#!/bin/sh\nsleep 1000 &\necho $! >> children\nwait\n");
  const NodeCheck said = Run({path}, Duration::Milliseconds(300));
  EXPECT_EQ(said.state, State::kFailed);
  EXPECT_EQ(said.reason, "hangs.sh: it was not over after 300 ms");
  std::istringstream children(Read("children"));
  for (pid_t pid = 0; children >> pid;) {
    while (::kill(pid, 0) == 0) ::usleep(1000);  // until it is gone
    EXPECT_EQ(errno, ESRCH);
  }
}

TEST_F(CheckRunnerTest, AFileThatCannotRunIsNamed) {
  const std::string missing = dir_.path() + "/gone.sh";
  EXPECT_EQ(Run({missing}).reason, "gone.sh: " + missing + ": No such file or directory");
  const std::string plain = Script("plain", "echo\n", 0600);
  EXPECT_EQ(Run({plain}).reason, "plain: " + plain + " is not executable");
  EXPECT_EQ(Run({dir_.path()}).state, State::kFailed);
}

}  // namespace
}  // namespace paceline::agent

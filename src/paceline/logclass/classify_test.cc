#include "paceline/logclass/classify.h"

#include <gtest/gtest.h>

#include <string>

#include "paceline/logclass/builtin.h"
#include "paceline/logclass/classes_page.h"

namespace paceline::logclass {
namespace {

std::string NameIn(const DeathTexts& texts) {
  const Rule* rule = Classify(BuiltinRules(), texts);
  return rule == nullptr ? "" : rule->name;
}

TEST(ClassifyTest, NothingIsSaidOfNothing) {
  EXPECT_EQ(NameIn({}), "");
  EXPECT_EQ(NameIn({.stderr_tail = "bye\n"}), "");
}

TEST(ClassifyTest, TheFirstCauseOfATextCounts) {
  EXPECT_EQ(NameIn({.stderr_tail = "Connection reset by peer\n"
                                   "OSError: [Errno 28] No space left on device\n"
                                   "RuntimeError: CUDA out of memory.\n"}),
            "disk_full");
}

TEST(ClassifyTest, TheNumberThatTorchPutsBeforeALineIsNoPartOfIt) {
  EXPECT_EQ(NameIn({.stderr_tail = "[rank3]: KeyError: 'labels'\n"}), "script_error");
  EXPECT_EQ(NameIn({.stderr_tail = "[rankx]: KeyError: 'labels'\n"}), "");
}

TEST(ClassifyTest, AHintIsNoCause) {
  const char* hint = "CUDA kernel errors might be asynchronously reported at some other API call\n";
  EXPECT_EQ(NameIn({.stderr_tail = hint}), "async_cuda_hint");
  EXPECT_EQ(NameIn({.stderr_tail = std::string(hint) + "KeyError: 1\n"}), "script_error");
}

TEST(ClassifyTest, ALongLineIsCut) {
  const std::string far = std::string(5000, 'x') + "CUDA out of memory";
  EXPECT_EQ(NameIn({.stderr_tail = far}), "");
  EXPECT_EQ(NameIn({.stderr_tail = "CUDA out of memory" + far}), "cuda_oom");
}

TEST(ClassifyTest, TheLongestTextIsReadToItsEnd) {
  std::string text;
  for (int i = 0; text.size() < (64 << 10); ++i) {
    text += "Epoch 3: " + std::to_string(i) + "%|##   | 450/1000 [02:11<02:40, loss=3.4]\r";
    text += "  File \"/app/train.py\", line " + std::to_string(i * 7) + ", in main\n";
    text += "[W socket.cpp:697] [c10d] The client socket of NCCL on CUDA:0 is retried\n";
  }
  EXPECT_EQ(NameIn({.stderr_tail = text}), "");
  EXPECT_EQ(NameIn({.stderr_tail = text + "BrokenPipeError: [Errno 32] Broken pipe"}),
            "broken_pipe");
}

TEST(ClassifyTest, OtherProcessesOfTheHostExplainNothing) {
  const char* killed = "Out of memory: Killed process 20 (chrome)\n";
  EXPECT_EQ(NameIn({.kernel_lines = killed}), "");
  EXPECT_EQ(NameIn({.own_line = killed}), "host_oom");
}

TEST(ClassifyTest, ThePageHasEachClass) {
  const std::string page = ClassesPage(BuiltinRules());
  for (const Rule& rule : BuiltinRules().rules()) {
    EXPECT_NE(page.find("| `" + rule.name + "`"), std::string::npos) << rule.name;
  }
}

}  // namespace
}  // namespace paceline::logclass

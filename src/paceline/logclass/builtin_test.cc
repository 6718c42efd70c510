#include "paceline/logclass/builtin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "paceline/base/text.h"

namespace paceline::logclass {
namespace {

using Role = ExitCause::Role;

TEST(BuiltinTest, EveryExampleBelongsToItsRule) {
  const auto made = MakeRules(BuiltinTexts());
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_GE(made->rules().size(), 45U);
}

TEST(BuiltinTest, EveryFamilyIsThere) {
  std::set<std::string> files;
  for (const Rule& rule : BuiltinRules().rules()) files.insert(rule.file);
  EXPECT_EQ(files.size(), BuiltinTexts().size());
}

TEST(BuiltinTest, AdviceIsAPhraseForASentence) {
  for (const Rule& rule : BuiltinRules().rules()) {
    const size_t words = SplitParts(rule.advice, " ").size();
    EXPECT_LT(words, 25U) << rule.name;
    EXPECT_GE(rule.advice.front(), 'a') << rule.name << " begins in lower case";
    EXPECT_NE(rule.advice.back(), '.') << rule.name;
    EXPECT_EQ(rule.advice.find('|'), std::string::npos) << rule.name << " is a cell of a table";
  }
}

TEST(BuiltinTest, WhatConnectionsPrintIsAConsequence) {
  for (const char* text :
       {"RuntimeError: Connection reset by peer", "Connection closed by peer [10.0.0.1]:4",
        "BrokenPipeError: [Errno 32] Broken pipe", "connect: Connection refused",
        "remote process exited or there was a network error", "Socket closed", "peer closed",
        "the connection was reset"}) {
    const Rule* rule = BuiltinRules().Match(text);
    ASSERT_NE(rule, nullptr) << text;
    EXPECT_EQ(rule->role, Role::kCascade) << text;
  }
}

TEST(BuiltinTest, OrdinaryLinesHaveNoClass) {
  for (const char* text :
       {"step 12 loss 3.21 lr 1e-4", "INFO: resuming from /ckpt/step_900", "", "\xff\xfe\x00z",
        "/usr/lib/python3/site.py:12: UserWarning: torch.load is old", "loss: nan",
        "Epoch 3: 45%|####     | 450/1000 [02:11<02:40, 3.4it/s]"}) {
    const Rule* rule = BuiltinRules().Match(text);
    EXPECT_EQ(rule, nullptr) << text << " is " << rule->name;
  }
}

}  // namespace
}  // namespace paceline::logclass

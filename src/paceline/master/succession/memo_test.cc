#include "paceline/master/succession/memo.h"

#include <gtest/gtest.h>

#include <string>

#include "paceline/wire/messages.h"

namespace paceline::master {
namespace {

TEST(Memo, ComesBackFromItsText) {
  EXPECT_EQ(MemoText({}), "") << "a job without failures has nothing to keep";
  const core::Memo memo{.charged_failures = 3,
                        .failures_without_progress = 2,
                        .same_failure_count = 1,
                        .last_fingerprint = "ValueError@train.py:31",
                        .last_headline = "ValueError: \"bad\" batch",
                        .last_failure_step = 17,
                        .step_max = 20,
                        .worlds = 5,
                        .replaced = {{1, 8}, {12, 2}},
                        .excluded = {"rack1-host2", "rack1-host3"},
                        .exit_code = 1,
                        .final_reason = "your script fails",
                        .chosen_nodes = 3,
                        .is_size_measured = true};
  EXPECT_EQ(ReadMemo(MemoText(memo)), memo);
}

TEST(Memo, IsNeverTooLong) {
  core::Memo memo{.charged_failures = 2'000'000'000, .worlds = 4'000'000'000, .exit_code = 1};
  for (uint32_t i = 0; i < core::Memo::kIndexesMax; ++i) memo.replaced[900'000 + i] = 4'000'000'000;
  memo.excluded.assign(core::Memo::kHostsMax, std::string(253, 'h'));
  memo.last_fingerprint = memo.last_headline = memo.final_reason =
      std::string(core::Memo::kTextMax, '\x01');  // six bytes each in JSON
  const std::string text = MemoText(memo);
  EXPECT_LE(text.size(), wire::kMemoBytesMax);
  EXPECT_EQ(ReadMemo(text)->exit_code, 1);
}

TEST(Memo, WhatIsNoneIsNotTaken) {
  for (const std::string text : {"", "{", "[]", "7"}) EXPECT_FALSE(ReadMemo(text).has_value());
  EXPECT_FALSE(ReadMemo(std::string(wire::kMemoBytesMax + 1, ' ')).has_value());
  const auto odd =
      ReadMemo(R"({"charged_failures":-5,"step_max":"x","replaced":{"node":1,"3":2}})");
  ASSERT_TRUE(odd.has_value());
  EXPECT_EQ(odd->charged_failures, 0u);
  EXPECT_EQ(odd->step_max, -1);
  EXPECT_EQ(odd->replaced, (std::map<uint32_t, uint32_t>{{3, 2}}));
}

}  // namespace
}  // namespace paceline::master

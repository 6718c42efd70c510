#include "paceline/ckpt/storage/rescue_files.h"

#include "gtest/gtest.h"
#include "paceline/base/test_dir.h"
#include "paceline/ckpt/store/stores.h"

namespace paceline::ckpt {
namespace {

RescueCall Call() {
  return {.job_id = "j",
          .id = "17",
          .host = "h0",
          .term = 3,
          .beat = 4,
          .stage = RescueCall::Stage::kStore,
          .saved = {5, 6, 7},
          .world_size = 2,
          .shards = {{Rank(0), Rank(0), Rank(1), "n1"}, {Rank(1), Rank(0), Rank(1), "n1"}}};
}

RescueAnswer Answer(const std::string& node) {
  return {.job_id = "j",
          .id = "17",
          .node = node,
          .host = "h",
          .term = 2,
          .beat = 4,
          .stage = RescueCall::Stage::kEnd,
          .has_master = true,
          .has_ended = true,
          .images = {{.rank = Rank(1),
                      .place = node,
                      .is_copy = true,
                      .saved = {5, 6, 7},
                      .world_size = 2,
                      .file_bytes = 100,
                      .file_root = 0xfedcba9876543210,
                      .is_replica = true}},
          .equal = {{{5, 6, 7}, 0xfedcba9876543210, {{0, 2}}}},
          .shards = {{.rank = Rank(1), .saved = {5, 6, 7}, .is_durable = true, .took = {}},
                     {.rank = Rank(0), .saved = {5, 6, 7}, .problem = "full", .took = {}}}};
}

TEST(RescueFiles, TheirTextGivesThemBack) {
  EXPECT_EQ(ParseRescueCall(ToText(Call())), Call());
  EXPECT_EQ(ParseRescueAnswer(ToText(Answer("n1"))), Answer("n1"));
}

TEST(RescueFiles, OtherTextIsNone) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string("{\"schema\":\"paceline.rescue_call/1\"}"),
        std::string("{\"schema\":\"paceline.rescue_answer/1\",\"stage\":\"ask\"}")}) {
    EXPECT_FALSE(ParseRescueCall(text).has_value()) << text;
    EXPECT_FALSE(ParseRescueAnswer(text).has_value()) << text;
  }
}

TEST(RescueFiles, OnlyAnswersToThatCallCount) {
  const TestDir dir;
  const auto store = *OpenStore(dir.path(), {});
  EXPECT_EQ(*ReadRescueCall(store.get()), std::nullopt);
  EXPECT_TRUE(ReadRescueAnswers(store.get(), Call())->empty());
  ASSERT_TRUE(PutRescueCall(store.get(), Call()).ok());
  EXPECT_EQ(*ReadRescueCall(store.get()), Call());
  RescueAnswer other = Answer("n3");
  other.id = "16";
  for (const RescueAnswer& answer : {Answer("n2"), Answer("n1"), other}) {
    ASSERT_TRUE(PutRescueAnswer(store.get(), answer).ok());
  }
  EXPECT_EQ(*ReadRescueAnswers(store.get(), Call()),
            (std::vector<RescueAnswer>{Answer("n1"), Answer("n2")}));
  RemoveRescueAnswers(store.get());
  EXPECT_TRUE(ReadRescueAnswers(store.get(), Call())->empty());
  EXPECT_EQ(*ReadRescueCall(store.get()), Call()) << "it stays";
}

}  // namespace
}  // namespace paceline::ckpt

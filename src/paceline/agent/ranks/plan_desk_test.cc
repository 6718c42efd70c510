#include "paceline/agent/ranks/plan_desk.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paceline/base/json.h"

namespace paceline::agent {
namespace {

nlohmann::json Message() {
  return {{"op", "plan"},      {"generation", 3},         {"summary", "{}"},
          {"wishes", "{}"},    {"cluster", "{}"},         {"plan", "{}"},
          {"words", "data 2"}, {"because", "it is fast"}, {"step", 0.25}};
}

TEST(PlanDesk, TellsEachMasterOfTheNewestPlan) {
  std::vector<PlanNote> told;
  PlanDesk desk([&](const PlanNote& note) { told.push_back(note); });
  desk.Linked();
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(desk.Take(Message())["op"], "planned");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].generation, Generation(3));
  EXPECT_EQ(told[0].words, "data 2");
  EXPECT_EQ(told[0].step, 0.25);
  nlohmann::json next = Message();
  next["generation"] = 4;
  next["moves"] = true;
  desk.Take(next);
  desk.Linked();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[2].generation, Generation(4));
  EXPECT_FALSE(told[0].moves);
  EXPECT_TRUE(told[2].moves);
}

TEST(PlanDesk, RefusesWhatTheMasterCouldNotTake) {
  int told = 0;
  PlanDesk desk([&](const PlanNote&) { ++told; });
  const std::vector<std::pair<const char*, nlohmann::json>> wrong = {
      {"generation", 0}, {"generation", "3"},
      {"words", ""},     {"words", std::string(kPlanNoteSentenceMax + 1, 'x')},
      {"summary", 7},    {"summary", std::string(kPlanNoteTextMax + 1, 'x')},
      {"wishes", ""},    {"cluster", std::string(kPlanNoteTextMax + 1, 'x')},
      {"step", -1},      {"plan", std::string(kPlanNotePlanMax + 1, 'x')},
  };
  for (const auto& [field, value] : wrong) {
    nlohmann::json message = Message();
    message[field] = value;
    const nlohmann::json answer = desk.Take(message);
    EXPECT_EQ(answer["op"], "error") << field;
    EXPECT_FALSE(answer["why"].get<std::string>().empty()) << field;
  }
  EXPECT_EQ(told, 0);
  nlohmann::json without = Message();
  without["plan"] = "";  // too long for a message; the rest is told
  EXPECT_EQ(desk.Take(without)["op"], "planned");
}

}  // namespace
}  // namespace paceline::agent

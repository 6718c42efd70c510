#include "paceline/agent/starter/starter_message.h"

#include <cstring>

#include "gtest/gtest.h"

namespace paceline::agent {
namespace {

std::string Framed(const std::string& body) {
  const auto size = static_cast<uint32_t>(body.size());
  std::string text(sizeof(size), '\0');
  std::memcpy(text.data(), &size, sizeof(size));
  return text + body;
}

TEST(StarterMessage, TakesOneAfterTheOther) {
  std::string input = Framed(R"({"type":"ready","pid":7,"warm":true,"imports_ms":12})") +
                      Framed(R"({"type":"exited","pid":8,"rank":3,"wait_status":9})");
  auto first = TakeStarterMessage(&input);
  ASSERT_TRUE(first.ok() && first->has_value());
  EXPECT_EQ(std::get<StarterHello>(**first).pid, 7);
  EXPECT_TRUE(std::get<StarterHello>(**first).is_warm);
  auto second = TakeStarterMessage(&input);
  ASSERT_TRUE(second.ok() && second->has_value());
  EXPECT_EQ(std::get<StarterExited>(**second).child.wait_status, 9);
  EXPECT_TRUE(input.empty());
}

TEST(StarterMessage, WaitsForTheRest) {
  const std::string whole = Framed(R"({"type":"children","children":[{"pid":4},17]})");
  for (size_t size = 0; size < whole.size(); ++size) {
    std::string input = whole.substr(0, size);
    const auto message = TakeStarterMessage(&input);
    ASSERT_TRUE(message.ok());
    EXPECT_FALSE(message->has_value());
    EXPECT_EQ(input.size(), size);
  }
  std::string input = whole;
  const auto message = TakeStarterMessage(&input);
  ASSERT_TRUE(message.ok() && message->has_value());
  EXPECT_EQ(std::get<StarterChildren>(**message).children.size(), 1u);
}

TEST(StarterMessage, RefusesWhatIsNoMessage) {
  for (std::string input : {std::string(4, '\0'), std::string("\xff\xff\xff\xff"), Framed("[]"),
                            Framed("{"), Framed("\xc3\x28")}) {
    EXPECT_FALSE(TakeStarterMessage(&input).ok());
  }
}

TEST(StarterMessage, TakesFieldsOfAnotherTypeAsMissing) {
  std::string input = Framed(R"({"type":"spawned","pid":"7","id":-1,"took_us":1e300})");
  const auto message = TakeStarterMessage(&input);
  ASSERT_TRUE(message.ok() && message->has_value());
  EXPECT_EQ(std::get<StarterSpawned>(**message).pid, 0);
  EXPECT_EQ(std::get<StarterSpawned>(**message).id, 0u);
}

TEST(StarterMessage, PassesOverTypesOfANewerStarter) {
  std::string input = Framed(R"({"type":"sings"})");
  const auto message = TakeStarterMessage(&input);
  ASSERT_TRUE(message.ok() && message->has_value());
  EXPECT_TRUE(std::holds_alternative<StarterUnknown>(**message));
}

}  // namespace
}  // namespace paceline::agent

#include "paceline/base/json_limit.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

TEST(JsonLimit, AShapeIsWhatBracketsAndCommasTell) {
  const JsonShape shape = ShapeOfJson(R"( {"a,[\"{": [1, [2]], "b": {}} )", 9);
  EXPECT_EQ(shape.depth, 3u);
  EXPECT_EQ(shape.containers, 4u);
  EXPECT_EQ(shape.values, 6u);
  EXPECT_EQ(shape.members, 2u);
  EXPECT_EQ(ShapeOfJson("[ ]", 9).members, 0u);
  EXPECT_EQ(ShapeOfJson("[[]]", 9).members, 1u);
  for (const char* odd : {"", "]]]", "\"", "\"\\", "7", "{\"a"}) (void)ShapeOfJson(odd, 9);
}

TEST(JsonLimit, ADeepTextIsNotReadToItsEnd) {
  const JsonShape shape = ShapeOfJson(std::string(1'000'000, '['), 16);
  EXPECT_EQ(shape.depth, 17u);
  EXPECT_EQ(shape.containers, 17u);
}

TEST(JsonLimit, AFlatTextIsLimitedByItsBytes) {
  std::string text = "[";
  for (int i = 0; i < 100'000; ++i) text += "[],";
  text += "0]";
  const auto holds = [&](uint64_t to_container) {
    return JsonLimit::PerByte(text.size(), 9, to_container, 1).Holds(ShapeOfJson(text, 9));
  };
  EXPECT_TRUE(holds(3));
  EXPECT_FALSE(holds(16));
}

}  // namespace
}  // namespace paceline

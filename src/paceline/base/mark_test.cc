#include "paceline/base/mark.h"

#include <gtest/gtest.h>

#include <string_view>

namespace paceline {
namespace {

void Visit(bool left) {
  if (left) {
    MARK("went left");
  } else {
    MARK("went right");
  }
}

uint64_t HitsOf(std::string_view name) {
  for (const Mark* mark : AllMarks()) {
    if (mark->name == name) return mark->hits;
  }
  ADD_FAILURE() << "no mark named " << name;
  return 0;
}

TEST(MarkTest, ListsMarksThatWereNeverReached) {
  ClearMarks();
  Visit(true);
  Visit(true);
  EXPECT_EQ(HitsOf("went left"), 2u);
  EXPECT_EQ(HitsOf("went right"), 0u);
  ClearMarks();
  EXPECT_EQ(HitsOf("went left"), 0u);
}

}  // namespace
}  // namespace paceline

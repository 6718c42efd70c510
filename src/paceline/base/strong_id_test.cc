#include "paceline/base/strong_id.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace paceline {
namespace {

using Apple = StrongId<struct AppleTag>;
using Pear = StrongId<struct PearTag, uint32_t>;

static_assert(!std::is_convertible_v<uint64_t, Apple>);
static_assert(!std::is_convertible_v<Apple, Pear> && !std::is_constructible_v<Pear, Apple>);
static_assert(sizeof(Pear) == 4);

TEST(StrongIdTest, OrdersByValue) {
  EXPECT_EQ(Apple(), Apple(0));
  EXPECT_LT(Apple(1), Apple(2));
  EXPECT_EQ(Apple(1).next(), Apple(2));
  EXPECT_EQ(ToString(Pear(7)), "7");
}

}  // namespace
}  // namespace paceline

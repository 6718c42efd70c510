#include "paceline/core/detect/checks_due.h"

#include "gtest/gtest.h"

#include "paceline/core/test_times.h"

namespace paceline::core {
namespace {

using Nodes = std::vector<NodeId>;

TEST(ChecksDue, GivesEachNodeOnceWhenItsTimeHasCome) {
  ChecksDue due;
  due.Set(NodeId(3), At(10));
  due.Set(NodeId(1), At(20));
  due.Set(NodeId(2), At(30));
  EXPECT_EQ(due.first(), At(10));
  EXPECT_EQ(due.Take(At(9)), Nodes());
  EXPECT_EQ(due.Take(At(20)), (Nodes{NodeId(1), NodeId(3)}));
  EXPECT_EQ(due.Take(At(20)), Nodes());
  EXPECT_EQ(due.first(), At(30));
}

TEST(ChecksDue, TheLastTimeSetCountsAndNeverIsNever) {
  ChecksDue due;
  due.Set(NodeId(1), At(10));
  due.Set(NodeId(1), At(50));
  EXPECT_EQ(due.Take(At(49)), Nodes());
  due.Set(NodeId(1), Instant::Max());
  EXPECT_TRUE(due.first().is_max());
  EXPECT_EQ(due.Take(Instant::Max()), Nodes());
}

TEST(ChecksDue, BringsForwardAndNeverBack) {
  ChecksDue due;
  due.NoLaterThan(NodeId(1), At(30));
  due.NoLaterThan(NodeId(1), At(60));
  EXPECT_EQ(due.first(), At(30));
  due.NoLaterThan(NodeId(1), At(5));
  EXPECT_EQ(due.Take(At(5)), Nodes{NodeId(1)});
}

}  // namespace
}  // namespace paceline::core

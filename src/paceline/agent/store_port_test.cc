#include "paceline/agent/store_port.h"

#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

TEST(StorePortTest, TwoHoldersNeverHaveOnePort) {
  StorePort first(5);
  StorePort second(5);
  ASSERT_TRUE(first.Hold().ok());
  ASSERT_TRUE(second.Hold().ok());
  EXPECT_NE(first.port(), 0);
  EXPECT_NE(first.port(), second.port());
}

TEST(StorePortTest, AFreshHoldIsAnotherPort) {
  StorePort holder(7);
  ASSERT_TRUE(holder.Hold().ok());
  const uint16_t former = holder.port();
  holder.Release();
  EXPECT_EQ(holder.port(), 0);
  ASSERT_TRUE(holder.Hold().ok());
  EXPECT_NE(holder.port(), former);
}

}  // namespace
}  // namespace paceline::agent

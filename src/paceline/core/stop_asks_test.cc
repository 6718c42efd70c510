#include "paceline/core/stop_asks.h"

#include "gtest/gtest.h"

#include "paceline/core/test_times.h"

namespace paceline::core {
namespace {

TEST(StopAsks, SigtermIsOneRequestHoweverOftenItComes) {
  StopAsks asks;
  EXPECT_EQ(asks.Take(At(0), kSigterm), StopAsk::kFirst);
  EXPECT_EQ(asks.Take(At(0), kSigterm), StopAsk::kRepeat);
  EXPECT_EQ(asks.Take(At(25'000), kSigterm), StopAsk::kRepeat);
  EXPECT_FALSE(asks.is_forced());
}

TEST(StopAsks, ACtrlCThatAWrapperHandsOnIsTheSameCtrlC) {
  StopAsks asks;
  EXPECT_EQ(asks.Take(At(0), kSigint), StopAsk::kFirst);
  EXPECT_EQ(asks.Take(At(999), kSigint), StopAsk::kRepeat);
  EXPECT_EQ(asks.Take(At(1'000), kSigint), StopAsk::kForce);
  EXPECT_TRUE(asks.is_forced());
  EXPECT_EQ(asks.Take(At(1'500), kSigint), StopAsk::kRepeat);
  EXPECT_EQ(asks.Take(At(2'000), kSigint), StopAsk::kKill);
}

TEST(StopAsks, CtrlCForcesAStopThatSigtermBegan) {
  StopAsks asks;
  EXPECT_EQ(asks.Take(At(0), kSigterm), StopAsk::kFirst);
  EXPECT_EQ(asks.Take(At(0), kSigint), StopAsk::kRepeat);
  EXPECT_EQ(asks.Take(At(3'000), kSigint), StopAsk::kForce);
  EXPECT_EQ(asks.Take(At(9'000), kSigterm), StopAsk::kRepeat);
}

}  // namespace
}  // namespace paceline::core

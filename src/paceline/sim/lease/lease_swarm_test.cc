#include "paceline/sim/lease/lease_swarm.h"

#include <gtest/gtest.h>

#include "paceline/sim/main.h"

namespace paceline::sim {
namespace {

TEST(LeaseSwarmTest, AFailingWorldIsMadeSmallAndStillFails) {
  int shrunk = 0;
  for (uint64_t seed = 1; seed <= 60 && shrunk < 3; ++seed) {
    const LeaseOutcome whole = RunLeaseWorld(seed, LeaseCanary::kLoseFacts);
    if (whole.wrong.empty()) continue;
    const LeaseLimits limits = ShrinkLeaseWorld(seed, LeaseCanary::kLoseFacts, {});
    const LeaseOutcome small = RunLeaseWorld(seed, LeaseCanary::kLoseFacts, limits);
    EXPECT_NE(small.wrong, "") << "seed " << seed;
    EXPECT_LT(limits.faulty_steps, LeaseLimits{}.faulty_steps) << "seed " << seed;
    EXPECT_LE(small.faults, whole.faults) << "seed " << seed;
    ++shrunk;
  }
  EXPECT_EQ(shrunk, 3);
}

TEST(LeaseSwarmTest, WithoutFaultsNothingFails) {
  const LeaseOutcome calm = RunLeaseWorld(7, LeaseCanary::kNone, {.faulty_steps = 0});
  EXPECT_EQ(calm.wrong, "");
  EXPECT_EQ(calm.faults, 0u);
  const LeaseLimits none{.without = (1u << std::size(kLeaseFaults)) - 1};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(RunLeaseWorld(seed, LeaseCanary::kNone, none).wrong, "") << seed;
  }
}

int Ran(const std::vector<std::string>& words, std::string* told) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  std::string wrong;
  const int code = RunLeaseCommand(words, &wrong);
  *told = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr() + wrong;
  EXPECT_EQ(code == kUsage, !wrong.empty());
  return code;
}

TEST(LeaseSwarmTest, TheCommandRunsSeedsFindsCanariesAndRefusesWrongWords) {
  std::string told;
  EXPECT_EQ(Ran({"--leases", "--seeds=20"}, &told), 0) << told;
  EXPECT_NE(told.find("leases: 20 seeds from 1, 0 wrong"), std::string::npos) << told;
  EXPECT_EQ(Ran({"--leases", "--canary", "all"}, &told), 0) << told;
  EXPECT_EQ(Ran({"--leases", "--canary", "no_rewind", "--seeds", "40", "--shrink"}, &told), 0);
  EXPECT_NE(told.find("repeat: paceline sim --leases --seed "), std::string::npos) << told;
  EXPECT_EQ(Ran({"--leases", "--streams", "--seeds=20"}, &told), 0) << told;
  EXPECT_NE(told.find("streams: 20 seeds from 1, 0 wrong"), std::string::npos) << told;
  EXPECT_EQ(Ran({"--leases", "--streams", "--canary", "all"}, &told), 0) << told;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--leases", "--seed"},
                                             {"--leases", "--seed", "x"},
                                             {"--leases", "--without", "rain"},
                                             {"--leases", "--canary", "x"},
                                             {"--leases", "--canary", "held_twice"},
                                             {"--leases", "--streams", "--canary", "no_rewind"},
                                             {"--leases", "--nodes", "3"}}) {
    EXPECT_EQ(Ran(words, &told), 2) << told;
  }
}

TEST(LeaseSwarmTest, TheCommandLineRepeatsTheWorld) {
  EXPECT_EQ(LeaseCommandLine(7, LeaseCanary::kNone, {}), "--leases --seed 7");
  EXPECT_EQ(LeaseCommandLine(7, LeaseCanary::kNoRewind, {.faulty_steps = 40, .without = 0b101}),
            "--leases --seed 7 --faulty-steps 40 --without crash,freeze --canary no_rewind");
}

}  // namespace
}  // namespace paceline::sim

// The swarm as a test: each fault alone, fixed seeds, each journal position, each canary.
// PACELINE_SIM_SEEDS sets the number of fixed seeds; `paceline sim --seeds N` runs more.

#include "paceline/sim/swarm/swarm.h"

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "paceline/sim/fault/fault.h"
#include "paceline/sim/swarm/shrink.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kSeedsDefault = 200;
constexpr uint64_t kCanarySeedsMax = 400;

uint64_t SeedCount() {
  const char* text = std::getenv("PACELINE_SIM_SEEDS");
  return text == nullptr ? kSeedsDefault : std::strtoull(text, nullptr, 10);
}

void ExpectClean(uint64_t seed, const Overrides& overrides) {
  const Outcome outcome = RunSeed(seed, overrides, nullptr);
  if (!outcome.violation.has_value()) return;
  ADD_FAILURE() << outcome.violation->check << ": " << outcome.violation->what
                << "\nrepeat: " << CommandLine(seed, overrides) << " --log full";
}

TEST(Swarm, SurvivesEachFaultAlone) {
  for (const Fault& fault : AllFaults()) {
    Overrides overrides;
    overrides.only = {std::string(fault.name)};
    for (uint64_t seed = 123; seed < 126; ++seed) {
      overrides.saves = seed % 2 == 1;  // many faults need a Checkpointer
      ExpectClean(seed, overrides);
    }
  }
}

TEST(Swarm, SurvivesFixedSeeds) {
  for (uint64_t seed = 1; seed <= SeedCount(); ++seed) ExpectClean(seed, Overrides{});
}

TEST(Swarm, SurvivesAMasterCrashAtEveryRecord) {
  for (uint64_t seed : {7u, 16u}) {
    const uint64_t records = RunSeed(seed, Overrides{}, nullptr).record_count;
    for (uint64_t record = 1; record <= records; ++record) {
      Overrides overrides;
      overrides.crash_at_record = record;
      ExpectClean(seed, overrides);
    }
  }
}

TEST(Swarm, RepeatsARunExactly) {
  for (uint64_t seed : {3u, 4u, 5u}) {
    const Outcome first = RunSeed(seed, Overrides{}, nullptr);
    const Outcome second = RunSeed(seed, Overrides{}, nullptr);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.last_random, second.last_random);
    EXPECT_EQ(first.task_count, second.task_count);
  }
}

// The first seed that finds a planted bug; 0 if none does.
uint64_t SeedThatFinds(const Overrides& overrides) {
  for (uint64_t seed = 1; seed <= kCanarySeedsMax; ++seed) {
    if (RunSeed(seed, overrides, nullptr).violation.has_value()) return seed;
  }
  return 0;
}

TEST(Swarm, FindsEveryCanary) {
  for (const CanaryEntry& entry : AllCanaries()) {
    Overrides overrides;
    overrides.canary = entry.canary;
    overrides.only.assign(entry.faults.begin(), entry.faults.end());
    EXPECT_NE(SeedThatFinds(overrides), 0u) << entry.name << ": " << entry.bug;
  }
}

// These three faults have no canaries of their own: each alone finds ranks that live on.
TEST(Swarm, FindsRanksThatLiveOnByEachOfTheseFaults) {
  for (const char* fault : {"blinking_link", "launcher_dies", "signals_twice"}) {
    Overrides overrides;
    overrides.canary = Canary::kForgetToFence;
    overrides.only = {fault};
    EXPECT_NE(SeedThatFinds(overrides), 0u) << fault;
  }
}

TEST(Shrink, KeepsTheFailureAndNeedsLess) {
  Overrides overrides;
  overrides.canary = Canary::kIgnoreSilence;
  const uint64_t seed = SeedThatFinds(overrides);
  ASSERT_NE(seed, 0u);
  const Outcome outcome = RunSeed(seed, overrides, nullptr);
  const Shrunk shrunk = Shrink(seed, overrides, *outcome.violation);
  EXPECT_EQ(shrunk.violation.check, outcome.violation->check);
  EXPECT_LE(Draw(seed, shrunk.overrides).strikes.size(), Draw(seed, overrides).strikes.size());
  const Outcome again = RunSeed(seed, shrunk.overrides, nullptr);
  ASSERT_TRUE(again.violation.has_value());
  EXPECT_EQ(again.violation->what, shrunk.violation.what);
}

TEST(Swarm, DrawsTheSameOptionsFromASeed) {
  EXPECT_EQ(Describe(Draw(42, Overrides{})), Describe(Draw(42, Overrides{})));
  EXPECT_NE(Describe(Draw(42, Overrides{})), Describe(Draw(43, Overrides{})));
}

}  // namespace
}  // namespace paceline::sim

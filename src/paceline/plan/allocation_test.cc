#include "paceline/plan/allocation.h"

#include <gtest/gtest.h>

#include "paceline/plan/devices.h"
#include "paceline/plan/family/family.h"
#include "paceline/plan/search.h"

namespace paceline::plan {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

TEST(Allocation, FitsWhatTheDevicesHold) {
  const ModelSummary llama = *SummaryOfPreset("llama-8b", {});
  const PlanWishes wishes = {.global_batch = 64, .only = {}};
  EXPECT_TRUE(Fits(llama, Allocation{{"a", 80 * kGib, 8}}, wishes));
  EXPECT_FALSE(Fits(llama, Allocation{{"a", 80 * kGib, 1}}, wishes));
  EXPECT_FALSE(Fits(llama, Allocation{{"a", 16 * kGib, 4}}, wishes));
  EXPECT_TRUE(Fits(llama, Allocation{{"a", 16 * kGib, 4}, {"b", 80 * kGib, 8}}, wishes));
  EXPECT_FALSE(Fits(llama, Allocation{}, wishes));
}

// Whether a model fits depends on memory alone: what is not measured must not decide.
TEST(Allocation, SpeedDecidesNothing) {
  const ModelSummary llama = *SummaryOfPreset("llama-8b", {});
  const PlanWishes wishes = {.global_batch = 64, .only = {}};
  const Cluster known = *ClusterFromLine("H100-80G:8", {});
  for (uint32_t count : {1U, 2U, 4U, 8U}) {
    const Allocation devices = {{known.types[0].name, known.types[0].memory, count}};
    EXPECT_EQ(Fits(llama, ClusterOf(devices, known), wishes), Fits(llama, devices, wishes))
        << count;
  }
}

TEST(Allocation, ThroughputGrowsWithDevices) {
  const ModelSummary gpt = *SummaryOfPreset("gpt-1.5b", {});
  const PlanWishes wishes = {.global_batch = 64, .only = {}};
  const Cluster known = *ClusterFromLine("H100-80G:8,A100-80G:8", {});
  const auto with = [&](uint32_t h100, uint32_t a100) {
    Allocation devices = {{"H100-80G", known.types[0].memory, h100}};
    if (a100 > 0) devices.push_back({"A100-80G", known.types[1].memory, a100});
    return Throughput(gpt, ClusterOf(devices, known), wishes);
  };
  EXPECT_GT(with(1, 0), 0);
  EXPECT_GT(with(4, 0), with(2, 0));
  EXPECT_GE(with(4, 4), with(4, 0));
  const ModelSummary large = *SummaryOfPreset("llama-405b", {});
  EXPECT_EQ(Throughput(large, ClusterOf({{"H100-80G", known.types[0].memory, 1}}, known), wishes),
            0);
}

}  // namespace
}  // namespace paceline::plan

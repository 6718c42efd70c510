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

}  // namespace
}  // namespace paceline::plan

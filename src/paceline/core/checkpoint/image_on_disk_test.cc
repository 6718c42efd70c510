#include "paceline/core/checkpoint/image_on_disk.h"

#include <string>

#include "gtest/gtest.h"
#include "paceline/core/checkpoint/restore.h"

namespace paceline::core {
namespace {

constexpr SavedStep kSaved{1, 5};

CheckpointReport ReportOf(const std::string& node) {
  CheckpointReport report;
  report.place = node;
  report.address = node + ":1";
  report.domain = node;
  return report;
}

MemoryImage ImageOf(uint32_t rank, const std::string& place) {
  return {.rank = Rank(rank),
          .place = place,
          .saved = kSaved,
          .world_size = 2,
          .file_bytes = 1,
          .file_root = 10 + rank};
}

World WorldOf(uint32_t first, uint32_t second) {
  return {.generation = Generation(2),
          .seats = {{NodeId(first), 0, 1}, {NodeId(second), 1, 1}},
          .store = {}};
}

TEST(ImageOnDisk, ItsHostTakesItAndNobodyElse) {
  Memories memories;
  for (uint32_t node = 0; node < 3; ++node) {
    memories.reports[NodeId(node)] = ReportOf("n" + std::to_string(node));
  }
  memories.reports[NodeId(0)].images = {ImageOf(0, "n0")};
  memories.reports[NodeId(1)].images = {ImageOf(1, "n1.disk")};
  const auto plan = PlanFromMemory(WorldOf(0, 1), memories, kSaved);
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->fetches.empty() || plan->fetches.at(NodeId(1)).empty());
  EXPECT_EQ(plan->sources.at(NodeId(1)).front().images.front().place, "n1.disk");
  // Another host has the seat now.
  EXPECT_FALSE(PlanFromMemory(WorldOf(0, 2), memories, kSaved).has_value());
  // From an arena it could be fetched.
  memories.reports[NodeId(1)].images = {ImageOf(1, "n1")};
  EXPECT_TRUE(PlanFromMemory(WorldOf(0, 2), memories, kSaved).has_value());
}

// A node may have such a name itself.
TEST(ImageOnDisk, TheNameAloneDoesNotDecide) {
  EXPECT_FALSE(IsOnDisk(ReportOf("a.disk"), ImageOf(0, "a.disk")));
  EXPECT_TRUE(IsOnDisk(ReportOf("a.disk"), ImageOf(0, "a.disk.disk")));
}

}  // namespace
}  // namespace paceline::core

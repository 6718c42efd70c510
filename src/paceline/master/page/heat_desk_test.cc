#include "paceline/master/page/heat_desk.h"

#include <cstring>

#include "gtest/gtest.h"
#include "paceline/plan/json.h"

namespace paceline::master {
namespace {

constexpr Generation kHeatWorld{3};

Instant HeatAt(int64_t seconds) { return Instant() + Duration::Seconds(1'000'000 + seconds); }

// Two nodes of two ranks each; node 9 has no seat.
core::JobState StateOfTwo() {
  core::JobState state;
  World world{.generation = kHeatWorld};
  for (const uint32_t node : {1u, 2u}) {
    state.nodes[NodeId(node)] = {
        .id = NodeId(node), .status = core::NodeState::Status::kSeated, .seat = node - 1};
    world.seats.push_back({NodeId(node), (node - 1) * 2, 2});
  }
  state.world = world;
  return state;
}

std::vector<RankSample> HeatSamples(std::vector<std::pair<uint32_t, int64_t>> own_of_rank) {
  std::vector<RankSample> samples;
  for (const auto& [rank, own] : own_of_rank) {
    samples.push_back(
        {kHeatWorld,
         Rank(rank),
         {.steps = 8, .whole = Duration::Seconds(8), .own = Duration::Milliseconds(own)}});
  }
  return samples;
}

struct HeatRead {
  uint64_t version = 0;
  uint32_t flags = 0;
  uint32_t columns = 0;
  std::string rest;
};
HeatRead ReadHeat(const std::string& text) {
  HeatRead read;
  EXPECT_EQ(text.substr(0, 8), "PLHEAT1\n");
  EXPECT_GE(text.size(), 32u);
  std::memcpy(&read.version, text.data() + 8, 8);
  std::memcpy(&read.flags, text.data() + 20, 4);
  std::memcpy(&read.columns, text.data() + 28, 4);
  read.rest = text.substr(32);
  return read;
}

TEST(HeatDesk, GivesAReaderWhatHasChangedSinceItsVersion) {
  HeatDesk desk;
  const core::JobState state = StateOfTwo();
  EXPECT_EQ(ReadHeat(desk.Encode(HeatAt(0), 0)).columns, 0u);
  desk.Take(HeatAt(1), state, NodeId(1), HeatSamples({{0, 4000}, {1, 4400}, {2, 9000}}));
  desk.Take(HeatAt(1), state, NodeId(2), HeatSamples({{2, 4000}, {3, 4000}}));
  desk.Take(HeatAt(1), state, NodeId(9), HeatSamples({{0, 9000}}));
  const HeatRead first = ReadHeat(desk.Encode(HeatAt(10), 0));
  ASSERT_EQ(first.columns, 1u);
  // Number, world and count, then the ranks: the second one took a tenth longer.
  EXPECT_EQ(first.rest, std::string("\xa0\x86\x01\0\x03\0\0\0\x04\0\0\0\x65\x6f\x65\x65", 16));
  EXPECT_EQ(ReadHeat(desk.Encode(HeatAt(11), first.version)).columns, 0u);
  EXPECT_EQ(ReadHeat(desk.Encode(HeatAt(11), UINT64_MAX)).columns, 1u);  // of another master
}

TEST(HeatDesk, LearnsTheStagesFromThePlanOfTheWorld) {
  ParallelPlan plan{.model = "0123456789abcdef", .global_batch = 8, .data = 2};
  plan.schedule = "1f1b";
  plan.shares = {4, 4};
  plan.stages = {{0, 2, {0, 1}}, {2, 4, {2, 3}}};
  plan.predicted.memory = {1, 1};
  const std::string text = plan::PrintPlan(plan);
  ASSERT_TRUE(plan::ReadPlan(text).ok()) << plan::ReadPlan(text).failure().message;
  EXPECT_EQ(StagesOf(text, 4), (std::vector<uint32_t>{0, 0, 1, 1}));
  EXPECT_TRUE(StagesOf(text, 3).empty());
  EXPECT_TRUE(StagesOf("{}", 4).empty());
  HeatDesk desk;
  core::JobState state = StateOfTwo();
  desk.Take(HeatAt(1), state, NodeId(1), HeatSamples({{0, 4000}, {1, 4000}}));
  state.plan = core::ParallelPlanChosen{.generation = kHeatWorld, .plan = text};
  desk.Take(HeatAt(2), state, NodeId(2), HeatSamples({{2, 8000}, {3, 8000}}));
  const HeatRead read = ReadHeat(desk.Encode(HeatAt(10), 0));
  EXPECT_EQ(read.flags, 1u);
  EXPECT_EQ(read.rest.substr(12), "\x65\x65\x65\x65");
}

}  // namespace
}  // namespace paceline::master

// Selective recomputation and divided sequences: what they cost, and when there are such plans.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paceline/plan/axis/axis.h"
#include "paceline/plan/cost.h"
#include "paceline/plan/devices.h"
#include "paceline/plan/explain.h"
#include "paceline/plan/family/family.h"
#include "paceline/plan/json.h"
#include "paceline/plan/search.h"

namespace paceline::plan {
namespace {

// The bytes of Korthikanti et al. (2022): what sequence parallelism changes is memory.
TEST(Axes, DividedSequencesSaveMemoryAndSendAsMuch) {
  const ModelSummary gpt = *SummaryOfPreset("gpt-22b", {});
  const auto scene =
      MakeScene(gpt, *ClusterFromLine("A100-80G:8", {}), {.global_batch = 4, .only = {}});
  ASSERT_TRUE(scene.ok());
  const LayerRow& block = scene->rows[1];
  Shape whole = {.tensor = 8};
  Shape divided = {.tensor = 8, .sequence = 1};
  const auto& device = scene->cluster.types[0];
  const PassTime one = PassOf(*scene, block, device, whole);
  const PassTime other = PassOf(*scene, block, device, divided);
  EXPECT_DOUBLE_EQ(one.sums.fixed, other.sums.fixed);
  EXPECT_DOUBLE_EQ(one.sums.per_sample, other.sums.per_sample);
  // Their table 4: a forward and a backward pass take 19.6 ms without and 19.0 ms with it.
  const double ratio = other.SecondsFor(4) / one.SecondsFor(4);
  EXPECT_LT(ratio, 1);
  EXPECT_GT(ratio, 0.93);
  // What norms and residual sums save, 4 of 12 values of a token that are not divided by 8 already.
  const StageMemory before = MemoryOf(*scene, WholeModel(*scene, whole), whole);
  const StageMemory after = MemoryOf(*scene, WholeModel(*scene, divided), divided);
  EXPECT_DOUBLE_EQ(before.fixed, after.fixed);
  const double tokens = 48 * 2048.0 * 2;  // of all blocks, in bytes of a value
  EXPECT_NEAR((before.each_in_flight - after.each_in_flight) / (tokens * 4 * 6144 * 7 / 8), 1,
              1e-6);
  // The planner's own executor keeps the gathered inputs of two regions.
  const ModelSummary llama = *SummaryOfPreset("llama-8b", {});
  EXPECT_EQ(llama.rows[1].tensor->sequence->gathered, 2 * llama.rows[1].output);
}

TEST(Axes, TheLastStageHasACopyOfASharedWeight) {
  const ModelSummary gpt = *SummaryOfPreset("gpt-1.5b", {});
  const auto scene =
      MakeScene(gpt, *ClusterFromLine("A100-80G:4", {}), {.global_batch = 8, .only = {}});
  ASSERT_TRUE(scene.ok());
  const auto load_of = [&](const Shape& shape) {
    StageLoad load;
    load.Add(*scene, scene->rows.back(), shape);
    return load;
  };
  const Shape whole = {};
  const Shape cut = {.pipeline = 2};
  EXPECT_EQ(load_of(whole).parameters, 0);
  const double copy = 50257 * 1600;
  EXPECT_DOUBLE_EQ(load_of(cut).parameters, copy);
  // Weight, gradient and two moments in fp32, and autocast's copy.
  EXPECT_DOUBLE_EQ(MemoryOf(*scene, load_of(cut), cut).fixed, copy * (4 + 4 + 8 + 2));
  EXPECT_EQ(ExchangeSeconds(*scene, load_of(whole), whole, 1), 0);
  const double sum = ExchangeSeconds(*scene, load_of(cut), cut, 1);
  EXPECT_NEAR(sum, copy * 4 / scene->cluster.inner.bandwidth, 0.1 * sum);
}

TEST(Axes, SequencesAreDividedOnlyAmongRanksThatShareLayers) {
  const ModelSummary llama = *SummaryOfPreset("llama-8b", {.sequence = 8190});
  const Cluster cluster = *ClusterFromLine("H100-80G:8", {});
  PlanWishes wishes = {.global_batch = 8, .only = {}};
  wishes.OnlyOf(AxisId::kSequence) = {1};
  wishes.OnlyOf(AxisId::kTensor) = {1};
  const auto alone = std::get<NoPlan>(ChoosePlan(llama, cluster, wishes));
  EXPECT_NE(alone.why.find("no ranks share layers"), std::string::npos) << alone.why;
  wishes.OnlyOf(AxisId::kTensor) = {4};
  const auto odd = std::get<NoPlan>(ChoosePlan(llama, cluster, wishes));
  EXPECT_NE(odd.why.find("4 does not divide the 8190 tokens"), std::string::npos) << odd.why;
  wishes.OnlyOf(AxisId::kTensor) = {2};
  const auto plan = std::get<ParallelPlan>(ChoosePlan(llama, cluster, wishes));
  EXPECT_TRUE(plan.sequence);
  EXPECT_NE(WordsOf(plan).find("tensor 2, divided sequences"), std::string::npos);
  EXPECT_TRUE(CheckPlan(plan, llama, cluster).ok());
  ModelSummary other = llama;
  other.sequence_divides = 8191;
  ParallelPlan moved = plan;
  moved.model = DigestOf(other);
  EXPECT_FALSE(CheckPlan(moved, other, cluster).ok());
}

// Llama 3's block with hidden size h = 4096: of the products, 2.5 h are queries, keys and values,
// 1 h attention, 7 h the two gates, 2 h the outputs, and 1 h the block's input.
TEST(Axes, SelectiveRecomputationIsBetweenTheOthers) {
  const ModelSummary llama = *SummaryOfPreset("llama-8b", {});
  const auto scene =
      MakeScene(llama, *ClusterFromLine("H100-80G:8", {}), {.global_batch = 8, .only = {}});
  ASSERT_TRUE(scene.ok());
  const LayerRow& block = scene->rows[1];
  std::vector<double> seconds;
  std::vector<double> bytes;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    const Shape shape = {.recompute = static_cast<uint32_t>(recompute)};
    seconds.push_back(PassOf(*scene, block, scene->cluster.types[0], shape).SecondsFor(1));
    StageLoad load;
    load.Add(*scene, block, shape);
    bytes.push_back(load.kept);
  }
  EXPECT_LT(seconds[0], seconds[1]);
  EXPECT_LT(seconds[1], seconds[0] + (seconds[2] - seconds[0]) / 3);
  EXPECT_GT(bytes[0], bytes[1]);
  EXPECT_GT(bytes[1], bytes[2]);
  EXPECT_NEAR(bytes[1] / (8192.0 * 2 * 4096), 2.5 + 7 + 2 + 1, 0.01);
  // A model that does not say what is kept has no such plan.
  ModelSummary other = llama;
  for (LayerRow& row : other.rows) row.selective.reset();
  PlanWishes wishes = {.global_batch = 8, .only = {}};
  wishes.OnlyOf(AxisId::kRecompute) = {static_cast<uint32_t>(Recompute::kSelective)};
  const auto none = std::get<NoPlan>(ChoosePlan(other, scene->cluster, wishes));
  EXPECT_NE(none.why.find("what selective recomputation keeps"), std::string::npos) << none.why;
  auto plan = std::get<ParallelPlan>(ChoosePlan(llama, scene->cluster, wishes));
  EXPECT_TRUE(CheckPlan(plan, llama, scene->cluster).ok());
  plan.model = DigestOf(other);
  EXPECT_FALSE(CheckPlan(plan, other, scene->cluster).ok());
}

TEST(Axes, BackwardPassesInTwoPartsWaitLess) {
  const ModelSummary gpt = *SummaryOfPreset("gpt-22b", {});
  const Cluster cluster = *ClusterFromLine("A100-80G:8", {});
  PlanWishes wishes = {.global_batch = 64, .only = {}};
  wishes.OnlyOf(AxisId::kPipeline) = {8};
  wishes.OnlyOf(AxisId::kMicroBatches) = {64};
  wishes.OnlyOf(AxisId::kRecompute) = {0};
  const auto plain = std::get<ParallelPlan>(ChoosePlan(gpt, cluster, wishes));
  EXPECT_NE(plain.schedule, "zero-bubble") << "it is only looked at if asked for";
  wishes.OnlyOf(AxisId::kSchedule) = {*NamedValue(AxisId::kSchedule, "zero-bubble")};
  const auto parts = std::get<ParallelPlan>(ChoosePlan(gpt, cluster, wishes));
  EXPECT_EQ(parts.schedule, "zero-bubble");
  EXPECT_TRUE(CheckPlan(parts, gpt, cluster).ok());
  EXPECT_LT(parts.predicted.bubble, 0.8 * plain.predicted.bubble);
  EXPECT_LT(parts.predicted.step, plain.predicted.step);
  ParallelPlan other = parts;
  other.recompute = Recompute::kFull;
  EXPECT_FALSE(CheckPlan(other, gpt, cluster).ok());
  wishes.OnlyOf(AxisId::kRecompute) = {1};
  const auto none = std::get<NoPlan>(ChoosePlan(gpt, cluster, wishes));
  EXPECT_NE(none.why.find("would compute twice again"), std::string::npos) << none.why;
  wishes.OnlyOf(AxisId::kRecompute) = {0};
  const Cluster mixed = *ClusterFromLine("A100-80G:8,H100-80G:8", {});
  const auto unequal = std::get<NoPlan>(ChoosePlan(gpt, mixed, wishes));
  EXPECT_NE(unequal.why.find("devices of one type"), std::string::npos) << unequal.why;
}

TEST(Axes, RecomputationHasNames) {
  const auto wishes = ReadWishes(
      R"({"global_batch": 8, "recompute": ["selective", "none", "full", true, false, 2]})");
  ASSERT_TRUE(wishes.ok()) << wishes.failure().message;
  EXPECT_EQ(wishes->OnlyOf(AxisId::kRecompute), (std::vector<uint32_t>{2, 0, 1, 1, 0, 2}));
  EXPECT_FALSE(ReadWishes(R"({"global_batch": 8, "recompute": ["1f1b"]})").ok());
  EXPECT_FALSE(ReadWishes(R"({"global_batch": 8, "schedule": ["full"]})").ok());
  EXPECT_EQ(ValueText(AxisId::kRecompute, 2), "selective");
  EXPECT_EQ(ValueText(AxisId::kRecompute, 3), "3");
}

// Plans of checkpoints that older versions wrote have true and false.
TEST(Axes, PlansOfOlderVersionsAreRead) {
  ParallelPlan plan = {
      .tensor = 2, .sequence = true, .recompute = Recompute::kFull, .stages = {{0, 1, {0, 1}}}};
  std::string text = PrintPlan(plan);
  const auto again = ReadPlan(text);
  ASSERT_TRUE(again.ok()) << again.failure().message;
  EXPECT_TRUE(again->sequence);
  const std::string name = R"("recompute":"full")";
  const std::string older = text.replace(text.find(name), name.size(), R"("recompute":true)");
  const auto known = ReadPlan(older);
  ASSERT_TRUE(known.ok()) << known.failure().message;
  EXPECT_EQ(known->recompute, Recompute::kFull);
  EXPECT_EQ(DigestOf(*known), DigestOf(plan));
  plan.sequence = false;
  EXPECT_NE(DigestOf(*known), DigestOf(plan));
  EXPECT_EQ(PrintPlan(plan).find("sequence"), std::string::npos);
  const std::string odd = R"("recompute":"half")";
  EXPECT_FALSE(ReadPlan(text.replace(text.find(R"("recompute":true)"), 16, odd)).ok());
}

}  // namespace
}  // namespace paceline::plan

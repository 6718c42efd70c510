// Profiles of frameworks: what they divide, keep and hide.

#include "paceline/plan/execution.h"

#include <gtest/gtest.h>

#include "paceline/plan/cost.h"
#include "paceline/plan/devices.h"
#include "paceline/plan/family/family.h"
#include "paceline/plan/json.h"
#include "paceline/plan/search.h"

namespace paceline::plan {
namespace {

// Megatron's plan of GPT 1T: 64 stages of two layers, the embedding with the first two.
TEST(Execution, DividedWordsLeaveAStageItsLayers) {
  constexpr const char* kGpt =
      R"({"model_type": "gpt2", "n_layer": 128, "n_embd": 25600, "n_head": 160,
          "n_positions": 2048, "vocab_size": 51200, "tie_word_embeddings": false})";
  const auto steps = [&](const Execution& execution) {
    const ModelSummary model = *SummaryOfConfig(kGpt, {.execution = &execution});
    PlanWishes wishes = {.global_batch = 512, .only = {}, .execution = &execution};
    wishes.OnlyOf(AxisId::kPipeline) = {64};
    wishes.OnlyOf(AxisId::kTensor) = {8};
    wishes.OnlyOf(AxisId::kMicroBatches) = {512};
    wishes.OnlyOf(AxisId::kRecompute) = {1};
    const Cluster cluster = *ClusterFromLine("A100-80G:512", {.execution = &execution});
    return std::get<ParallelPlan>(ChoosePlan(model, cluster, wishes));
  };
  const ParallelPlan own = steps(*FindExecution("megatron"));
  EXPECT_EQ(own.profile, "megatron");
  EXPECT_EQ(own.stages.front().end, 3u) << "the embedding and two layers";
  for (const PlanStage& stage : own.stages) EXPECT_LE(stage.end - stage.begin, 3u);
  const ParallelPlan ours = steps(OurExecution());
  EXPECT_EQ(ours.profile, "");
  EXPECT_GT(ours.predicted.step, own.predicted.step);
  EXPECT_LT(own.predicted.bubble, 0.2 * own.predicted.step);
  const auto again = ReadPlan(PrintPlan(own));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->profile, "megatron");
  EXPECT_EQ(DigestOf(*again), DigestOf(own));
}

// What a rank keeps of a layer, in bytes a token and hidden value: Korthikanti et al. 2022, table
// 2, without the masks of dropout.
TEST(Execution, MegatronKeepsWhatItsPaperSays) {
  const Execution& megatron = *FindExecution("megatron");
  const ModelSummary gpt = *SummaryOfPreset("gpt-22b", {.execution = &megatron});
  PlanWishes wishes = {.global_batch = 8, .only = {}, .execution = &megatron};
  const auto scene = MakeScene(gpt, *ClusterFromLine("A100-80G:8", {}), wishes);
  ASSERT_TRUE(scene.ok());
  const double unit = 2048.0 * 6144;
  const auto kept = [&](uint32_t sequence, Recompute recompute) {
    StageLoad load;
    load.Add(*scene, scene->layers[1],
             {.tensor = 8, .sequence = sequence, .recompute = static_cast<uint32_t>(recompute)});
    return load.kept / unit;
  };
  const double scores = 5.0 * 64 * 2048 / 6144;  // 5as/h
  EXPECT_NEAR(kept(0, Recompute::kNone), 8 + 24.0 / 8 + scores / 8, 0.01);
  EXPECT_NEAR(kept(1, Recompute::kNone), 32.0 / 8 + scores / 8, 0.01);
  EXPECT_NEAR(kept(1, Recompute::kSelective), 32.0 / 8, 0.01);
  EXPECT_NEAR(kept(0, Recompute::kFull), 2, 0.01);
}

// Sharded state of Megatron is the optimizer's alone, with a pipeline or without.
TEST(Execution, WhatIsShardedDependsOnTheProfile) {
  const auto fixed = [](const char* name) {
    const Execution& execution = *FindExecution(name);
    const ModelSummary gpt = *SummaryOfPreset("gpt-22b", {.execution = &execution});
    PlanWishes wishes = {.global_batch = 64, .only = {}, .execution = &execution};
    const auto scene = MakeScene(gpt, *ClusterFromLine("A100-80G:64", {}), wishes);
    const Shape shape = {.tensor = 8, .data = 8, .shard = 1};
    const StageLoad load = WholeModel(*scene, shape);
    return MemoryOf(*scene, load, shape).fixed / load.parameters;
  };
  EXPECT_NEAR(fixed("megatron"), 2 + 4 + 12.0 / 8, 1e-6);
  EXPECT_NEAR(fixed("llama3"), 2 + 4.0 / 8 + 12.0 / 8, 1e-6);
  EXPECT_LT(fixed("paceline"), 2 + 4);
}

TEST(Execution, HiddenSumsAndAllLinksAreFaster) {
  Execution plain = *FindExecution("megatron-core");
  plain.hides_sums = false;
  const auto seconds = [](const Execution& execution) {
    const ModelSummary gpt = *SummaryOfPreset("gpt-22b", {.execution = &execution});
    PlanWishes wishes = {.global_batch = 64, .only = {}, .execution = &execution};
    wishes.OnlyOf(AxisId::kTensor) = {4};
    wishes.OnlyOf(AxisId::kPipeline) = {1};
    const Cluster cluster = *ClusterFromLine("H100-80G:64", {.execution = &execution});
    return std::get<ParallelPlan>(ChoosePlan(gpt, cluster, wishes)).predicted.step;
  };
  Execution one_link = plain;
  one_link.uses_all_links = false;
  EXPECT_LT(seconds(*FindExecution("megatron-core")), seconds(plain));
  EXPECT_LT(seconds(plain), seconds(one_link));
  EXPECT_EQ(FindExecution("no such profile"), nullptr);
}

}  // namespace
}  // namespace paceline::plan

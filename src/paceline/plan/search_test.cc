#include "paceline/plan/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "paceline/plan/devices.h"
#include "paceline/plan/explain.h"
#include "paceline/plan/family/family.h"
#include "paceline/plan/json.h"
#include "paceline/plan/testing/instances.h"
#include "paceline/plan/utilization.h"
#include "paceline/plan/whale.h"

namespace paceline::plan {
namespace {

// The search against all cuts of all shapes. `simulated`: how many plans are more than 1 % slower
// than the best one by simulation.
struct Regret {
  int fitting = 0;
  int simulated = 0;
};

Regret CompareWithBruteForce(uint64_t seed, int instances, const InstanceSize& size) {
  Regret regret;
  Prng prng(seed);
  for (int i = 0; i < instances; ++i) {
    Instance instance = DrawInstance(prng, size);
    // Brute force needs the closed form of a step, which interleaved stages do not have. The test
    // InterleavedCutsAreNearTheBest compares those by simulation.
    instance.wishes.OnlyOf(AxisId::kVirtualStages) = {1};
    const auto scene = MakeScene(instance.model, instance.cluster, instance.wishes);
    if (!scene.ok()) {
      ADD_FAILURE() << scene.failure().message;
      continue;
    }
    const double least = BruteForce(*scene, instance.wishes);
    SearchReport report;
    const auto answer = ChoosePlan(instance.model, instance.cluster, instance.wishes, {}, &report);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", instance " << i);
    if (std::isinf(least)) {
      EXPECT_TRUE(std::holds_alternative<NoPlan>(answer));
      continue;
    }
    const auto* plan = std::get_if<ParallelPlan>(&answer);
    if (plan == nullptr) {
      ADD_FAILURE() << std::get<NoPlan>(answer).why;
      continue;
    }
    ++regret.fitting;
    EXPECT_NEAR(report.closed / least, 1, 1e-9);
    EXPECT_LE(plan->bound, least * (1 + 1e-9));
    const auto sound = CheckPlan(*plan, instance.model, instance.cluster);
    EXPECT_TRUE(sound.ok()) << sound.failure().message;
    EXPECT_LE(plan->predicted.step, WhaleSeconds(*scene) * (1 + 1e-9));
    const double simulated = BruteForceSimulated(*scene, instance.wishes);
    if (plan->predicted.step > simulated * 1.01) ++regret.simulated;
  }
  return regret;
}

TEST(Search, FindsWhatBruteForceFinds) {
  const Regret regret = CompareWithBruteForce(7, 150, {.types = 3, .groups = 5, .layers = 7});
  EXPECT_GT(regret.fitting, 75);
  EXPECT_LE(regret.simulated, regret.fitting / 100 + 1);
}

// Each shape's own cut against all cuts of it, for devices of one type.
struct InterleavedRegret {
  int fitting = 0;
  int far = 0;  // more than 1 % slower than the best
};

InterleavedRegret CompareInterleaved(bool has_equal_layers) {
  Prng prng(11);
  InterleavedRegret regret;
  for (int i = 0; i < 200; ++i) {
    Instance instance = DrawInstance(prng, {.types = 1, .groups = 4, .layers = 9});
    for (LayerRow& row : instance.model.rows) {
      if (has_equal_layers) row = instance.model.rows[0];
      if (has_equal_layers) row.cut.clear();
    }
    PlanWishes& wishes = instance.wishes;
    wishes.OnlyOf(AxisId::kVirtualStages) = {2, 3};
    wishes.OnlyOf(AxisId::kShard) = {0};
    const auto scene = MakeScene(instance.model, instance.cluster, wishes);
    if (!scene.ok()) {
      ADD_FAILURE() << scene.failure().message;
      continue;
    }
    const double least = BruteForceSimulated(*scene, wishes);
    const auto answer = ChoosePlan(instance.model, instance.cluster, wishes);
    const auto* plan = std::get_if<ParallelPlan>(&answer);
    if (std::isinf(least)) {
      EXPECT_EQ(plan, nullptr);
      continue;
    }
    ++regret.fitting;
    if (plan == nullptr || plan->predicted.step > least * 1.01) ++regret.far;
    if (plan == nullptr) continue;
    EXPECT_GE(plan->predicted.step, least * (1 - 1e-9));
    const auto sound = CheckPlan(*plan, instance.model, instance.cluster);
    EXPECT_TRUE(sound.ok()) << sound.failure().message;
    const auto again = ReadPlan(PrintPlan(*plan));
    EXPECT_TRUE(again.ok() && DigestOf(*again) == DigestOf(*plan));
  }
  return regret;
}

TEST(Search, InterleavedCutsOfEqualLayersAreMostlyTheBest) {
  const InterleavedRegret regret = CompareInterleaved(true);
  EXPECT_GT(regret.fitting, 50);
  EXPECT_LE(regret.far, regret.fitting / 10) << "of " << regret.fitting;
}

TEST(Search, InterleavedCutsAreNearTheBest) {
  const InterleavedRegret regret = CompareInterleaved(false);
  EXPECT_GT(regret.fitting, 50);
  EXPECT_LE(regret.far, regret.fitting / 4) << "of " << regret.fitting;
}

TEST(Search, TheLargestModelsAreDividedInThreeWays) {
  const ModelSummary llama = *SummaryOfPreset("llama-405b", {});
  const Cluster cluster = *ClusterFromLine("H100-80G:2048", {});
  // If sequences are divided, replicas without a pipeline fit, too.
  PlanWishes wishes = {.global_batch = 1024, .only = {}};
  wishes.OnlyOf(AxisId::kSequence) = {0};
  const auto answer = ChoosePlan(llama, cluster, wishes);
  const auto& plan = std::get<ParallelPlan>(answer);
  EXPECT_GT(plan.data, 1);
  EXPECT_GT(plan.tensor, 1);
  EXPECT_GT(plan.stages.size(), 1);
  EXPECT_TRUE(plan.shard);
  EXPECT_TRUE(CheckPlan(plan, llama, cluster).ok());
  // Replicas that divide all of their state alone pay for it in communication.
  const std::string why = WhyNot(llama, cluster, wishes, plan, AxisId::kPipeline, 1);
  EXPECT_NE(why.find("% longer"), std::string::npos) << why;
}

// The same shape takes as long if its ranks divide sequences, and less memory. What makes the best
// plan faster is that more samples then fit into a pass of a replica without a pipeline, which has
// to gather its parameters in each pass.
TEST(Search, DividedSequencesMakeRoomAndNotSpeed) {
  const ModelSummary llama = *SummaryOfPreset("llama-405b", {});
  const Cluster cluster = *ClusterFromLine("H100-80G:2048", {});
  PlanWishes wishes = {.global_batch = 1024, .only = {}};
  wishes.OnlyOf(AxisId::kPipeline) = {16};
  wishes.OnlyOf(AxisId::kTensor) = {8};
  wishes.OnlyOf(AxisId::kMicroBatches) = {64};
  wishes.OnlyOf(AxisId::kRecompute) = {static_cast<uint32_t>(Recompute::kFull)};
  wishes.OnlyOf(AxisId::kSequence) = {0};
  const auto whole = std::get<ParallelPlan>(ChoosePlan(llama, cluster, wishes)).predicted;
  wishes.OnlyOf(AxisId::kSequence) = {1};
  const auto divided = std::get<ParallelPlan>(ChoosePlan(llama, cluster, wishes)).predicted;
  EXPECT_NEAR(divided.step / whole.step, 1, 0.02);
  EXPECT_NEAR(divided.communication / whole.communication, 1, 0.05);
  EXPECT_LT(divided.memory[0], 0.7 * static_cast<double>(whole.memory[0]));
  const auto best = std::get<ParallelPlan>(ChoosePlan(llama, cluster, {.global_batch = 1024}));
  EXPECT_TRUE(best.sequence);
  PlanWishes alone = {.global_batch = 1024, .only = {}};
  alone.OnlyOf(AxisId::kPipeline) = {1};
  alone.OnlyOf(AxisId::kTensor) = {best.tensor};
  alone.OnlyOf(AxisId::kSequence) = {0};
  const auto other = std::get<ParallelPlan>(ChoosePlan(llama, cluster, alone));
  EXPECT_LE(other.shares[0] / other.micro_batches, best.shares[0] / best.micro_batches / 2);
  EXPECT_GT(other.predicted.step, 1.2 * best.predicted.step);
}

TEST(Search, ThePlanItselfIsNoAnswerToWhyNot) {
  const ModelSummary gpt = *SummaryOfPreset("gpt-124m", {});
  const Cluster cluster = *ClusterFromLine("H100-80G:8", {});
  const PlanWishes wishes = {.global_batch = 64, .only = {}};
  const auto plan = std::get<ParallelPlan>(ChoosePlan(gpt, cluster, wishes));
  ASSERT_EQ(plan.stages.size(), 1);
  EXPECT_EQ(WhyNot(gpt, cluster, wishes, plan, AxisId::kPipeline, 1),
            "pipeline 1: the plan has this value already: " + WordsOf(plan));
}

// GPT-3's numbers, by hand: 6 operations a parameter and token, and 12 × layers × hidden × tokens
// of attention.
TEST(Search, APlanSaysHowWellDevicesAreUsed) {
  const ModelSummary gpt = *SummaryOfPreset("gpt-175b", {});
  const Cluster cluster = *ClusterFromLine("A100-80G:1024", {});
  const auto plan =
      std::get<ParallelPlan>(ChoosePlan(gpt, cluster, {.global_batch = 1536, .only = {}}));
  const double tokens = 1536.0 * 2048;
  const double flops = tokens * (6 * 174.6e9 + 12.0 * 96 * 12288 * 2048);
  const PlanCost& cost = plan.predicted;
  ASSERT_TRUE(cost.device_flops.has_value() && cost.utilization.has_value());
  EXPECT_NEAR(*cost.device_flops / (flops / 1024 / cost.step), 1, 0.01);
  EXPECT_NEAR(*cost.utilization, *cost.device_flops / 312e12, 1e-9);
  EXPECT_LT(*cost.utilization, kReachedFlops);
  EXPECT_NE(UtilizationText(cost).find(" TFLOP/s a device, "), std::string::npos);
  Cluster measured = cluster;
  measured.types[0].name = "gpu";
  const auto other =
      std::get<ParallelPlan>(ChoosePlan(gpt, measured, {.global_batch = 1536, .only = {}}));
  EXPECT_TRUE(other.predicted.device_flops.has_value());
  EXPECT_FALSE(other.predicted.utilization.has_value());
}

TEST(Devices, ANameWithoutItsMemoryIsTheLargestVariant) {
  EXPECT_EQ(FindDevice("H100")->name, "H100-80G");
  EXPECT_EQ(FindDevice("a100")->name, "A100-80G");
  EXPECT_EQ(FindDevice("a100-40gb")->name, "A100-40G");
  EXPECT_EQ(FindDevice("A10")->name, "A10-24G");
  for (const char* const word : {"", "H", "H10", "A100-", "X9000"}) {
    EXPECT_EQ(FindDevice(word), nullptr) << word;
  }
  const Cluster cluster = *ClusterFromLine("A100:4,A100-80G:4,H100:8", {});
  ASSERT_EQ(cluster.types.size(), 2);
  EXPECT_NE(cluster.types[0].source.find("\"A100\" means the one with the most memory, and not "
                                         "A100-40G"),
            std::string::npos)
      << cluster.types[0].source;
  EXPECT_EQ(cluster.types[1].source.find("means"), std::string::npos);
}

TEST(Search, DegreesDivideWhatIsDivided) {
  ModelSummary gpt = *SummaryOfPreset("gpt-1.5b", {});
  const Cluster cluster = *ClusterFromLine("H100-80G:8", {});
  PlanWishes wishes = {.global_batch = 64, .only = {}};
  wishes.OnlyOf(AxisId::kTensor) = {2};
  wishes.because[static_cast<size_t>(AxisId::kTensor)] = "split(2) of train.py:12 asks for it";
  const auto answer = ChoosePlan(gpt, cluster, wishes);
  ASSERT_TRUE(std::holds_alternative<NoPlan>(answer));
  const std::string& why = std::get<NoPlan>(answer).why;
  EXPECT_NE(why.find("2 does not divide 25"), std::string::npos) << why;
  EXPECT_NE(why.find("and split(2) of train.py:12 asks for it"), std::string::npos) << why;
  wishes.OnlyOf(AxisId::kTensor) = {5};
  EXPECT_EQ(std::get<ParallelPlan>(ChoosePlan(gpt, cluster, wishes)).tensor, 5);
}

TEST(Search, SaysWhoRulesPlansOut) {
  ModelSummary bert = *SummaryOfPreset("bert-base", {});
  bert.no_pipeline = "its forward pass cannot be cut";
  const Cluster cluster = *ClusterFromLine("H100-80G:8", {});
  PlanWishes wishes = {.global_batch = 64, .only = {}};
  wishes.OnlyOf(AxisId::kTensor) = {2};
  wishes.because[static_cast<size_t>(AxisId::kTensor)] = "split(2) of train.py:12 asks for it";
  const auto plan = std::get<ParallelPlan>(ChoosePlan(bert, cluster, wishes));
  const auto has = [&](std::string_view text, std::string_view because) {
    return std::any_of(plan.rejected.begin(), plan.rejected.end(), [&](const RejectedPlan& one) {
      return one.plan == text && one.because.find(because) != std::string::npos;
    });
  };
  EXPECT_TRUE(has("tensor other than 2", "split(2) of train.py:12"));
  EXPECT_TRUE(has("pipeline", "cannot be cut"));
  EXPECT_EQ(WhyNot(bert, cluster, wishes, plan, AxisId::kTensor, 4),
            "tensor 4: split(2) of train.py:12 asks for it");
}

TEST(Search, InterleavedStagesAreLookedAtWhereTheWishesSaySo) {
  const ModelSummary llama = *SummaryOfPreset("llama-8b", {});
  const Cluster cluster = *ClusterFromLine("H100-80G:64", {});
  PlanWishes wishes = {.global_batch = 1024, .only = {}};
  wishes.OnlyOf(AxisId::kPipeline) = {2};
  wishes.OnlyOf(AxisId::kTensor) = {1};
  const auto has_chunks = [](const ParallelPlan& plan) { return !plan.stages[0].later.empty(); };
  const auto plain = std::get<ParallelPlan>(ChoosePlan(llama, cluster, wishes));
  EXPECT_FALSE(has_chunks(plain));
  wishes.looks_at_chunks = true;
  const auto chunks = std::get<ParallelPlan>(ChoosePlan(llama, cluster, wishes));
  EXPECT_TRUE(has_chunks(chunks));
  EXPECT_LT(chunks.predicted.step, plain.predicted.step);
  EXPECT_TRUE(CheckPlan(chunks, llama, cluster).ok());
  wishes.OnlyOf(AxisId::kVirtualStages) = {1};
  EXPECT_EQ(PrintPlan(std::get<ParallelPlan>(ChoosePlan(llama, cluster, wishes))).find("later"),
            std::string::npos);
}

// A cluster of equal devices with measured numbers, in one node.
Cluster EqualDevices(uint32_t count, double bandwidth) {
  const DeviceType type = {.name = "gpu",
                           .flops = 1e14,
                           .bandwidth = 1e12,
                           .launch = 1e-5,
                           .memory = uint64_t{640} << 30,
                           .source = "test"};
  return {.types = {type},
          .runs = {{0, count}},
          .node = count,
          .inner = {1e-5, bandwidth},
          .outer = {1e-5, bandwidth}};
}

ParallelPlan PlanWith(const ModelSummary& model, const Cluster& cluster, const PlanWishes& wishes) {
  return std::get<ParallelPlan>(ChoosePlan(model, cluster, wishes));
}

TEST(Search, SumsOfTensorParallelRanksAreCommunication) {
  const ModelSummary llama = *SummaryOfPreset("llama-8b", {});
  for (const auto& [stages, sequence] : {std::pair(1u, 0u), {1, 1}, {2, 0}, {2, 1}}) {
    PlanWishes wishes = {.global_batch = 8, .only = {}};
    wishes.OnlyOf(AxisId::kPipeline) = {stages};
    wishes.OnlyOf(AxisId::kTensor) = {8 / stages};
    wishes.OnlyOf(AxisId::kSequence) = {sequence};
    wishes.OnlyOf(AxisId::kData) = {1};
    wishes.OnlyOf(AxisId::kMicroBatches) = {1};
    wishes.OnlyOf(AxisId::kRecompute) = {0};
    const PlanCost fast = PlanWith(llama, EqualDevices(8, 1e12), wishes).predicted;
    const PlanCost slow = PlanWith(llama, EqualDevices(8, 1e9), wishes).predicted;
    EXPECT_GT(slow.communication, 5 * slow.compute) << stages;
    EXPECT_NEAR(slow.compute / fast.compute, 1, 1e-9) << stages;
    EXPECT_NEAR((slow.compute + slow.communication + slow.bubble) / slow.step, 1, 1e-9) << stages;
  }
  const ParallelPlan best = PlanWith(llama, EqualDevices(8, 1e9), {.global_batch = 8, .only = {}});
  const auto tensor =
      std::find_if(best.rejected.begin(), best.rejected.end(), [](const RejectedPlan& one) {
        return one.plan.starts_with("tensor") && one.because.ends_with(" is not hidden");
      });
  EXPECT_NE(tensor, best.rejected.end());
}

TEST(Search, NamesTheSmallestNumberOfDevices) {
  const ModelSummary llama = *SummaryOfPreset("llama-70b", {});
  const auto answer =
      ChoosePlan(llama, *ClusterFromLine("H100-80G:16", {}), {.global_batch = 1024, .only = {}});
  const auto& none = std::get<NoPlan>(answer);
  EXPECT_TRUE(none.fix.starts_with("20 devices instead of 16, or ")) << none.fix;
  // The memory that is asked for is that of the plan that the reason is about.
  const size_t needs = none.why.find("a rank needs ") + 13;
  const std::string memory = none.why.substr(needs, none.why.find(", and the") - needs);
  EXPECT_NE(none.fix.find(", or " + memory + " of memory"), std::string::npos) << none.why << "\n"
                                                                               << none.fix;
}

TEST(Search, EqualCutsDivideTheMemoryEvenly) {
  ModelSummary model = *SummaryOfPreset("gpt-22b", {});
  PlanWishes wishes = {.global_batch = 256, .only = {}};
  wishes.OnlyOf(AxisId::kPipeline) = {2};
  wishes.OnlyOf(AxisId::kMicroBatches) = {1};
  const ParallelPlan plan = PlanWith(model, EqualDevices(2, 1e11), wishes);
  const auto [least, most] =
      std::minmax_element(plan.predicted.memory.begin(), plan.predicted.memory.end());
  EXPECT_LT(*most, 2 * *least) << plan.because;
  EXPECT_EQ(plan.because.find("end together"), std::string::npos) << plan.because;
}

TEST(Search, SaysWhatAWishCosts) {
  const ModelSummary gpt = *SummaryOfPreset("gpt-22b", {});
  const Cluster cluster = EqualDevices(2, 1e11);
  PlanWishes wishes = {.global_batch = 16, .only = {}};
  const ParallelPlan free = PlanWith(gpt, cluster, wishes);
  EXPECT_EQ(free.because.find("wish"), std::string::npos);
  wishes.OnlyOf(AxisId::kPipeline) = {2};
  const std::string because = PlanWith(gpt, cluster, wishes).because;
  EXPECT_NE(because.find("; without the wish for pipeline, data 2"), std::string::npos) << because;
  EXPECT_TRUE(because.ends_with(" % less")) << because;
  wishes.OnlyOf(AxisId::kPipeline) = {1, 2};
  EXPECT_EQ(PlanWith(gpt, cluster, wishes).because, free.because);
}

TEST(Search, SentencesCountWhatThereIs) {
  EXPECT_EQ(ParametersText(1472), "1472 parameters");
  EXPECT_EQ(ParametersText(1'830'000), "1.83 million parameters");
  const ModelSummary gpt = *SummaryOfPreset("gpt-124m", {});
  const Cluster cluster = *ClusterFromLine("H100-80G:3", {});
  PlanWishes wishes = {.global_batch = 64, .only = {}};
  wishes.OnlyOf(AxisId::kData) = {3};
  wishes.OnlyOf(AxisId::kShard) = {0};
  const ParallelPlan plan = PlanWith(gpt, cluster, wishes);
  EXPECT_NE(plan.because.find("take H100-80G 21 or 22 samples each"), std::string::npos)
      << plan.because;
  const std::string why = WhyNot(gpt, cluster, wishes, plan, AxisId::kTensor, 5);
  EXPECT_TRUE(why.starts_with("tensor 5: ")) << why;
  EXPECT_EQ(why.find("tensor 5: ", 1), std::string::npos) << why;
}

TEST(SearchLong, FindsWhatBruteForceFindsInLargerInstances) {
  const Regret regret = CompareWithBruteForce(2026, 200, {.types = 3, .groups = 6, .layers = 12});
  EXPECT_GT(regret.fitting, 100);
  EXPECT_LE(regret.simulated, regret.fitting / 100 + 1);
}

}  // namespace
}  // namespace paceline::plan

#include "paceline/plan/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "paceline/plan/devices.h"
#include "paceline/plan/family/family.h"
#include "paceline/plan/json.h"
#include "paceline/plan/testing/instances.h"
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
    const Instance instance = DrawInstance(prng, size);
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

TEST(Search, TheLargestModelsAreDividedInThreeWays) {
  const ModelSummary llama = *SummaryOfPreset("llama-405b", {});
  const Cluster cluster = *ClusterFromLine("H100-80G:2048", {});
  const auto answer = ChoosePlan(llama, cluster, {.global_batch = 1024, .only = {}});
  const auto& plan = std::get<ParallelPlan>(answer);
  EXPECT_GT(plan.data, 1);
  EXPECT_GT(plan.tensor, 1);
  EXPECT_GT(plan.stages.size(), 1);
  EXPECT_TRUE(plan.shard);
  EXPECT_TRUE(CheckPlan(plan, llama, cluster).ok());
  // Replicas that divide all of their state alone pay for it in communication.
  const std::string why =
      WhyNot(llama, cluster, {.global_batch = 1024, .only = {}}, plan, AxisId::kPipeline, 1);
  EXPECT_NE(why.find("% longer"), std::string::npos) << why;
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
  ModelSummary bert = *SummaryOfPreset("bert-base", {});  // its head shares a weight
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
  EXPECT_TRUE(has("pipeline", "shares its weight"));
  EXPECT_EQ(WhyNot(bert, cluster, wishes, plan, AxisId::kTensor, 4),
            "tensor 4: split(2) of train.py:12 asks for it");
}

TEST(SearchLong, FindsWhatBruteForceFindsInLargerInstances) {
  const Regret regret = CompareWithBruteForce(2026, 200, {.types = 3, .groups = 6, .layers = 12});
  EXPECT_GT(regret.fitting, 100);
  EXPECT_LE(regret.simulated, regret.fitting / 100 + 1);
}

}  // namespace
}  // namespace paceline::plan

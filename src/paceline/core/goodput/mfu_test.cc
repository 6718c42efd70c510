#include "paceline/core/goodput/mfu.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/goodput/ledger.h"
#include "paceline/plan/devices.h"
#include "paceline/plan/json.h"

namespace paceline::core {
namespace {

constexpr double kTera = 1e12;

// Two nodes of two slots each, with a model of 3 × 2 × 5 × 10 = 300 TFLOP a step.
class MfuTest : public testing::Test {
 protected:
  MfuTest() {
    JobCreated created;
    created.spec.nodes_max = 2;
    created.spec.nproc_per_node = 2;
    Fold(0, created);
    for (const uint32_t node : {1U, 2U}) Fold(1, NodeJoined{.node = NodeId(node), .slots = 2});
  }
  void Fold(int64_t second, Fact fact) {
    const Instant at = Instant() + Duration::Seconds(100 + second);
    ledger_.Fold({RecordSeq(++seq_), at, {}, std::move(fact)});
  }
  void Form(int64_t second) {
    WorldFormed formed;
    formed.world.generation = Generation(++generation_);
    for (const uint32_t node : {1U, 2U}) formed.world.seats.push_back({.node = NodeId(node)});
    Fold(second, std::move(formed));
  }
  void Describe(int64_t second, const std::string& device) {
    ModelSummary summary{.name = "m", .precision = "bf16"};
    summary.rows.push_back({.name = "layer.{}", .count = 2, .flops = 5 * kTera, .parameters = 8});
    Fold(
        second,
        ModelDescribed{
            .name = "m", .global_batch = 10, .summary = plan::PrintSummary(summary), .wishes = ""});
    Plan(second, device);
  }
  void Plan(int64_t second, const std::string& device) {
    Cluster cluster = *plan::ClusterFromLine("H100-80G:4", {.node = 2});
    cluster.types.front().name = device;
    Fold(second, ParallelPlanChosen{.generation = Generation(generation_),
                                    .words = "data 4",
                                    .cluster = plan::PrintCluster(cluster)});
  }
  void Tell(int64_t second, int64_t steps) {
    Fold(second, TimeAccounted{.generation = Generation(generation_), .ranks = 4, .steps = steps});
  }
  MfuReport Report(int64_t second) const {
    return ledger_.At(Instant() + Duration::Seconds(100 + second)).mfu;
  }

  GoodputLedger ledger_;
  uint64_t seq_ = 0;
  uint64_t generation_ = 0;
};

TEST_F(MfuTest, ArithmeticOfStepsOverWhatTheDevicesCouldDo) {
  Form(2);
  Describe(5, "NVIDIA H100 80GB HBM3");
  Fold(10, WorldRunning{.step = 1, .began_at = 0});
  Tell(62, 132);
  ASSERT_TRUE(Report(62).ratio.has_value());
  const double possible = 60.0 * 4 * 989;  // TFLOP of four ranks since the world was formed
  EXPECT_NEAR(*Report(62).ratio, 132 * 300 / possible, 1e-9);
  EXPECT_EQ(Report(62).unknown_because, "");
  // Until a record tells further steps, the value is that of the last one.
  EXPECT_EQ(Report(500).ratio, Report(62).ratio);
}

TEST_F(MfuTest, RepeatedStepsAndTheTimeOfARestartDoNotCount) {
  Form(2);
  Describe(5, "H100-80G");
  Fold(10, WorldRunning{.step = 1, .began_at = 0});
  Fold(62, WorldEnded{.generation = Generation(1), .step = 132, .step_count = 132, .reached = 132});
  Form(70);
  Plan(72, "H100-80G");
  Fold(80, WorldRunning{.step = 101, .began_at = 100});
  Tell(122, 82);
  ASSERT_TRUE(Report(122).ratio.has_value());
  EXPECT_NEAR(*Report(122).ratio, 182 * 300 / (120.0 * 4 * 989), 1e-9);
}

TEST_F(MfuTest, ItSaysWhyItIsNotKnown) {
  Form(2);
  Fold(10, WorldRunning{.step = 1, .began_at = 0});
  Tell(62, 132);
  EXPECT_FALSE(Report(62).ratio.has_value());
  EXPECT_EQ(Report(62).unknown_because, "no rank told a plan, which has the model's arithmetic");
  Describe(63, "AMD EPYC 9B14, 1.5 cores");
  EXPECT_FALSE(Report(63).ratio.has_value());
  EXPECT_NE(Report(63).unknown_because.find("\"AMD EPYC 9B14, 1.5 cores\""), std::string::npos);
  Tell(122, 200);
  // Devices that are known later do not make the steps before comparable.
  Plan(123, "H100-80G");
  Tell(182, 300);
  EXPECT_FALSE(Report(182).ratio.has_value());
  EXPECT_NE(Report(182).unknown_because.find("catalogue"), std::string::npos);
}

TEST_F(MfuTest, WithoutAStepItIsUnknown) {
  Form(2);
  Describe(5, "H100-80G");
  EXPECT_EQ(Report(60).unknown_because, "no step was told yet");
}

TEST_F(MfuTest, AModelThatCannotBeReadIsUnknown) {
  Form(2);
  Fold(5, ModelDescribed{.name = "m", .global_batch = 10, .summary = "{", .wishes = ""});
  Plan(5, "H100-80G");
  Tell(62, 10);
  EXPECT_EQ(Report(62).unknown_because, "the plan does not tell the model's arithmetic");
}

TEST(DeviceOfProgramTest, NamesOfDriversAreFoundInTheCatalogue) {
  const std::vector<std::pair<std::string, std::string>> known = {
      {"NVIDIA H100 80GB HBM3", "H100-80G"},  {"NVIDIA A100-SXM4-40GB", "A100-40G"},
      {"NVIDIA A100-SXM4-80GB", "A100-80G"},  {"Tesla V100-SXM2-16GB", "V100-16G"},
      {"NVIDIA H200", "H200-141G"},           {"Tesla T4", "T4-16G"},
      {"AMD Instinct MI300X", "MI300X-192G"},
  };
  for (const auto& [name, row] : known) {
    ASSERT_NE(plan::DeviceOfProgram(name), nullptr) << name;
    EXPECT_EQ(plan::DeviceOfProgram(name)->name, row) << name;
  }
  for (const char* name : {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA A10G", "",
                           "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "AMD EPYC 9B14, 1.5 cores"}) {
    EXPECT_EQ(plan::DeviceOfProgram(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace paceline::core

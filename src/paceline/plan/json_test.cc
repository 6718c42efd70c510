#include "paceline/plan/json.h"

#include <gtest/gtest.h>

#include <tuple>

#include "paceline/base/text.h"
#include "paceline/plan/devices.h"
#include "paceline/plan/family/family.h"
#include "paceline/plan/family/needs.h"
#include "paceline/plan/search.h"

namespace paceline::plan {
namespace {

ModelSummary Llama() { return *SummaryOfPreset("llama-8b", {}); }
Cluster Mixed() { return *ClusterFromLine("H100-80G:8,A100-80G:8", {}); }

ParallelPlan Chosen() {
  return std::get<ParallelPlan>(ChoosePlan(Llama(), Mixed(), {.global_batch = 64, .only = {}}));
}

TEST(PlanJson, WhatIsPrintedIsReadBack) {
  const std::string summary = PrintSummary(Llama());
  EXPECT_EQ(PrintSummary(*ReadSummary(summary)), summary);
  const std::string cluster = PrintCluster(Mixed());
  EXPECT_EQ(PrintCluster(*ReadCluster(cluster)), cluster);
  const std::string plan = PrintPlan(Chosen());
  EXPECT_EQ(PrintPlan(*ReadPlan(plan)), plan);
}

TEST(PlanJson, ADigestDependsOnWhatIsDoneAndNotOnPredictions) {
  ParallelPlan plan = Chosen();
  const std::string before = DigestOf(plan);
  EXPECT_EQ(before.size(), 16u);
  plan.predicted.step *= 2;
  plan.because = "another sentence";
  EXPECT_EQ(DigestOf(plan), before);
  plan.micro_batches += 1;
  EXPECT_NE(DigestOf(plan), before);
}

// Each replaces one piece of a good text; the sentence names the place.
struct Mistake {
  std::string from;
  std::string to;
  std::string names;
};

std::string Spoiled(std::string text, const Mistake& mistake) {
  const size_t at = text.find(mistake.from);
  EXPECT_NE(at, std::string::npos) << mistake.from;
  return text.replace(at, mistake.from.size(), mistake.to);
}

TEST(PlanJson, RefusesSummariesThatMakeNoSense) {
  const std::string good = PrintSummary(Llama());
  const Mistake mistakes[] = {
      {"paceline.model/1", "paceline.model/2", "schema"},
      {"\"bf16\"", "\"fp8\"", "precision"},
      {"\"count\":32", "\"count\":0", "layers[1].count"},
      {"\"count\":32", "\"count\":999999", "layers"},
      {"\"count\":32", "\"count\":-1", "layers[1].count"},
      {"layers.{}", "layers.0", "layers[1].name"},
      {"\"saved\":", "\"sawed\":", "layers[0].saved"},
      {"\"flops\":0.0", "\"flops\":1e999", "JSON"},
      {"\"flops\":0.0", "\"flops\":\"many\"", "layers[0].flops"},
      {"\"exchanges\":2", "\"exchanges\":2,\"more\":1", "layers[1].tensor.more"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto read = ReadSummary(Spoiled(good, mistake));
    ASSERT_FALSE(read.ok()) << mistake.to;
    EXPECT_NE(read.failure().message.find(mistake.names), std::string::npos)
        << read.failure().message;
  }
  EXPECT_FALSE(ReadSummary(std::string(1 << 20, '[')).ok());
  EXPECT_FALSE(ReadSummary(std::string(60 << 10, '[')).ok());
}

TEST(PlanJson, RefusesClustersThatMakeNoSense) {
  const std::string good = PrintCluster(Mixed());
  const Mistake mistakes[] = {
      {"\"type\":\"A100-80G\"", "\"type\":\"A100\"", "groups[1].type"},
      {"\"name\":\"A100-80G\"", "\"name\":\"H100-80G\"", "H100-80G twice"},
      {"\"count\":8", "\"count\":0", "groups[0].count"},
      {"\"node\":8", "\"node\":0", "node"},
      {"\"bandwidth\":", "\"bandwidth\":0,\"b\":", "types[0]"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto read = ReadCluster(Spoiled(good, mistake));
    ASSERT_FALSE(read.ok()) << mistake.to;
    EXPECT_NE(read.failure().message.find(mistake.names), std::string::npos)
        << read.failure().message;
  }
}

TEST(PlanJson, RefusesPlansThatDoNotFit) {
  const ParallelPlan good = Chosen();
  ASSERT_TRUE(CheckPlan(good, Llama(), Mixed()).ok());
  const auto is_refused = [&](auto spoil) {
    ParallelPlan plan = good;
    spoil(plan);
    return !CheckPlan(plan, Llama(), Mixed()).ok();
  };
  EXPECT_TRUE(is_refused([](auto& plan) { plan.model = "0000000000000000"; }));
  EXPECT_TRUE(is_refused([](auto& plan) { plan.stages[0].end -= 1; }));
  EXPECT_TRUE(is_refused([](auto& plan) { plan.stages[0].ranks[0] = plan.stages[0].ranks[1]; }));
  EXPECT_TRUE(is_refused([](auto& plan) { plan.stages[0].ranks[0] = 99; }));
  EXPECT_TRUE(is_refused([](auto& plan) { plan.shares[0] += 1; }));
  EXPECT_TRUE(is_refused([](auto& plan) { plan.shares.pop_back(); }));
  EXPECT_TRUE(
      is_refused([](auto& plan) { plan.schedule = plan.stages.size() == 1 ? "1f1b" : "none"; }));
  EXPECT_TRUE(is_refused([](auto& plan) { plan.data = 0; }));
}

TEST(PlanJson, RefusesRanksThatCannotShareLayers) {
  PlanWishes wishes = {.global_batch = 64, .only = {}};
  wishes.OnlyOf(AxisId::kTensor) = {4};
  const auto why_for = [&](auto change) {
    ModelSummary model = Llama();
    auto plan = std::get<ParallelPlan>(ChoosePlan(model, Mixed(), wishes));
    change(model);
    plan.model = DigestOf(model);
    const auto sound = CheckPlan(plan, model, Mixed());
    return sound.ok() ? "" : sound.failure().message;
  };
  EXPECT_EQ(why_for([](auto&) {}), "");
  EXPECT_EQ(why_for([](auto& model) { model.no_tensor = "its head shares a weight"; }),
            "its ranks share layers, but its head shares a weight");
  EXPECT_EQ(why_for([](auto& model) { model.tensor_divides = 6; }),
            "4 ranks share layers, and that does not divide 6, as the sizes of the layers ask for");
}

TEST(PlanJson, ReadsWishesForAxes) {
  const auto wishes = ReadWishes(
      R"({"global_batch": 8, "pipeline": [1, 2], "shard": [false], "schedule": ["1f1b"]})");
  ASSERT_TRUE(wishes.ok());
  EXPECT_EQ(wishes->OnlyOf(AxisId::kPipeline), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(wishes->OnlyOf(AxisId::kShard), (std::vector<uint32_t>{0}));
  EXPECT_EQ(wishes->OnlyOf(AxisId::kSchedule), (std::vector<uint32_t>{2}));
  EXPECT_FALSE(ReadWishes(R"({"global_batch": 8, "expert": [1]})").ok());
  const auto asked = ReadWishes(
      R"({"global_batch": 8, "tensor": [2], "because": {"tensor": "split(2) of a.py:1"}})");
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(asked->because[static_cast<size_t>(AxisId::kTensor)], "split(2) of a.py:1");
  EXPECT_EQ(asked->because[static_cast<size_t>(AxisId::kData)], "");
  EXPECT_FALSE(ReadWishes(R"({"global_batch": 8, "because": {"expert": "me"}})").ok());
  EXPECT_FALSE(ReadWishes(R"({"global_batch": 8, "because": ["tensor"]})").ok());
  EXPECT_FALSE(ReadWishes(R"({"global_batch": 8, "schedule": ["zigzag"]})").ok());
}

TEST(Families, ConfigsOfHuggingFaceAreRead) {
  const auto llama = SummaryOfConfig(
      R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
          "vocab_size": 128256, "max_position_embeddings": 8192, "rope_theta": 5e5})",
      {});
  ASSERT_TRUE(llama.ok()) << llama.failure().message;
  uint64_t parameters = 0;
  for (const LayerRow& row : llama->rows) parameters += row.parameters * row.count;
  EXPECT_NEAR(static_cast<double>(parameters), 8.03e9, 0.02e9);  // Llama 3 8B's model card
  EXPECT_FALSE(SummaryOfConfig(R"({"model_type": "llama", "hidden_size": 0})", {}).ok());
  EXPECT_FALSE(SummaryOfConfig(R"({"model_type": "mamba"})", {}).ok());
  EXPECT_FALSE(SummaryOfConfig("[]", {}).ok());
}

// Counted in transformers: BertForMaskedLM and GPT2LMHeadModel of these configs. Without biases.
TEST(Families, SmallConfigsCountAllTables) {
  const std::pair<const char*, double> configs[] = {
      {R"({"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2,
           "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 1000,
           "max_position_embeddings": 512})",
       202280},
      {R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 4, "n_head": 4, "vocab_size": 1000,
           "n_positions": 1024})",
       329600}};
  for (const auto& [config, wanted] : configs) {
    for (const uint64_t sequence : {0, 32}) {  // the tables are the model's, whatever a sample is
      double parameters = 0;
      const auto summary = SummaryOfConfig(config, {.sequence = sequence});
      for (const LayerRow& row : summary->rows) {
        parameters += static_cast<double>(row.parameters) * row.count;
      }
      EXPECT_NEAR(parameters / wanted, 1, 0.04) << config;
    }
  }
}

// Each family with a head that may share the embedding's weight reads the same key.
TEST(Families, AConfigSaysWhetherItsHeadSharesAWeight) {
  const std::string configs[] = {
      R"("model_type": "gpt2", "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 1024)",
      R"("model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 256, "max_position_embeddings": 512)",
      R"("model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 256, "max_position_embeddings": 512)"};
  const auto summary_of = [](const std::string& config, const std::string& more) {
    return SummaryOfConfig("{" + config + R"(, "vocab_size": 1000)" + more + "}", {});
  };
  for (const std::string& config : configs) {
    const auto tied = summary_of(config, R"(, "tie_word_embeddings": true)");
    const auto free = summary_of(config, R"(, "tie_word_embeddings": false)");
    ASSERT_TRUE(tied.ok() && free.ok()) << config;
    EXPECT_EQ(tied->rows.back().parameters, 0) << config;
    EXPECT_EQ(tied->rows.back().copied, 64 * 1000) << config;
    EXPECT_EQ(tied->no_pipeline, "") << config;
    EXPECT_EQ(free->rows.back().parameters, 64 * 1000) << config;
    EXPECT_EQ(free->rows.back().copied, 0) << config;
    EXPECT_EQ(free->no_pipeline, "") << config;
    const auto again = ReadSummary(PrintSummary(*tied));
    ASSERT_TRUE(again.ok()) << again.failure().message;
    EXPECT_EQ(again->rows.back().copied, 64 * 1000) << config;
    EXPECT_FALSE(summary_of(config, R"(, "tie_word_embeddings": "no")").ok()) << config;
  }
  EXPECT_EQ(summary_of(configs[0], "")->rows.back().parameters, 0);
  EXPECT_EQ(summary_of(configs[2], "")->rows.back().parameters, 64 * 1000);
}

std::string LlamaOf(const std::string& shape) {
  return Concat(R"({"model_type": "llama", "num_hidden_layers": 2, "intermediate_size": 256,
                    "vocab_size": 1000, "max_position_embeddings": 512, )",
                shape, "}");
}

// transformers 5.24 and Megatron-LM refuse the first three; a head of 15 fails in the first pass.
TEST(Families, AModelThatNoLibraryBuildsIsRefused) {
  const std::pair<std::string, const char*> shapes[] = {
      {LlamaOf(R"("hidden_size": 65, "num_attention_heads": 4)"),
       "a hidden size of 65 cannot be divided among 4 attention heads, and head_dim is not given"},
      {LlamaOf(R"("hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 3)"),
       "4 attention heads cannot be divided among 3 heads of keys and values "
       "(num_key_value_heads)"},
      {R"({"model_type": "gpt2", "n_embd": 65, "n_layer": 4, "n_head": 4, "vocab_size": 1000,
           "n_positions": 1024})",
       "a hidden size of 65 cannot be divided among 4 attention heads"},
      {LlamaOf(R"("hidden_size": 60, "num_attention_heads": 4)"),
       "a head has 15 values, and rotary positions need an even number of them"},
      {LlamaOf(R"("hidden_size": 64, "num_attention_heads": 4, "torch_dtype": "int8")"),
       "torch_dtype is int8, and parameters are trained in float32, float16, bfloat16"},
      {LlamaOf(R"("hidden_size": 64, "num_attention_heads": 4, "dtype": 8)"),
       "dtype is no name of a type"},
      {LlamaOf(R"("hidden_size": 64, "num_attention_heads": 4,
                  "quantization_config": {"load_in_8bit": true})"),
       "quantization_config is set, and quantized parameters have no gradients"}};
  for (const auto& [config, why] : shapes) {
    const auto summary = SummaryOfConfig(config, {});
    ASSERT_FALSE(summary.ok()) << config;
    EXPECT_EQ(summary.failure().message, why);
  }
}

// Of the layer below: 2 × 65 × (4 + 2) × 32 values in the four projections.
TEST(Families, AModelMayGiveTheSizeOfItsHeads) {
  const auto wide = SummaryOfConfig(
      LlamaOf(R"("hidden_size": 65, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "head_dim": 32, "torch_dtype": "torch.bfloat16", "quantization_config": null)"),
      {});
  ASSERT_TRUE(wide.ok()) << wide.failure().message;
  EXPECT_EQ(wide->rows[1].parameters, 2 * 65 * (4 + 2) * 32 + 3 * 65 * 256 + 4 * 65);
  const auto plain = SummaryOfConfig(
      LlamaOf(R"("hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": null)"), {});
  const auto same = SummaryOfConfig(
      LlamaOf(R"("hidden_size": 64, "num_attention_heads": 4, "head_dim": 16)"), {});
  ASSERT_TRUE(plain.ok() && same.ok());
  EXPECT_EQ(plain->rows[1].saved, same->rows[1].saved);
  EXPECT_EQ(plain->rows[1].flops, same->rows[1].flops);
}

TEST(Families, APlanSaysWhatTheLibraryCannotDivide) {
  ParallelPlan plan = {.tensor = 2, .stages = std::vector<PlanStage>(1)};
  const auto tensor = NeedsTexts(NeedsOf("gpt2", plan));
  ASSERT_EQ(tensor.size(), 1);
  EXPECT_EQ(tensor[0], "a tensor plan for gpt2 models, which transformers does not have");
  EXPECT_TRUE(NeedsOf("llama", plan).empty());
  plan.stages.resize(2);
  ASSERT_EQ(NeedsOf("bert", plan).size(), 2);
  EXPECT_EQ(NeedsOf("bert", plan)[1].only, "pp=1");
  EXPECT_EQ(NeedsOf("gpt2", plan).size(), 1);  // paceline has a pipeline plan for it
  EXPECT_TRUE(NeedsOf("gpt2", ParallelPlan{.stages = std::vector<PlanStage>(1)}).empty());
  EXPECT_TRUE(NeedsOf("", plan).empty());
  EXPECT_EQ(ModelTypeOf(R"({"model_type": "gpt2"})"), "gpt2");
  EXPECT_EQ(ModelTypeOf("gpt-175b"), "gpt2");
  EXPECT_EQ(ModelTypeOf("llama-8b"), "llama");
  EXPECT_EQ(ModelTypeOf("[1]"), "");
}

// transformers divides the head too, and refuses a head that shares its weight.
TEST(Families, AHeadIsDividedAsTheLibraryDividesIt) {
  const auto untied = SummaryOfPreset("llama-8b", {});
  ASSERT_TRUE(untied.ok());
  EXPECT_EQ(untied->no_tensor, "");
  EXPECT_EQ(untied->rows.back().tensor->flops, untied->rows.back().flops);
  EXPECT_EQ(untied->rows.back().tensor->exchanges, 1);
  const auto tied = SummaryOfPreset("llama-1b", {});
  ASSERT_TRUE(tied.ok());
  EXPECT_EQ(tied->no_tensor, "lm_head and model.embed_tokens share a weight");
  const auto odd = SummaryOfConfig(
      LlamaOf(R"("hidden_size": 64, "num_attention_heads": 4, "vocab_size": 1002)"), {});
  ASSERT_TRUE(odd.ok()) << odd.failure().message;
  EXPECT_EQ(odd->tensor_divides, 2);
}

TEST(Json, APlanKeepsItsNeeds) {
  ParallelPlan plan = {.stages = {{0, 1, {0}}}, .needs = {"sequence parallelism"}};
  const auto again = ReadPlan(PrintPlan(plan));
  ASSERT_TRUE(again.ok()) << again.failure().message;
  EXPECT_EQ(again->needs, plan.needs);
  plan.needs.clear();
  EXPECT_EQ(PrintPlan(plan).find("needs"), std::string::npos);
}

// The published sizes (Meta's and OpenAI's model cards, Megatron-LM's paper), in billions.
TEST(Families, PresetsHaveThePublishedSizes) {
  const std::pair<const char*, double> sizes[] = {
      {"llama-1b", 1.24}, {"llama-8b", 8.03},  {"llama-70b", 70.6},   {"llama-405b", 405.9},
      {"gpt-1.5b", 1.56}, {"gpt-175b", 175.0}, {"bert-large", 0.335}, {"vit-large", 0.304}};
  for (const auto& [name, billions] : sizes) {
    const auto summary = SummaryOfPreset(name, {});
    ASSERT_TRUE(summary.ok());
    double parameters = 0;
    for (const LayerRow& row : summary->rows) {
      parameters += static_cast<double>(row.parameters) * row.count;
    }
    EXPECT_NEAR(parameters / 1e9 / billions, 1, 0.02) << name;
  }
}

// Mistral's announcements: 46.7 and 141 billion parameters, of which a token uses 12.9 and 39.
TEST(Families, AMixtureKeepsAllExpertsAndComputesWithSome) {
  const std::tuple<const char*, double, double> sizes[] = {{"mixtral-8x7b", 46.7, 12.9},
                                                           {"mixtral-8x22b", 141, 39}};
  for (const auto& [name, billions, active_billions] : sizes) {
    // With one token, attention's scores are no arithmetic to speak of.
    const auto summary = SummaryOfPreset(name, {.sequence = 1});
    ASSERT_TRUE(summary.ok());
    const LayerRow& embedding = summary->rows[0];
    double parameters = 0;
    double active = static_cast<double>(embedding.parameters);  // a row of them is looked up
    for (const LayerRow& row : summary->rows) {
      parameters += static_cast<double>(row.parameters) * row.count;
      active += row.flops / 2 * row.count;
    }
    EXPECT_NEAR(parameters / 1e9 / billions, 1, 0.005) << name;
    EXPECT_NEAR(active / 1e9 / active_billions, 1, 0.01) << name;
    EXPECT_EQ(ModelTypeOf(name), "mixtral");
  }
}

std::string MixtralConfig(std::string_view experts) {
  return Concat(R"({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 32000, "max_position_embeddings": 32768)",
                experts, "}");
}

TEST(Families, AMixtureOfAConfigIsThatOfTheName) {
  const ModelSummary named = *SummaryOfPreset("mixtral-8x7b", {});
  for (const char* experts : {R"(, "num_local_experts": 8, "num_experts_per_tok": 2)", ""}) {
    const auto read = SummaryOfConfig(MixtralConfig(experts), {});
    ASSERT_TRUE(read.ok()) << read.failure().message;
    EXPECT_EQ(read->rows[1].parameters, named.rows[1].parameters);
    EXPECT_EQ(read->rows[1].flops, named.rows[1].flops);
    EXPECT_EQ(read->rows[1].saved, named.rows[1].saved);
  }
  const auto more = SummaryOfConfig(MixtralConfig(R"(, "num_experts_per_tok": 3)"), {});
  EXPECT_GT(more->rows[1].flops, named.rows[1].flops);
  EXPECT_GT(more->rows[1].saved, named.rows[1].saved);
  EXPECT_EQ(more->rows[1].parameters, named.rows[1].parameters);
  const auto refused = SummaryOfConfig(MixtralConfig(R"(, "num_experts_per_tok": 9)"), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().message, "num_experts_per_tok is 9 of 8 experts");
}

TEST(Families, NoPlanOfAMixtureIsCarriedOut) {
  const std::vector<PlanNeed> needs = NeedsOf("mixtral", ParallelPlan{.tensor = 2});
  ASSERT_EQ(needs.size(), 1);
  EXPECT_EQ(needs[0].what,
            "expert parallelism for mixtral models, which paceline does not carry out");
  EXPECT_EQ(needs[0].only, "");
}

}  // namespace
}  // namespace paceline::plan

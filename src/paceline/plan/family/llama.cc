#include "paceline/plan/family/family.h"
#include "paceline/plan/family/limits.h"

namespace paceline::plan {

Result<TransformerSize> ReadLlama(const nlohmann::json& config) {
  TransformerSize size;
  size.name = "llama";
  ASSIGN_OR_RETURN(size.hidden, ConfigNumber(config, "hidden_size", kHiddenMax));
  ASSIGN_OR_RETURN(size.layers, ConfigNumber(config, "num_hidden_layers", kBlocksMax));
  ASSIGN_OR_RETURN(size.heads, ConfigNumber(config, "num_attention_heads", kHeadsMax));
  ASSIGN_OR_RETURN(size.intermediate, ConfigNumber(config, "intermediate_size", kHiddenMax));
  size.key_heads = size.heads;
  if (IsGiven(config, "num_key_value_heads")) {
    ASSIGN_OR_RETURN(size.key_heads, ConfigNumber(config, "num_key_value_heads", size.heads));
  }
  if (IsGiven(config, "head_dim")) {
    ASSIGN_OR_RETURN(size.head_size, ConfigNumber(config, "head_dim", kHiddenMax));
  }
  ASSIGN_OR_RETURN(size.vocabulary, ConfigNumber(config, "vocab_size", kVocabularyMax));
  ASSIGN_OR_RETURN(size.sequence, ConfigNumber(config, "max_position_embeddings", kSequenceMax));
  size.is_gated = true;
  return size;
}

const Family& LlamaFamily() {
  static const Family kFamily = {
      .name = "llama",
      .types = {{"llama", true, true, false},
                {"mistral", true, true, false},
                {"qwen2", true, true, false},
                {"qwen3", true, true, false, 128},
                {"gemma", true, true, true, 256}},
      .names = {"model.embed_tokens", "model.layers.{}", "lm_head"},
      .has_rotary_heads = true,
      .presets =
          {
              {"llama-1b", {"llama-1b", 2048, 16, 32, 8, 8192, 128256, 8192, true, true}},
              {"llama-8b", {"llama-8b", 4096, 32, 32, 8, 14336, 128256, 8192, true, false}},
              {"llama-70b", {"llama-70b", 8192, 80, 64, 8, 28672, 128256, 8192, true, false}},
              {"llama-405b", {"llama-405b", 16384, 126, 128, 8, 53248, 128256, 8192, true, false}},
          },
      .read = ReadLlama};
  return kFamily;
}

}  // namespace paceline::plan

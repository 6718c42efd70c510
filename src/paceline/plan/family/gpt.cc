#include "paceline/plan/family/family.h"
#include "paceline/plan/family/limits.h"

namespace paceline::plan {
namespace {

Result<TransformerSize> ReadGpt(const nlohmann::json& config) {
  TransformerSize size;
  size.name = "gpt";
  ASSIGN_OR_RETURN(size.hidden, ConfigNumber(config, "n_embd", kHiddenMax));
  ASSIGN_OR_RETURN(size.layers, ConfigNumber(config, "n_layer", kBlocksMax));
  ASSIGN_OR_RETURN(size.heads, ConfigNumber(config, "n_head", kHeadsMax));
  size.key_heads = size.heads;
  size.intermediate = 4 * size.hidden;
  if (IsGiven(config, "n_inner")) {
    ASSIGN_OR_RETURN(size.intermediate, ConfigNumber(config, "n_inner", kHiddenMax));
  }
  ASSIGN_OR_RETURN(size.vocabulary, ConfigNumber(config, "vocab_size", kVocabularyMax));
  ASSIGN_OR_RETURN(size.sequence, ConfigNumber(config, "n_positions", kSequenceMax));
  return size;
}

}  // namespace

const Family& GptFamily() {
  static const Family kFamily = {
      .name = "gpt",
      .types = {{"gpt2", false, true, true}},
      .names = {"transformer.wte", "transformer.h.{}", "lm_head"},
      .learns_positions = true,
      .presets =
          {
              {"gpt-124m", {"gpt-124m", 768, 12, 12, 12, 3072, 50257, 1024, false, true}},
              {"gpt-1.5b", {"gpt-1.5b", 1600, 48, 25, 25, 6400, 50257, 1024, false, true}},
              {"gpt-22b", {"gpt-22b", 6144, 48, 64, 64, 24576, 51200, 2048, false, false}},
              {"gpt-175b", {"gpt-175b", 12288, 96, 96, 96, 49152, 51200, 2048, false, false}},
              {"gpt-530b", {"gpt-530b", 20480, 105, 128, 128, 81920, 51200, 2048, false, false}},
          },
      .read = ReadGpt};
  return kFamily;
}

}  // namespace paceline::plan

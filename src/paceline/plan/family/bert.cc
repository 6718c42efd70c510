#include "paceline/plan/family/family.h"
#include "paceline/plan/family/limits.h"

namespace paceline::plan {
namespace {

Result<TransformerSize> ReadBert(const nlohmann::json& config) {
  TransformerSize size;
  size.name = "bert";
  ASSIGN_OR_RETURN(size.hidden, ConfigNumber(config, "hidden_size", kHiddenMax));
  ASSIGN_OR_RETURN(size.layers, ConfigNumber(config, "num_hidden_layers", kBlocksMax));
  ASSIGN_OR_RETURN(size.heads, ConfigNumber(config, "num_attention_heads", kHeadsMax));
  ASSIGN_OR_RETURN(size.intermediate, ConfigNumber(config, "intermediate_size", kHiddenMax));
  size.key_heads = size.heads;
  ASSIGN_OR_RETURN(size.vocabulary, ConfigNumber(config, "vocab_size", kVocabularyMax));
  ASSIGN_OR_RETURN(size.sequence, ConfigNumber(config, "max_position_embeddings", kSequenceMax));
  return size;
}

}  // namespace

const Family& BertFamily() {
  static const Family kFamily = {
      .name = "bert",
      .types = {{"bert", false, false, true}, {"roberta", false, false, true}},
      .names = {"embeddings", "encoder.layer.{}", "cls"},
      .learns_positions = true,
      .token_types = 2,
      .presets =
          {
              {"bert-base", {"bert-base", 768, 12, 12, 12, 3072, 30522, 512, false, true}},
              {"bert-large", {"bert-large", 1024, 24, 16, 16, 4096, 30522, 512, false, true}},
          },
      .read = ReadBert};
  return kFamily;
}

}  // namespace paceline::plan

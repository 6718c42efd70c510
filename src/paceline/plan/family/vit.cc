#include "paceline/plan/family/family.h"
#include "paceline/plan/family/limits.h"

namespace paceline::plan {
namespace {

Result<TransformerSize> ReadVit(const nlohmann::json& config) {
  TransformerSize size;
  size.name = "vit";
  ASSIGN_OR_RETURN(size.hidden, ConfigNumber(config, "hidden_size", kHiddenMax));
  ASSIGN_OR_RETURN(size.layers, ConfigNumber(config, "num_hidden_layers", kBlocksMax));
  ASSIGN_OR_RETURN(size.heads, ConfigNumber(config, "num_attention_heads", kHeadsMax));
  ASSIGN_OR_RETURN(size.intermediate, ConfigNumber(config, "intermediate_size", kHiddenMax));
  size.key_heads = size.heads;
  ASSIGN_OR_RETURN(const uint64_t image, ConfigNumber(config, "image_size", kSequenceMax));
  ASSIGN_OR_RETURN(const uint64_t patch, ConfigNumber(config, "patch_size", image));
  const uint64_t side = image / patch;
  if (side > 4096) {
    return Failure{.kind = FailureKind::kInvalid, .message = "the image has too many patches"};
  }
  size.sequence = side * side + 1;  // and the class
  // The embedding and the head are small: a patch of three colours, and the class tokens.
  size.vocabulary = 1000;
  return size;
}

}  // namespace

const Family& VitFamily() {
  static const Family kFamily = {
      .name = "vit",
      .types = {{"vit"}},
      .names = {"embeddings", "encoder.layer.{}", "classifier"},
      .learns_positions = true,
      .presets =
          {
              {"vit-base", {"vit-base", 768, 12, 12, 12, 3072, 1000, 197, false, false}},
              {"vit-large", {"vit-large", 1024, 24, 16, 16, 4096, 1000, 197, false, false}},
              {"vit-huge", {"vit-huge", 1280, 32, 16, 16, 5120, 1000, 257, false, false}},
          },
      .read = ReadVit};
  return kFamily;
}

}  // namespace paceline::plan

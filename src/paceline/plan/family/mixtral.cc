// Mixtral: as Llama, with several feed-forward networks (experts) in a layer, of which a token
// passes some. Its plans are predicted and not carried out.

#include "paceline/base/text.h"
#include "paceline/plan/family/family.h"
#include "paceline/plan/family/limits.h"

namespace paceline::plan {
namespace {

// Where a config.json does not say it, as the library's class for its configs has it.
constexpr uint64_t kExperts = 8;
constexpr uint64_t kActiveExperts = 2;

Result<TransformerSize> ReadMixtral(const nlohmann::json& config) {
  ASSIGN_OR_RETURN(TransformerSize size, ReadLlama(config));
  size.experts = kExperts;
  size.active_experts = kActiveExperts;
  if (IsGiven(config, "num_local_experts")) {
    ASSIGN_OR_RETURN(size.experts, ConfigNumber(config, "num_local_experts", kExpertsMax));
  }
  if (IsGiven(config, "num_experts_per_tok")) {
    ASSIGN_OR_RETURN(size.active_experts, ConfigNumber(config, "num_experts_per_tok", kExpertsMax));
  }
  if (size.active_experts > size.experts) {
    return Failure{.kind = FailureKind::kInvalid,
                   .message = Concat("num_experts_per_tok is ", size.active_experts, " of ",
                                     Counted(size.experts, "expert"))};
  }
  size.name = "mixtral";
  return size;
}

}  // namespace

const Family& MixtralFamily() {
  static const Family kFamily = {
      .name = "mixtral",
      .types = {{"mixtral", true, true, false, 0, "expert parallelism"}},
      .names = {"model.embed_tokens", "model.layers.{}", "lm_head"},
      .has_rotary_heads = true,
      .presets =
          {
              {"mixtral-8x7b",
               {"mixtral-8x7b", 4096, 32, 32, 8, 14336, 32000, 32768, true, false, 0, 8, 2}},
              {"mixtral-8x22b",
               {"mixtral-8x22b", 6144, 56, 48, 8, 16384, 32768, 65536, true, false, 0, 8, 2}},
          },
      .read = ReadMixtral};
  return kFamily;
}

}  // namespace paceline::plan

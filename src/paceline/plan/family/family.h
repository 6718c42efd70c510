#pragma once

// Model families whose summary follows from a few numbers, without running anything. To add one:
// family/<name>.cc with its row, and the row in families.cc.
//
// FLOPs and saved bytes are those of V. Korthikanti et al., "Reducing Activation Recomputation in
// Large Transformer Models" (2022), with an attention kernel that keeps no scores.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/json.h"
#include "paceline/base/result.h"
#include "paceline/model/plan.h"
#include "paceline/plan/execution.h"

namespace paceline::plan {

struct TransformerSize {
  std::string name;
  uint64_t hidden = 0;
  uint64_t layers = 0;
  uint64_t heads = 0;
  uint64_t key_heads = 0;     // of keys and values; equal to `heads` without grouped queries
  uint64_t intermediate = 0;  // of the feed-forward network
  uint64_t vocabulary = 0;
  uint64_t sequence = 0;  // tokens of a sample
  bool is_gated = false;  // three matrices in the feed-forward network instead of two
  bool ties_head = false;
  uint64_t head_size = 0;  // values of a head; 0: hidden / heads
  uint64_t experts = 1;    // feed-forward networks of a layer, and how many of them a token passes
  uint64_t active_experts = 1;
  // Values of all heads of a token. Some models have more or fewer than `hidden`.
  uint64_t attention() const { return head_size == 0 ? hidden : heads * head_size; }
};

struct FamilyNames {
  std::string_view embedding;  // qualified names of the modules
  std::string_view layer;      // with {}
  std::string_view head;
};

struct SummaryWishes {
  std::string precision = "bf16";
  uint64_t sequence = 0;                         // 0: the model's own
  const Execution* execution = &OurExecution();  // whose layers: a library's, or its own
};

struct Preset {
  std::string_view name;
  TransformerSize size;
};

// A kind of model as transformers builds it. This is the one table of what can be carried out:
// `paceline plan` marks its plans by it, and paceline.parallel reads it through the bindings. A
// test compares it with the installed transformers.
struct ModelType {
  std::string_view name;  // `model_type` of Hugging Face's config.json
  // Whether transformers has a plan for this kind of division, or paceline.parallel has one of its
  // own. Without one, only a script that divides the model itself can carry out a plan with it.
  bool has_tensor_plan = false;
  bool has_pipeline_plan = false;
  // Whether the head shares the embedding's weight where a config.json does not say so, as the
  // library's class for its configs has it. None: the head has a weight of its own.
  std::optional<bool> ties_head = {};
  uint64_t head_size = 0;  // where a config.json does not say it; 0: hidden / heads
  // What no plan of the type is carried out without, and paceline does not have; "": nothing.
  std::string_view lacks = {};
};

struct Family {
  std::string_view name;
  std::vector<ModelType> types;  // the presets are of the first one
  FamilyNames names;
  bool learns_positions = false;  // a table with a row for each token of a sample
  uint32_t token_types = 0;       // rows of another table
  // Positions rotate pairs of a head's values, and a config.json may give the size of a head.
  bool has_rotary_heads = false;
  std::vector<Preset> presets;
  // From a config.json, without `ties_head`.
  Result<TransformerSize> (*read)(const nlohmann::json& config);
};

const Family& LlamaFamily();
const Family& MixtralFamily();
const Family& GptFamily();
const Family& BertFamily();
const Family& VitFamily();

std::vector<const Family*> Families();

// By a preset's name, such as "llama-70b". kNotFound lists the presets.
Result<ModelSummary> SummaryOfPreset(std::string_view name, const SummaryWishes& wishes);
// The text of a config.json. Refuses a model that no library builds, and one whose parameters
// cannot be trained.
Result<ModelSummary> SummaryOfConfig(std::string_view text, const SummaryWishes& wishes);

// The model type of a preset's name or of the text of a config.json; "" if it is not known.
std::string ModelTypeOf(std::string_view preset_or_config);
const ModelType* FindModelType(std::string_view name);

// The numbers of Llama's config, which other families share.
Result<TransformerSize> ReadLlama(const nlohmann::json& config);

// Whether the config has a value for the key; the library takes null as no value.
bool IsGiven(const nlohmann::json& config, const char* key);

// A whole number of a config, from 1 to `most`.
Result<uint64_t> ConfigNumber(const nlohmann::json& config, const char* key, uint64_t most);

}  // namespace paceline::plan

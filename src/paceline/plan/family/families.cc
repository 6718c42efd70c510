#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/plan/family/family.h"

namespace paceline::plan {
namespace {

constexpr size_t kConfigMax = 1 << 20;

// Number of values that one layer saves for the backward pass, for each token: the inputs of its
// matrix products and of its element-wise operations. `fuses`: the gate's function and product are
// one operation, which saves its inputs alone.
double SavedValues(const TransformerSize& size, bool fuses) {
  const auto hidden = static_cast<double>(size.hidden);
  const auto inner = static_cast<double>(size.intermediate);
  const auto width = static_cast<double>(size.attention());
  const double keys = static_cast<double>(size.key_heads) / static_cast<double>(size.heads);
  // A norm's output, then the queries, the input of the last product, keys and values.
  const double attention = hidden + width * (2 + 2 * keys);
  const double residual = 2 * hidden;
  const double feed_forward = hidden + (!size.is_gated ? 2 : fuses ? 3 : 4) * inner;
  if (size.experts == 1) return attention + residual + feed_forward;
  // The router's input and scores, and of each expert its rows of the input and its output, which
  // is weighted.
  const auto active = static_cast<double>(size.active_experts);
  return attention + residual + hidden + static_cast<double>(size.experts) +
         active * (feed_forward + hidden);
}

// Number of values that selective recomputation keeps of a layer, for each token: the results of
// the products with weights and of attention. `divided`: those that tensor ranks divide. The others
// are the results of the two products whose parts are summed.
struct KeptValues {
  double divided = 0;
  double whole = 0;
};

KeptValues KeptOf(const TransformerSize& size) {
  const auto width = static_cast<double>(size.attention());
  const double keys = static_cast<double>(size.key_heads) / static_cast<double>(size.heads);
  const double inner = (size.is_gated ? 2 : 1) * static_cast<double>(size.intermediate) *
                       static_cast<double>(size.active_experts);
  return {.divided = width * (2 + 2 * keys) + inner, .whole = 2 * static_cast<double>(size.hidden)};
}

// Bytes of attention's scores: behind the softmax, behind the dropout, and a byte of its mask.
uint64_t ScoreBytes(const TransformerSize& size, double value_bytes) {
  const auto tokens = static_cast<double>(size.sequence);
  return static_cast<uint64_t>((2 * value_bytes + 1) * static_cast<double>(size.heads) * tokens *
                               tokens);
}

// The layers of a framework with its own: all that a layer saves is kept but for attention's
// scores, which are computed again.
void KeepAllButScores(const TransformerSize& size, uint64_t scores, LayerRow& row) {
  const auto tokens = static_cast<double>(size.sequence);
  const uint64_t whole = row.saved - row.tensor->saved;
  row.selective =
      SelectiveKeep{.kept = row.saved - scores - std::min(row.output, whole),
                    .flops = 4 * tokens * tokens * static_cast<double>(size.attention())};
  row.tensor->kept = row.tensor->saved - scores;
}

LayerRow BlockOf(const Family& family, const ModelType& type, const TransformerSize& size,
                 double value_bytes, const Execution& execution) {
  const auto hidden = static_cast<double>(size.hidden);
  const auto tokens = static_cast<double>(size.sequence);
  const double keys = static_cast<double>(size.key_heads) / static_cast<double>(size.heads);
  const auto width = static_cast<double>(size.attention());
  const double matrices = size.is_gated ? 3 : 2;
  const double attention = 2 * hidden * width * (1 + keys);
  const double expert = matrices * hidden * static_cast<double>(size.intermediate);
  // Those of a token, and all that are kept.
  const double products = attention + static_cast<double>(size.active_experts) * expert;
  const double all = attention + static_cast<double>(size.experts) * expert;
  const double router = size.experts == 1 ? 0 : hidden * static_cast<double>(size.experts);
  LayerRow row;
  row.name = std::string(family.names.layer);
  row.count = static_cast<uint32_t>(size.layers);
  row.flops = 2 * tokens * (products + router) + 4 * tokens * tokens * width;
  row.parameters = static_cast<uint64_t>(all + router + 4 * hidden);
  const uint64_t scores = execution.keeps_scores ? ScoreBytes(size, value_bytes) : 0;
  row.saved = scores + static_cast<uint64_t>(SavedValues(size, execution.has_own_layers) * tokens *
                                             value_bytes);
  row.output = static_cast<uint64_t>(tokens * hidden * value_bytes);
  const auto whole = static_cast<uint64_t>(4 * hidden * tokens * value_bytes);
  row.tensor = TensorSplit{.parameters = static_cast<uint64_t>(all),
                           .flops = row.flops - 2 * tokens * router,
                           .saved = row.saved - std::min(whole, row.saved),
                           .exchanges = 2};
  const KeptValues kept = KeptOf(size);
  row.selective = SelectiveKeep{
      .kept = static_cast<uint64_t>((kept.divided + kept.whole) * tokens * value_bytes)};
  row.tensor->kept = static_cast<uint64_t>(kept.divided * tokens * value_bytes);
  // DTensor saves the gathered inputs of attention and of the feed-forward network. A script that
  // divides the model itself, as Megatron-LM does, gathers them again while the backward pass
  // computes.
  const bool gathers = type.has_tensor_plan && !execution.has_own_layers;
  const double gathered = gathers ? 2 * hidden * tokens * value_bytes : 0;
  row.tensor->sequence = SequenceSplit{.exchanges = 2, .gathered = static_cast<uint64_t>(gathered)};
  if (execution.has_own_layers) KeepAllButScores(size, scores, row);
  return row;
}

// Why no library builds attention of this size, as Megatron-LM and transformers check it; "" if it
// can be built.
std::string WhyUnbuildable(const Family& family, const TransformerSize& size,
                           const nlohmann::json& config) {
  if (size.head_size == 0 && size.hidden % size.heads != 0) {
    return Concat("a hidden size of ", size.hidden, " cannot be divided among ", size.heads,
                  " attention heads", family.has_rotary_heads ? ", and head_dim is not given" : "");
  }
  if (size.heads % size.key_heads != 0) {
    return Concat(size.heads, " attention heads cannot be divided among ", size.key_heads,
                  " heads of keys and values (num_key_value_heads)");
  }
  const bool rotates_all = family.has_rotary_heads && !IsGiven(config, "partial_rotary_factor") &&
                           !IsGiven(config, "rope_parameters");
  const uint64_t head_size = size.attention() / size.heads;
  if (rotates_all && head_size % 2 != 0) {
    return Concat("a head has ", head_size,
                  " values, and rotary positions need an even number of them");
  }
  return "";
}

// Why the parameters of this config cannot be trained; "" if they can. A plan is for training: it
// counts gradients and an optimizer's values for every parameter.
std::string WhyUntrainable(const nlohmann::json& config) {
  if (IsGiven(config, "quantization_config")) {
    return "quantization_config is set, and quantized parameters have no gradients";
  }
  constexpr std::string_view kTrained[] = {"float32", "float16", "bfloat16", "float64", "auto"};
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (!IsGiven(config, key)) continue;
    const nlohmann::json& said = config[key];
    if (!said.is_string()) return Concat(key, " is no name of a type");
    std::string_view name = said.get_ref<const std::string&>();
    if (name.starts_with("torch.")) name.remove_prefix(6);
    if (std::find(std::begin(kTrained), std::end(kTrained), name) != std::end(kTrained)) continue;
    return Concat(key, " is ", name.substr(0, 60), ", and parameters are trained in ",
                  JoinWith(std::vector<std::string_view>(kTrained, kTrained + 3), ", "));
  }
  return "";
}

// Hugging Face's name for it in each family.
Result<bool> TiesHead(const ModelType& type, const nlohmann::json& config) {
  const auto said = config.find("tie_word_embeddings");
  const bool is_said = said != config.end() && !said->is_null();
  if (!type.ties_head.has_value() || !is_said) return type.ties_head.value_or(false);
  if (said->is_boolean()) return said->get<bool>();
  return Failure{.kind = FailureKind::kInvalid,
                 .message = "tie_word_embeddings is neither true nor false"};
}

LayerRow HeadOf(const Family& family, const ModelType& type, const TransformerSize& size,
                double value_bytes, const Execution& execution) {
  const auto hidden = static_cast<double>(size.hidden);
  const auto words = static_cast<double>(size.vocabulary);
  const double scores = static_cast<double>(size.sequence) * words;
  // A framework that divides the words has a copy on the last stage.
  const bool shares = size.ties_head && !execution.divides_words;
  LayerRow row = {.name = std::string(family.names.head),
                  .flops = 2 * scores * hidden,
                  .parameters = static_cast<uint64_t>(shares ? 0 : words * hidden),
                  .saved = static_cast<uint64_t>(scores * 4),  // the loss is computed in fp32
                  .output = static_cast<uint64_t>(scores * value_bytes),
                  .copied = static_cast<uint64_t>(shares ? words * hidden : 0)};
  // transformers divides the head and gathers the scores. A script that divides the model itself,
  // as Megatron-LM does, computes the loss of divided scores.
  const bool gathers = type.has_tensor_plan && !execution.divides_words;
  row.tensor = TensorSplit{.parameters = row.parameters,
                           .flops = row.flops,
                           .saved = gathers ? 0 : row.saved,
                           .exchanges = gathers ? 1u : 0u};
  return row;
}

// The output head under tensor parallelism. If transformers divides the head of this type, only
// degrees that divide the vocabulary are possible. For other types the head stays whole where the
// degree does not divide it.
void DivideHead(const ModelType& type, const TransformerSize& size, ModelSummary& summary) {
  if (type.has_tensor_plan) {
    summary.tensor_divides =
        static_cast<uint32_t>(std::gcd<uint64_t>(summary.tensor_divides, size.vocabulary));
  } else if (size.vocabulary % summary.tensor_divides != 0) {
    summary.rows.back().tensor.reset();
  }
}

// The table of words, whose partial results the ranks that share it add up.
LayerRow EmbeddingOf(const Family& family, const TransformerSize& size, double rows,
                     uint64_t output, const Execution& execution) {
  const double parameters = rows * static_cast<double>(size.hidden);
  LayerRow row = {.name = std::string(family.names.embedding),
                  .parameters = static_cast<uint64_t>(parameters),
                  .saved = output,
                  .output = output};
  if (!execution.divides_words) return row;
  row.tensor = TensorSplit{
      .parameters = row.parameters, .exchanges = 1, .sequence = SequenceSplit{.exchanges = 1}};
  return row;
}

ModelSummary SummaryOf(const Family& family, const ModelType& type, const TransformerSize& given,
                       const SummaryWishes& wishes) {
  TransformerSize size = given;
  if (wishes.sequence > 0) size.sequence = wishes.sequence;
  const uint32_t value_bytes = wishes.precision == "fp32" ? 4 : 2;
  const auto hidden = static_cast<double>(size.hidden);
  const auto tokens = static_cast<double>(size.sequence);
  const auto words = static_cast<double>(size.vocabulary);
  // Rows of tables beside that of the words. Positions are the model's own, whatever the sample is.
  const auto others = static_cast<double>(family.token_types) +
                      (family.learns_positions ? static_cast<double>(given.sequence) : 0);
  ModelSummary summary;
  const std::string experts = size.experts == 1 ? ""
                                                : Concat(", ", size.active_experts, " of ",
                                                         size.experts, " experts a token");
  summary.name = Concat(size.name, experts, ", ", size.sequence, " tokens a sample");
  summary.precision = wishes.precision;
  summary.bytes.compute = value_bytes;
  summary.tensor_divides =
      static_cast<uint32_t>(std::gcd(std::gcd(size.heads, size.key_heads), size.intermediate));
  summary.sequence_divides = static_cast<uint32_t>(size.sequence);
  const auto output = static_cast<uint64_t>(tokens * hidden * value_bytes);
  const Execution& execution = *wishes.execution;
  summary.rows.push_back(EmbeddingOf(family, size, words + others, output, execution));
  summary.rows.push_back(BlockOf(family, type, size, value_bytes, execution));
  summary.rows.push_back(HeadOf(family, type, size, value_bytes, execution));
  if (execution.divides_words) return summary;  // its words are padded to what divides them
  DivideHead(type, size, summary);
  if (size.ties_head && type.has_tensor_plan) {
    summary.no_tensor =
        Concat(family.names.head, " and ", family.names.embedding, " share a weight");
  }
  return summary;
}

}  // namespace

std::vector<const Family*> Families() {
  return {&LlamaFamily(), &MixtralFamily(), &GptFamily(), &BertFamily(), &VitFamily()};
}

Result<ModelSummary> SummaryOfPreset(std::string_view name, const SummaryWishes& wishes) {
  std::vector<std::string_view> names;
  for (const Family* family : Families()) {
    for (const Preset& preset : family->presets) {
      if (preset.name == name) {
        return SummaryOf(*family, family->types[0], preset.size, wishes);
      }
      names.push_back(preset.name);
    }
  }
  return Failure{.kind = FailureKind::kNotFound,
                 .message = Concat("the models known by name are ", JoinWith(names, ", "))};
}

Result<ModelSummary> SummaryOfConfig(std::string_view text, const SummaryWishes& wishes) {
  const auto refused = [](std::string why) {
    return Failure{.kind = FailureKind::kInvalid, .message = std::move(why)};
  };
  if (text.size() > kConfigMax) return refused("a config.json is not that large");
  const nlohmann::json config = ParseJson(text);
  if (config.is_discarded() || !config.is_object()) return refused("it is no JSON object");
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) return refused("model_type is missing");
  std::vector<std::string_view> known;
  for (const Family* family : Families()) {
    for (const ModelType& one : family->types) {
      known.push_back(one.name);
      if (type->get_ref<const std::string&>() != one.name) continue;
      ASSIGN_OR_RETURN(TransformerSize size, family->read(config));
      if (size.head_size == 0) size.head_size = one.head_size;
      if (std::string why = WhyUnbuildable(*family, size, config); !why.empty()) {
        return refused(std::move(why));
      }
      if (std::string why = WhyUntrainable(config); !why.empty()) return refused(std::move(why));
      ASSIGN_OR_RETURN(size.ties_head, TiesHead(one, config));
      return SummaryOf(*family, one, size, wishes);
    }
  }
  return refused(Concat("model_type \"", type->get_ref<const std::string&>().substr(0, 60),
                        "\" is none of ", JoinWith(known, ", ")));
}

std::string ModelTypeOf(std::string_view preset_or_config) {
  for (const Family* family : Families()) {
    for (const Preset& preset : family->presets) {
      if (preset.name == preset_or_config) return std::string(family->types[0].name);
    }
  }
  const nlohmann::json config = ParseJson(preset_or_config);
  if (!config.is_object()) return "";
  const auto named = config.find("model_type");
  if (named == config.end() || !named->is_string()) return "";
  return named->get<std::string>();
}

const ModelType* FindModelType(std::string_view name) {
  static const std::vector<const Family*> kFamilies = Families();
  for (const Family* family : kFamilies) {
    for (const ModelType& type : family->types) {
      if (type.name == name) return &type;
    }
  }
  return nullptr;
}

bool IsGiven(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && !found->is_null();
}

Result<uint64_t> ConfigNumber(const nlohmann::json& config, const char* key, uint64_t most) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_number_unsigned() || found->get<uint64_t>() == 0 ||
      found->get<uint64_t>() > most) {
    return Failure{.kind = FailureKind::kInvalid,
                   .message = Concat(key, " is no whole number from 1 to ", most)};
  }
  return found->get<uint64_t>();
}

}  // namespace paceline::plan

#include "paceline/ckpt/storage/rescue_files.h"

#include <array>
#include <string_view>
#include <utility>

#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"

namespace paceline::ckpt {
namespace {

using nlohmann::json;

constexpr char kFolder[] = ".paceline-rescue";
constexpr char kCallKey[] = ".paceline-rescue/call.json";
constexpr std::string_view kAnswerPrefix = "answer-";
constexpr std::string_view kAnswerSuffix = ".json";
constexpr char kCallSchema[] = "paceline.rescue_call/1";
constexpr char kAnswerSchema[] = "paceline.rescue_answer/1";
constexpr uint64_t kRescueFileBytesMax = 64 << 20;
constexpr std::array<const char*, 5> kStages = {"ask", "end", "store", "over", "left"};

std::optional<RescueCall::Stage> StageNamed(const std::string& name) {
  for (size_t i = 0; i < kStages.size(); ++i) {
    if (name == kStages[i]) return static_cast<RescueCall::Stage>(i);
  }
  return std::nullopt;
}

const char* NameOf(RescueCall::Stage stage) { return kStages[static_cast<size_t>(stage)]; }

json JsonOf(const SavedStep& saved) {
  return {{"generation", saved.generation}, {"step", saved.step}, {"branch", saved.branch}};
}

SavedStep SavedIn(const json& object) {
  const auto saved = object.find("saved");
  if (saved == object.end() || !saved->is_object()) return {};
  return {JsonInt<uint64_t>(*saved, "generation"), JsonInt<int64_t>(*saved, "step", -1),
          JsonInt<uint64_t>(*saved, "branch")};
}

// Calls `take` for each object of a list. A missing list is an empty one.
template <class Take>
void ForEach(const json& object, const char* name, const Take& take) {
  const auto list = object.find(name);
  if (list == object.end() || !list->is_array()) return;
  for (const json& one : *list) {
    if (one.is_object()) take(one);
  }
}

Rank RankIn(const json& object, const char* name) { return Rank(JsonInt<uint32_t>(object, name)); }

json JsonOf(const MemoryImage& image) {
  return {{"rank", image.rank.value()},     {"place", image.place},
          {"is_copy", image.is_copy},       {"saved", JsonOf(image.saved)},
          {"world_size", image.world_size}, {"file_bytes", image.file_bytes},
          {"file_root", image.file_root},   {"is_replica", image.is_replica}};
}

MemoryImage ImageIn(const json& object) {
  return {.rank = RankIn(object, "rank"),
          .place = JsonText(object, "place"),
          .is_copy = JsonBool(object, "is_copy", false),
          .saved = SavedIn(object),
          .world_size = JsonInt<uint32_t>(object, "world_size"),
          .file_bytes = JsonInt<uint64_t>(object, "file_bytes"),
          .file_root = JsonInt<uint64_t>(object, "file_root"),
          .is_replica = JsonBool(object, "is_replica", false)};
}

json JsonOf(const EqualFiles& equal) {
  json ranks = json::array();
  for (const RankRun& run : equal.ranks) {
    ranks.push_back({{"first", run.first}, {"count", run.count}});
  }
  return {{"saved", JsonOf(equal.saved)}, {"file_root", equal.file_root}, {"ranks", ranks}};
}

EqualFiles EqualIn(const json& object) {
  EqualFiles equal{SavedIn(object), JsonInt<uint64_t>(object, "file_root"), {}};
  ForEach(object, "ranks", [&](const json& run) {
    equal.ranks.push_back({JsonInt<uint32_t>(run, "first"), JsonInt<uint32_t>(run, "count")});
  });
  return equal;
}

// The texts of these files; none if one of them is missing. Get() would ask a remote store for a
// file's size first, and these files are replaced all the time.
Result<std::vector<std::string>> TextsAt(Store* store, const std::vector<std::string>& keys) {
  Result<std::vector<std::string>> texts = store->GetAll(keys, kRescueFileBytesMax);
  if (texts.ok() || texts.failure().kind != FailureKind::kNotFound) return texts;
  return std::vector<std::string>();
}

Result<void> PutText(Store* store, const std::string& key, const std::string& text) {
  RETURN_IF_ERROR(store->MakeFolder(kFolder));
  return Put(store, key, text, Store::PutMode::kReplace);
}

}  // namespace

std::string ToText(const RescueCall& call) {
  json shards = json::array();
  for (const RescueShard& shard : call.shards) {
    shards.push_back({{"rank", shard.rank.value()},
                      {"file_of", shard.file_of.value()},
                      {"image_of", shard.image_of.value()},
                      {"node", shard.node}});
  }
  return PrintJson(json{{"schema", kCallSchema},
                        {"job_id", call.job_id},
                        {"id", call.id},
                        {"host", call.host},
                        {"term", call.term},
                        {"beat", call.beat},
                        {"stage", NameOf(call.stage)},
                        {"saved", JsonOf(call.saved)},
                        {"world_size", call.world_size},
                        {"shards", shards}}) +
         "\n";
}

std::optional<RescueCall> ParseRescueCall(const std::string& text) {
  const json object = ParseJson(text);
  if (!object.is_object() || JsonText(object, "schema") != kCallSchema) return std::nullopt;
  const auto stage = StageNamed(JsonText(object, "stage"));
  RescueCall call{.job_id = JsonText(object, "job_id"),
                  .id = JsonText(object, "id"),
                  .host = JsonText(object, "host"),
                  .term = JsonInt<uint64_t>(object, "term"),
                  .beat = JsonInt<uint64_t>(object, "beat"),
                  .saved = SavedIn(object),
                  .world_size = JsonInt<uint32_t>(object, "world_size"),
                  .shards = {}};
  if (!stage.has_value() || call.job_id.empty() || call.id.empty()) return std::nullopt;
  call.stage = *stage;
  ForEach(object, "shards", [&](const json& shard) {
    call.shards.push_back({RankIn(shard, "rank"), RankIn(shard, "file_of"),
                           RankIn(shard, "image_of"), JsonText(shard, "node")});
  });
  return call;
}

std::string ToText(const RescueAnswer& answer) {
  json object = {{"schema", kAnswerSchema},
                 {"job_id", answer.job_id},
                 {"id", answer.id},
                 {"node", answer.node},
                 {"host", answer.host},
                 {"term", answer.term},
                 {"beat", answer.beat},
                 {"stage", NameOf(answer.stage)},
                 {"has_master", answer.has_master},
                 {"has_ended", answer.has_ended},
                 {"images", json::array()},
                 {"equal", json::array()},
                 {"shards", json::array()}};
  for (const MemoryImage& image : answer.images) object["images"].push_back(JsonOf(image));
  for (const EqualFiles& equal : answer.equal) object["equal"].push_back(JsonOf(equal));
  for (const ShardState& shard : answer.shards) {
    object["shards"].push_back({{"rank", shard.rank.value()},
                                {"saved", JsonOf(shard.saved)},
                                {"is_durable", shard.is_durable},
                                {"problem", shard.problem}});
  }
  return PrintJson(object) + "\n";
}

std::optional<RescueAnswer> ParseRescueAnswer(const std::string& text) {
  const json object = ParseJson(text);
  if (!object.is_object() || JsonText(object, "schema") != kAnswerSchema) return std::nullopt;
  const auto stage = StageNamed(JsonText(object, "stage"));
  RescueAnswer answer{.job_id = JsonText(object, "job_id"),
                      .id = JsonText(object, "id"),
                      .node = JsonText(object, "node"),
                      .host = JsonText(object, "host"),
                      .term = JsonInt<uint64_t>(object, "term"),
                      .beat = JsonInt<uint64_t>(object, "beat"),
                      .has_master = JsonBool(object, "has_master", false),
                      .has_ended = JsonBool(object, "has_ended", false),
                      .images = {},
                      .equal = {},
                      .shards = {}};
  if (!stage.has_value() || answer.node.empty()) return std::nullopt;
  answer.stage = *stage;
  ForEach(object, "images", [&](const json& one) { answer.images.push_back(ImageIn(one)); });
  ForEach(object, "equal", [&](const json& one) { answer.equal.push_back(EqualIn(one)); });
  ForEach(object, "shards", [&](const json& one) {
    answer.shards.push_back({.rank = RankIn(one, "rank"),
                             .saved = SavedIn(one),
                             .is_durable = JsonBool(one, "is_durable", false),
                             .problem = JsonText(one, "problem"),
                             .took = {}});
  });
  return answer;
}

Result<std::optional<RescueCall>> ReadRescueCall(Store* store) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, TextsAt(store, {kCallKey}));
  return texts.empty() ? std::nullopt : ParseRescueCall(texts.front());
}

Result<void> PutRescueCall(Store* store, const RescueCall& call) {
  return PutText(store, kCallKey, ToText(call));
}

Result<std::vector<RescueAnswer>> ReadRescueAnswers(Store* store, const RescueCall& call) {
  ASSIGN_OR_RETURN(const std::vector<StoreEntry> files, store->List(kFolder));
  std::vector<std::string> keys;
  for (const StoreEntry& file : files) {
    if (file.name.starts_with(kAnswerPrefix)) keys.push_back(Concat(kFolder, "/", file.name));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, TextsAt(store, keys));
  std::vector<RescueAnswer> answers;
  for (const std::string& text : texts) {
    std::optional<RescueAnswer> answer = ParseRescueAnswer(text);
    const bool counts =
        answer.has_value() && answer->job_id == call.job_id && answer->id == call.id;
    if (counts) answers.push_back(*std::move(answer));
  }
  return answers;
}

Result<void> PutRescueAnswer(Store* store, const RescueAnswer& answer) {
  return PutText(store, Concat(kFolder, "/", kAnswerPrefix, answer.node, kAnswerSuffix),
                 ToText(answer));
}

void RemoveRescueAnswers(Store* store) {
  const Result<std::vector<StoreEntry>> files = store->List(kFolder);
  if (!files.ok()) return;
  for (const StoreEntry& file : *files) {
    if (!file.name.starts_with(kAnswerPrefix)) continue;
    (void)store->Remove(Concat(kFolder, "/", file.name));
  }
}

}  // namespace paceline::ckpt

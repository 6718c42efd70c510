#include "paceline/ckpt/storage/manifest.h"

#include <algorithm>
#include <optional>
#include <set>

#include "paceline/base/hex.h"
#include "paceline/base/json.h"
#include "paceline/base/json_limit.h"
#include "paceline/base/text.h"
#include "paceline/base/utf8.h"
#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::ckpt {
namespace {

using nlohmann::json;

constexpr char kManifestSchema[] = "paceline.checkpoint/1";
constexpr size_t kNameBytesMax = 128;
constexpr uint32_t kRanksMax = 1u << 17;
// A rank has at most ten: its own, and three files with two lists of hashes each.
constexpr uint64_t kContainersMax = uint64_t{10} * kRanksMax;
constexpr uint64_t kManifestDepthMax = 8;  // of the JSON; a manifest has 4

std::optional<uint64_t> FromHex(const json& value) {
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.get_ref<const std::string&>();
  if (text.size() != 16) return std::nullopt;
  uint64_t number = 0;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c < 'a' || c > 'f')) return std::nullopt;
    number = number << 4 | static_cast<uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  return number;
}

Failure BadManifest(std::string_view what) {
  return {FailureKind::kInvalid, Concat("the manifest ", what)};
}

const json& At(const json& object, const char* name) {
  static const json kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

Result<uint64_t> Number(const json& object, const char* name) {
  const json& value = At(object, name);
  if (!value.is_number_unsigned()) return BadManifest(Concat("lacks the number ", name));
  return value.get<uint64_t>();
}

Result<std::string> Name(const json& object, const char* name) {
  const json& value = At(object, name);
  if (!value.is_string() || !IsPlainName(value.get_ref<const std::string&>())) {
    return BadManifest(Concat("has no plain file name as ", name));
  }
  return value.get<std::string>();
}

Failure TooManyRanks() {
  return {FailureKind::kTooLarge, Concat("the manifest has more in it than one of ", kRanksMax,
                                         " ranks, the most that are read")};
}

Result<std::vector<uint64_t>> Hashes(const json& from) {
  std::vector<uint64_t> hashes;
  hashes.reserve(from.size());
  for (const json& one : from) {
    const std::optional<uint64_t> hash = FromHex(one);
    if (!hash.has_value()) return BadManifest("has a hash that is none");
    hashes.push_back(*hash);
  }
  return hashes;
}

json JsonOfHashes(const std::vector<uint64_t>& hashes) {
  json text = json::array();
  for (const uint64_t hash : hashes) text.push_back(Hex(hash, 16));
  return text;
}

Result<std::vector<std::string>> Texts(const json& from) {
  if (from.is_null()) return std::vector<std::string>();
  std::vector<std::string> texts;
  for (const json& one : from) {
    if (!from.is_array() || !one.is_string()) return BadManifest("names tensors by no text");
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

Result<Differing> ParseDiffering(const json& from) {
  if (!from.is_object()) return BadManifest("does not list which tensors differ");
  Differing differing;
  ASSIGN_OR_RETURN(differing.parameters, Texts(At(from, "parameters")));
  ASSIGN_OR_RETURN(differing.others, Texts(At(from, "others")));
  return differing;
}

Result<ManifestFile> ParseFile(const json& from) {
  if (!from.is_object()) return BadManifest("has a file that is not described");
  ManifestFile file;
  ASSIGN_OR_RETURN(file.name, Name(from, "name"));
  ASSIGN_OR_RETURN(file.bytes, Number(from, "bytes"));
  const json& hashes = At(from, "hashes");
  if (!hashes.is_array() || hashes.size() != ChunkCount(file.bytes)) {
    return BadManifest("has a file with another number of hashes than chunks");
  }
  ASSIGN_OR_RETURN(file.hashes, Hashes(hashes));
  if (from.contains("contents")) {
    const json& contents = At(from, "contents");
    if (!contents.is_array()) return BadManifest("lists no hashes of tensors");
    ASSIGN_OR_RETURN(file.contents, Hashes(contents));
  }
  if (from.contains("head")) {
    ASSIGN_OR_RETURN(const uint64_t data_at, Number(from, "data_at"));
    const json& text = At(from, "head");
    if (!text.is_string()) return BadManifest("has a header that is no text");
    ASSIGN_OR_RETURN(file.head, PaddedHead(text.get_ref<const std::string&>(), data_at));
  }
  return file;
}

Result<ManifestRank> ParseRank(const json& from, const std::set<std::string>& names) {
  if (!from.is_object()) return BadManifest("has a rank that is not described");
  ManifestRank rank;
  ASSIGN_OR_RETURN(const uint64_t number, Number(from, "rank"));
  if (number >= kRanksMax) return BadManifest("has a rank beyond all worlds");
  rank.rank = static_cast<uint32_t>(number);
  ASSIGN_OR_RETURN(rank.file, Name(from, "file"));
  ASSIGN_OR_RETURN(rank.notes, Name(from, "notes"));
  if (from.contains("frozen")) {
    ASSIGN_OR_RETURN(rank.frozen, Name(from, "frozen"));
    if (!names.contains(rank.frozen))
      return BadManifest("names a frozen file that it does not list");
  }
  if (!names.contains(rank.notes)) return BadManifest("names notes that it does not list");
  return rank;
}

// The fields of a manifest whose text is bounded and as it was written.
Result<json> CheckedFields(std::string_view text) {
  const JsonLimit limit = JsonLimit::PerByte(text.size(), kManifestDepthMax, 16, 12);
  const JsonShape shape = ShapeOfJson(text, kManifestDepthMax);
  if (shape.containers > kContainersMax) return TooManyRanks();
  if (text.size() > kManifestBytesMax || !limit.Holds(shape)) {
    return Failure{FailureKind::kTooLarge, "the manifest has more in it than one of its size has"};
  }
  json parsed = ParseJson(text);
  if (!parsed.is_object()) return BadManifest("is not a JSON object");
  // Before the check, which takes seconds for such a text.
  if (At(parsed, "ranks").size() > kRanksMax) return TooManyRanks();
  const json& schema = At(parsed, "schema");
  RETURN_IF_ERROR(CheckSchema(schema.is_string() ? schema.get_ref<const std::string&>() : "",
                              kManifestSchema, "the manifest"));
  const std::optional<uint64_t> check = FromHex(At(parsed, "check"));
  parsed.erase("check");
  const std::string body = PrintJson(parsed);
  if (!check.has_value() || *check != HashOf(body.data(), body.size())) {
    return Failure{FailureKind::kDamaged, "the manifest is not the text that was written"};
  }
  return parsed;
}

}  // namespace

const ManifestFile* Manifest::Find(std::string_view name) const {
  for (const ManifestFile& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

const ManifestRank* Manifest::Of(uint32_t rank) const {
  for (const ManifestRank& one : ranks) {
    if (one.rank == rank) return &one;
  }
  return nullptr;
}

uint64_t Manifest::bytes() const {
  uint64_t sum = 0;
  for (const ManifestFile& file : files) sum += file.bytes;
  return sum;
}

bool IsPlainName(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Result<void> CheckSchema(std::string_view schema, std::string_view own, std::string_view what) {
  if (schema == own) return {};
  const size_t slash = own.find('/') + 1;
  const std::string_view number = schema.substr(std::min(slash, schema.size()));
  const bool is_number = !number.empty() && number.size() < 10 && number.front() != '0' &&
                         number.find_first_not_of("0123456789") == std::string_view::npos;
  if (!schema.starts_with(own.substr(0, slash)) || !is_number) {
    return Failure{FailureKind::kInvalid, Concat(what, " is not of ", own)};
  }
  return Failure{FailureKind::kNotHere, Concat("a newer version of paceline wrote ", what, ", as ",
                                               schema, "; this one reads ", own)};
}

std::string ToText(const Manifest& manifest) {
  json files = json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"hashes", JsonOfHashes(file.hashes)}});
    if (!file.contents.empty()) files.back()["contents"] = JsonOfHashes(file.contents);
    if (file.head.empty()) continue;
    files.back()["head"] = JsonOfHead(file.head);
    files.back()["data_at"] = file.head.size();
  }
  json ranks = json::array();
  for (const ManifestRank& rank : manifest.ranks) {
    ranks.push_back({{"rank", rank.rank}, {"file", rank.file}, {"notes", rank.notes}});
    if (!rank.frozen.empty()) ranks.back()["frozen"] = rank.frozen;
  }
  json text = {{"schema", kManifestSchema},
               {"job_id", CleanText(manifest.job_id)},
               {"generation", manifest.generation},
               {"step", manifest.step},
               {"world_size", manifest.world_size},
               {"files", files},
               {"ranks", ranks}};
  // Branch 0 is not written, so most manifests look as they did before branches existed.
  if (manifest.branch > 0) text["branch"] = manifest.branch;
  if (manifest.differing != Differing()) {
    text["differing"] = {{"parameters", manifest.differing.parameters},
                         {"others", manifest.differing.others}};
  }
  const std::string body = PrintJson(text);
  text["check"] = Hex(HashOf(body.data(), body.size()), 16);
  return PrintJson(text, {.indent = 1, .fill = '\t'}) + "\n";
}

Result<Manifest> ParseManifest(std::string_view text) {
  ASSIGN_OR_RETURN(const json parsed, CheckedFields(text));
  Manifest manifest;
  const json& job_id = At(parsed, "job_id");
  const json& step = At(parsed, "step");
  if (!job_id.is_string() || !step.is_number_integer() || step.get<int64_t>() < 0) {
    return BadManifest("lacks its job or step");
  }
  manifest.job_id = job_id.get<std::string>();
  manifest.step = step.get<int64_t>();
  ASSIGN_OR_RETURN(manifest.generation, Number(parsed, "generation"));
  if (parsed.contains("branch")) {
    ASSIGN_OR_RETURN(manifest.branch, Number(parsed, "branch"));
  }
  if (manifest.branch > kBranchMax) return BadManifest("is of an impossible branch");
  ASSIGN_OR_RETURN(const uint64_t world_size, Number(parsed, "world_size"));
  if (world_size > kRanksMax) return BadManifest("is of an impossible world");
  manifest.world_size = static_cast<uint32_t>(world_size);
  if (parsed.contains("differing")) {
    ASSIGN_OR_RETURN(manifest.differing, ParseDiffering(At(parsed, "differing")));
  }
  const json& files = At(parsed, "files");
  const json& ranks = At(parsed, "ranks");
  if (!files.is_array() || !ranks.is_array()) return BadManifest("lists no files or no ranks");
  std::set<std::string> names;
  for (const json& one : files) {
    ASSIGN_OR_RETURN(ManifestFile file, ParseFile(one));
    if (!names.insert(file.name).second) return BadManifest("lists a file twice");
    manifest.files.push_back(std::move(file));
  }
  std::set<uint32_t> seen;
  for (const json& one : ranks) {
    ASSIGN_OR_RETURN(ManifestRank rank, ParseRank(one, names));
    if (!seen.insert(rank.rank).second) return BadManifest("lists a rank twice");
    manifest.ranks.push_back(std::move(rank));
  }
  if (manifest.world_size == 0) return manifest;  // a part
  for (const ManifestRank& rank : manifest.ranks) {
    if (!names.contains(rank.file)) return BadManifest("names a file that it does not list");
  }
  if (manifest.ranks.size() != manifest.world_size || *seen.rbegin() >= manifest.world_size) {
    return BadManifest("does not list every rank");
  }
  return manifest;
}

}  // namespace paceline::ckpt

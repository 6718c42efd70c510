// The manifest of a checkpoint, or a part of one, which may come from anybody. Its check is made to
// hold first: a text that fails it is refused before anything else of it is looked at.

#include <cstdint>
#include <cstdio>
#include <string>

#include "paceline/base/json.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/storage/manifest.h"
#include "parts.h"

namespace {

std::string WithCheck(std::string_view text) {
  nlohmann::json parsed = paceline::ParseJson(text);
  if (!parsed.is_object()) return std::string(text);
  parsed.erase("check");
  const std::string body = paceline::PrintJson(parsed);
  char check[17];
  std::snprintf(check, sizeof(check), "%016llx",
                static_cast<unsigned long long>(paceline::ckpt::HashOf(body.data(), body.size())));
  parsed["check"] = check;
  return paceline::PrintJson(parsed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace ckpt = paceline::ckpt;
  using paceline::fuzz::Demand;
  const std::string_view text = paceline::fuzz::AsText(data, size);
  (void)ckpt::ParseManifest(text).ok();
  const auto manifest = ckpt::ParseManifest(WithCheck(text));
  if (!manifest.ok()) return 0;
  for (const ckpt::ManifestFile& file : manifest->files) {
    Demand(ckpt::IsPlainName(file.name), "a file is no path");
    Demand(file.bytes <= file.hashes.size() * ckpt::kChunkBytes, "every byte has a hash");
  }
  for (const ckpt::ManifestRank& rank : manifest->ranks) {
    Demand(ckpt::IsPlainName(rank.file) && ckpt::IsPlainName(rank.notes), "nor is a rank's");
    if (manifest->world_size == 0) continue;
    Demand(rank.rank < manifest->world_size, "a rank is of the world");
    Demand(manifest->Find(rank.file) != nullptr, "whose file is listed");
  }
  const auto again = ckpt::ParseManifest(ckpt::ToText(*manifest));
  Demand(again.ok(), "what we write we read");
  return 0;
}

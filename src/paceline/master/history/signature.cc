#include "paceline/master/history/signature.h"

#include <dirent.h>

#include <map>
#include <memory>
#include <string_view>

#include "paceline/base/file_text.h"
#include "paceline/base/hex.h"
#include "paceline/base/text.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace paceline::master {
namespace {

constexpr size_t kScriptBytesMax = 16 << 20;

// The value of the first line that begins with `name`, such as "model name : EPYC".
std::string ValueOf(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) return "";
  const std::string_view line = text.substr(at, text.find('\n', at) - at);
  const size_t colon = line.find(':');
  return colon == std::string_view::npos ? "" : std::string(Trimmed(line.substr(colon + 1)));
}

size_t CountOf(std::string_view text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

std::map<std::string, int> GpusIn(const std::string& folder) {
  std::map<std::string, int> count;
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(opendir(folder.c_str()), closedir);
  if (opened == nullptr) return count;
  while (const dirent* entry = readdir(opened.get())) {
    if (entry->d_name[0] == '.') continue;
    const std::string text = ReadText(Concat(folder, "/", entry->d_name, "/information"), 1 << 16);
    const std::string model = ValueOf(text, "Model");
    if (!model.empty()) ++count[model];
  }
  return count;
}

}  // namespace

std::string SignatureOf(const LaunchSpec& launch, const std::string& device) {
  std::string script = launch.target;
  if (launch.entry == EntryKind::kScript) {
    const bool is_absolute = launch.target.starts_with("/");
    const std::string path = is_absolute ? launch.target : Concat(launch.cwd, "/", launch.target);
    const std::string content = ReadText(path, kScriptBytesMax);
    if (!content.empty()) script = content;
  }
  const std::string whole = Concat(static_cast<int>(launch.entry), "\n", device, "\n",
                                   launch.nproc_per_node, "\n", script);
  const XXH128_hash_t hash = XXH3_128bits(whole.data(), whole.size());
  return Hex(hash.high64, 16) + Hex(hash.low64, 16);
}

std::string DeviceOf(const std::string& root) {
  const std::string cpus = ReadText(root + "/proc/cpuinfo", 4 << 20);
  const std::string model = ValueOf(cpus, "model name");
  std::string text =
      Concat(model.empty() ? "processor" : model, " x ", CountOf(cpus, "processor\t"));
  for (const auto& [name, count] : GpusIn(root + "/proc/driver/nvidia/gpus")) {
    text += Concat(", ", count, " x ", name);
  }
  return text;
}

}  // namespace paceline::master

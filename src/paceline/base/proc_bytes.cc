#include "paceline/base/proc_bytes.h"

#include "paceline/base/text.h"

namespace paceline {

std::optional<uint64_t> ProcBytes(std::string_view text, std::string_view name) {
  for (std::string_view line : SplitParts(text, "\n")) {
    if (!TakePrefix(&line, name)) continue;
    const std::string_view number = Trimmed(line.substr(0, line.find("kB")));
    const std::optional<uint64_t> kib = ParseWhole<uint64_t>(number);
    return kib.has_value() ? std::optional(*kib * 1024) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace paceline

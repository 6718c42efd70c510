#pragma once

// The environment as a value, read once in main and handed down, so that nothing else calls getenv.

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::cli {

using Environment = std::map<std::string, std::string, std::less<>>;

// The environment of this process.
Environment ReadEnvironment();

// Returns nothing if the variable is unset.
inline std::optional<std::string> Lookup(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  return found->second;
}

// Returns `otherwise` if the variable is unset or empty.
inline std::string LookupOr(const Environment& environment, std::string_view name,
                            std::string_view otherwise) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::string(otherwise);
  return found->second;
}

}  // namespace paceline::cli

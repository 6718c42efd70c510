#pragma once

// Small files that only their owner may read.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline::wire {

// With mode 0600 and durable. Readers see the old or the new content.
absl::Status WriteSecretFile(const std::string& path, std::string_view text);

// NOT_FOUND. PERMISSION_DENIED with a Problem (PL-E103): it is a link, belongs to another user, or
// others can read it. INVALID_ARGUMENT: larger than `bytes_max`.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path, size_t bytes_max);

}  // namespace paceline::wire

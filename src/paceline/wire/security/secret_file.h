#pragma once

// Small files that only their owner may read.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline::wire {

// Written beside with mode 0600, synced, renamed: the old content or the new one, never a part.
absl::Status WriteSecretFile(const std::string& path, std::string_view text);

// NOT_FOUND; PERMISSION_DENIED with a Problem (PL-E103) when it is a link, belongs to another user
// or others can read it; INVALID_ARGUMENT when it is larger than `bytes_max`.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path, size_t bytes_max);

}  // namespace paceline::wire

#pragma once

// spec.json of a run directory: the request to `paceline run`, for the master (its JobSpec) and for
// this host's agents (their LaunchSpec). JSON with a schema name and mode 0600, because it has
// environment variables. An unknown or malformed field is an error; a missing one has its default.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/model/job_spec.h"

namespace paceline::wire {

struct SpecFile {
  JobSpec job;
  LaunchSpec launch;
  bool operator==(const SpecFile&) const = default;
};

// INVALID_ARGUMENT: a text is not UTF-8.
absl::StatusOr<std::string> FormatSpec(const SpecFile& spec);
// INVALID_ARGUMENT: not a spec, or larger than 8 MiB.
absl::StatusOr<SpecFile> ParseSpec(std::string_view text);

// Atomic: temporary file, sync, rename.
absl::Status WriteSpecFile(const SpecFile& spec, const std::string& path);
// NOT_FOUND, INVALID_ARGUMENT.
absl::StatusOr<SpecFile> ReadSpecFile(const std::string& path);

}  // namespace paceline::wire

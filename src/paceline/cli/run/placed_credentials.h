#pragma once

// --credentials DIR: the proof of identity that a platform gives to the hosts it starts. The
// platform made the job's CA and token, and a host finds them in files: token and ca.pem
// everywhere, ca.key on the master's host alone.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "paceline/cli/console/error.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::cli {

// File modes are not checked: the platform decides who may read the mount.
Result<std::string> ReadCredential(const std::string& dir, std::string_view name);

// The id of the job of that name, the same for each of its masters: the name and some digits of the
// fingerprint of the job's CA.
Result<std::string> PlacedJobId(const std::string& dir, std::string_view name);

// For a node: as if its user had typed this job's join string.
Result<wire::JoinString> PlacedJoin(const std::string& dir, const std::string& address);

// For the master. A missing file is NOT_FOUND.
absl::StatusOr<wire::ServerCredentials> PlacedServer(const std::string& dir,
                                                     std::string_view token);

}  // namespace paceline::cli

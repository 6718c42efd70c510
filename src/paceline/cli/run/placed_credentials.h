#pragma once

// --credentials DIR: the credentials that a platform gives to the hosts it starts. The platform has
// made the job's CA and token. A host has them in files: token and ca.pem on every host, ca.key
// only on the master's.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "paceline/cli/console/error.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::cli {

// File modes are not checked, because the platform decides who may read the mount.
Result<std::string> ReadCredential(const std::string& dir, std::string_view name);

// The job's id, the same for all its masters: the name and some digits of the fingerprint of the
// job's CA.
Result<std::string> PlacedJobId(const std::string& dir, std::string_view name);

// For a node: the credentials that a join string would give.
Result<wire::JoinString> PlacedJoin(const std::string& dir, const std::string& address);

// For the master. A missing file is NOT_FOUND.
absl::StatusOr<wire::ServerCredentials> PlacedServer(const std::string& dir,
                                                     std::string_view token);

}  // namespace paceline::cli

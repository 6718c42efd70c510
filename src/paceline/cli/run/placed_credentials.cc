#include "paceline/cli/run/placed_credentials.h"

#include "paceline/base/file_text.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::cli {
namespace {

constexpr size_t kCredentialBytesMax = 64 << 10;

absl::StatusOr<std::string> Pem(const std::string& dir, std::string_view name) {
  Result<std::string> text = ReadCredential(dir, name);
  if (text.ok()) return *text + "\n";
  return MakeStatus(absl::StatusCode::kNotFound,
                    Concat(text.problem().where, " is not there or cannot be read"));
}

Result<std::string> Fingerprint(const std::string& dir) {
  Result<std::string> authority = ReadCredential(dir, "ca.pem");
  if (!authority.ok()) return authority.problem();
  const absl::StatusOr<std::string> print = wire::CaFingerprint(*authority + "\n");
  if (print.ok()) return *print;
  return Problem{.code = "PL-E105",
                 .what = "the job's CA cannot be read",
                 .where = dir + "/ca.pem",
                 .why = std::string(print.status().message()),
                 .fix = "the platform that starts this node writes this file; start the job again"};
}

}  // namespace

Result<std::string> ReadCredential(const std::string& dir, std::string_view name) {
  const std::string path = Concat(dir, "/", name);
  std::string text(Trimmed(ReadText(path, kCredentialBytesMax)));
  if (!text.empty()) return text;
  return Problem{.code = "PL-E102",
                 .what = "the job's credentials are not there",
                 .where = path,
                 .why = "the file is missing, empty or not readable by this user",
                 .fix =
                     "--credentials names a directory with token and ca.pem; on the master's "
                     "host with ca.key, too"};
}

Result<std::string> PlacedJobId(const std::string& dir, std::string_view name) {
  constexpr size_t kDigits = 6;
  Result<std::string> print = Fingerprint(dir);
  if (!print.ok()) return print.problem();
  return Concat(name, "-", print->substr(0, kDigits));
}

Result<wire::JoinString> PlacedJoin(const std::string& dir, const std::string& address) {
  Result<std::string> token = ReadCredential(dir, "token");
  if (!token.ok()) return token.problem();
  Result<std::string> print = Fingerprint(dir);
  if (!print.ok()) return print.problem();
  return wire::JoinString{.address = address, .ca_sha256 = *print, .token = *token};
}

absl::StatusOr<wire::ServerCredentials> PlacedServer(const std::string& dir,
                                                     std::string_view token) {
  ASSIGN_OR_RETURN(std::string authority, Pem(dir, "ca.pem"));
  ASSIGN_OR_RETURN(std::string key, Pem(dir, "ca.key"));
  return wire::MakeServerCredentialsOf(std::move(authority), std::move(key), token);
}

}  // namespace paceline::cli

#include "paceline/cli/run/secret_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::cli {
namespace {

constexpr size_t kSecretBytesMax = 4096;

// A missing file is reported when it is read.
Check CheckPrivate(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  if (found.st_uid == ::geteuid() && (found.st_mode & 077) == 0) return std::nullopt;
  return Problem{.code = "PL-E103",
                 .what = "a file with the job's secret is readable by others",
                 .where = path,
                 .why = "anybody who reads it can control the job",
                 .fix = Concat("chmod 600 ", path)};
}

}  // namespace

std::string ReadSecret(const std::string& path) {
  return std::string(Trimmed(ReadText(path, kSecretBytesMax)));
}

Result<std::string> ReadTokenFile(const std::string& path) {
  if (Check problem = CheckPrivate(path)) return *problem;
  const bool exists = ::access(path.c_str(), F_OK) == 0;
  std::string token = ReadSecret(path);
  if (wire::IsToken(token)) return token;
  return Problem{.code = "PL-E102",
                 .what = "the token file holds no token",
                 .where = path,
                 .why = exists ? "a token is 64 hexadecimal digits" : "there is no such file",
                 .fix = Concat("openssl rand -hex 32 > ", path, "; chmod 600 ", path)};
}

Result<std::string> ReadJoinText(const std::string& given) {
  if (given.find('/') == std::string::npos || given.starts_with("paceline-join:")) return given;
  if (Check problem = CheckPrivate(given)) return *problem;
  return ReadSecret(given);
}

}  // namespace paceline::cli

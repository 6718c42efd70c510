#include "paceline/cli/run/tables_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/server/one_server.h"

namespace paceline::cli {
namespace {

std::string WhyUnusable(const std::string& directory) {
  struct stat found {};
  if (::stat(directory.c_str(), &found) != 0) {
    return errno == ENOENT ? "" : std::strerror(errno);  // the first server makes it
  }
  if (!S_ISDIR(found.st_mode)) return "it is no directory";
  if (found.st_uid != ::geteuid()) {
    return Concat("it belongs to the user with the number ", found.st_uid,
                  ", who could put other rows into it");
  }
  if (::access(directory.c_str(), R_OK | W_OK | X_OK) != 0) return std::strerror(errno);
  const std::string job = server::JobThatServes(directory);
  return job.empty() ? "" : Concat("the servers of the job ", Visible(job), " use it");
}

}  // namespace

Check CheckTablesPlace(const std::string& directory) {
  if (directory.empty()) return std::nullopt;
  std::string why = WhyUnusable(directory);
  if (why.empty()) return std::nullopt;
  return Problem{.code = "PL-E205",
                 .what = Concat("tables cannot be kept in ", Visible(directory)),
                 .where = "--tables",
                 .why = std::move(why),
                 .fix = "--tables a directory of your own that no job uses"};
}

Check NameTablesJob(const std::string& directory, const std::string& job_id) {
  if (directory.empty()) return std::nullopt;
  const absl::Status named = server::NameJob(directory, job_id);
  if (named.ok()) return std::nullopt;
  return Problem{.code = "PL-E205",
                 .what = Concat("tables cannot be kept in ", Visible(directory)),
                 .where = "--tables",
                 .why = std::string(named.message()),
                 .fix = "--tables a directory of your own that this host can write"};
}

}  // namespace paceline::cli

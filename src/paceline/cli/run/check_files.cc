#include "paceline/cli/run/check_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>

#include "paceline/agent/checks/check_line.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

bool HasInterpreter(std::string_view path) {
  return path.ends_with(".py") || path.ends_with(".sh");
}

// Why this file cannot be started; "": it can.
std::string WhyNot(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return std::strerror(errno);
  if (!S_ISREG(file.st_mode)) return "it is no file";
  const bool is_startable = ::access(path.c_str(), X_OK) == 0 ||
                            (HasInterpreter(path) && ::access(path.c_str(), R_OK) == 0);
  return is_startable ? "" : "it is not executable, and its name ends neither in .py nor in .sh";
}

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::vector<std::string> CheckFiles(const ParsedLine& line, const SettingValues& settings,
                                    const std::string& cwd) {
  std::vector<std::string> files;
  for (const Given& given : line.given) {
    if (given.flag->dest != "check") continue;
    for (std::string& file : ParseCommaList(given.value)) files.push_back(std::move(file));
  }
  if (files.empty()) files = settings.List("check.run");
  for (std::string& file : files) {
    if (!file.empty() && file.front() != '/') file = Concat(cwd, "/", file);
  }
  if (settings.OnOff("check.host")) files.insert(files.begin(), std::string(agent::kHostCheck));
  return files;
}

Check CheckTheChecks(const std::vector<std::string>& checks, const std::string& host) {
  std::set<std::string_view> names;
  for (const std::string& path : checks) {
    if (!names.insert(BaseName(path)).second) {
      return Problem{
          .code = "PL-E236",
          .what = Concat("two checks have the name ", Visible(std::string(BaseName(path)))),
          .where = "--check",
          .why = "a check's log, its reason and its numbers are named after its file",
          .fix = "rename one of the two files"};
    }
    if (path == agent::kHostCheck) continue;
    const std::string why = WhyNot(path);
    if (why.empty()) continue;
    return Problem{.code = "PL-E235",
                   .what = Concat("the check ", Visible(path), " cannot be started"),
                   .where = Concat("--check, on host ", Visible(host)),
                   .why = why,
                   .fix = Concat("chmod +x ", ShellWord(path),
                                 ", or give the path that it has on "
                                 "each host")};
  }
  return std::nullopt;
}

}  // namespace paceline::cli

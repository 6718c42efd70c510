#include "paceline/cli/run/notify_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

bool IsProgram(const std::string& path) {
  struct stat file = {};
  return ::stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

Check CheckNotifyCommand(const std::vector<std::string>& command, const std::string& path,
                         const std::string& cwd) {
  if (command.empty()) return std::nullopt;
  const std::string& program = command.front();
  const bool has_slash = program.find('/') != std::string::npos;
  bool is_there = false;
  if (has_slash) {
    is_there = IsProgram(program.front() == '/' ? program : Concat(cwd, "/", program));
  } else if (!program.empty()) {
    for (const std::string& folder : Split(path, ':')) {
      is_there = is_there || IsProgram(Concat(folder.empty() ? cwd : folder, "/", program));
    }
  }
  if (is_there) return std::nullopt;
  return Problem{.code = "PL-E013",
                 .what = Concat("notify.command names no program: ", Visible(program)),
                 .where = "the setting notify.command",
                 .why = has_slash ? "there is no such executable file on this host"
                                  : "no folder of PATH has such a program",
                 .fix =
                     "command = [\"PROGRAM\", \"ARGUMENT\"]; a shell only if it is named: "
                     "[\"sh\", \"-c\", \"…\"]"};
}

}  // namespace paceline::cli

#include "paceline/cli/run/entry.h"

#include <sys/stat.h>
#include <unistd.h>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

Problem NoScript(const std::string& why) {
  return Problem{.code = "PL-E007",
                 .what = "no script was given",
                 .where = "the command line",
                 .why = why,
                 .fix = "paceline run --nproc-per-node 2 train.py"};
}

Problem MissingEntry(const std::string& target, const HostFacts& facts, const std::string& why) {
  return Problem{.code = "PL-E008",
                 .what = "the script " + target + " cannot be run",
                 .where = facts.cwd,
                 .why = why,
                 .fix = target.starts_with("-") ? "the script stands after paceline's flags"
                                                : "check the path; ls " + ShellWord(target)};
}

}  // namespace

Result<EntryKind> FindEntry(const std::vector<std::string>& words, const EntrySwitches& switches,
                            const Environment& environment, const HostFacts& facts) {
  if (words.empty()) return NoScript("flags come first, then the script, then its arguments");
  const std::string& target = words.front();
  if (target.empty()) {
    return NoScript(
        "the first word after the flags is empty, as a variable of the shell that is not set");
  }
  if (facts.cwd.empty()) {
    return Problem{.code = "PL-E008",
                   .what = "the script " + target + " cannot be run",
                   .where = "the current directory",
                   .why = "it was removed, or may not be read, and ranks start in it",
                   .fix = "cd to another directory"};
  }
  if (switches.is_program && switches.is_module) {
    return Problem{.code = "PL-E005",
                   .what = "--no-python and --module exclude each other",
                   .where = "the command line",
                   .why = "a module needs Python to run it",
                   .fix = "leave one of them out"};
  }
  if (switches.is_program) {
    if (!FindProgram(environment, target).empty()) return EntryKind::kExec;
    return MissingEntry(target, facts, "no executable file of that name is there or in PATH");
  }
  if (switches.is_module) return EntryKind::kModule;
  struct stat status {};
  if (stat(target.c_str(), &status) != 0) {
    return MissingEntry(target, facts, "there is no such file");
  }
  if (access(target.c_str(), R_OK) != 0) {
    return MissingEntry(target, facts, "it is not readable by you");
  }
  const std::string main = target + "/__main__.py";
  if (S_ISDIR(status.st_mode) && access(main.c_str(), F_OK) != 0) {
    return MissingEntry(target, facts, "it is a folder without a __main__.py");
  }
  return EntryKind::kScript;
}

std::string NameOfTarget(const std::string& target) {
  std::string name = target.substr(target.rfind('/') + 1);
  if (name.ends_with(".py")) name.resize(name.size() - 3);
  return name.empty() ? "job" : name;
}

}  // namespace paceline::cli

#include "paceline/cli/run/interpreter.h"

#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "paceline/base/spawn.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {

namespace {

constexpr int kLinksMax = 40;  // as in the kernel

// The folder of a path; "." without one.
std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

// What the links at the end of the path lead to: .venv/bin/python is a link in most environments.
std::string EndOfLinks(std::string path) {
  for (int i = 0; i < kLinksMax; ++i) {
    char target[PATH_MAX];
    const ssize_t size = ::readlink(path.c_str(), target, sizeof(target));
    if (size <= 0) return path;
    const std::string next(target, static_cast<size_t>(size));
    path = next.starts_with("/") ? next : Concat(FolderOf(path), "/", next);
  }
  return path;
}

// The outermost folder on the way to `path` that this user may not enter; "" if there is none.
std::string ClosedFolder(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (::access(folder.c_str(), X_OK) != 0 && errno == EACCES) return folder;
  }
  return "";
}

// Why this user cannot run the program at that path.
std::string WhyNotRunnable(const std::string& path) {
  const std::string end = EndOfLinks(path);
  const std::string way = end == path ? "it" : Concat("it leads to ", end, ", which");
  const std::string user = Concat("this user (uid ", ::geteuid(), ")");
  if (const std::string closed = ClosedFolder(end); !closed.empty()) {
    return Concat(end == path ? "" : Concat("it leads to ", end, ", and "), user, " may not enter ",
                  closed);
  }
  struct stat found {};
  if (::stat(end.c_str(), &found) != 0) {
    return errno == ENOENT ? Concat(way, " does not exist")
                           : Concat(way, " cannot be read: ", std::strerror(errno));
  }
  if (!S_ISREG(found.st_mode)) return Concat(way, " is no file");
  return Concat(way, " may not be executed by ", user);
}

Problem NotRunnable(const std::string& path, std::string_view origin) {
  return Problem{.code = "PL-E009",
                 .what = Concat("the Python interpreter ", path, " cannot be run"),
                 .where = std::string(origin),
                 .why = WhyNotRunnable(path),
                 .fix =
                     "let this user execute it, make the environment again from an interpreter "
                     "that this user can run, or set launch.python"};
}

bool IsThere(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

// The interpreter of the environment that the user works in: the one beside paceline, else the one
// of the active virtual environment. It may be one that this user cannot run. "" if there is none.
std::string OfEnvironment(const Environment& environment, const HostFacts& facts) {
  std::vector<std::string> folders = {facts.binary_dir};
  const std::string active = LookupOr(environment, "VIRTUAL_ENV", "") + "/bin";
  const std::vector<std::string> path = Split(LookupOr(environment, "PATH", ""), ':');
  if (std::find(path.begin(), path.end(), active) != path.end()) folders.push_back(active);
  std::string first;
  for (const std::string& folder : folders) {
    for (const char* name : {"/python", "/python3"}) {
      if (!FindProgram(environment, folder + name).empty()) return folder + name;
      if (first.empty() && IsThere(folder + name)) first = folder + name;
    }
    if (!first.empty()) return first;
  }
  return "";
}

std::string Absolute(const std::string& path, const HostFacts& facts) {
  return path.starts_with("/") ? path : Concat(facts.cwd, "/", path);
}

}  // namespace

Result<std::string> FindInterpreter(const Environment& environment, const SettingValues& settings,
                                    const HostFacts& facts) {
  std::string wanted = settings.Text("launch.python");
  std::string origin = settings.Get("launch.python").origin;
  if (wanted.empty()) {
    wanted = LookupOr(environment, "PYTHON_EXEC", "");
    origin = "PYTHON_EXEC";
  }
  if (wanted.empty()) {
    // Another interpreter would lack the environment's packages, so it is never a substitute.
    wanted = OfEnvironment(environment, facts);
    origin = wanted;
  }
  if (!wanted.empty()) {
    const std::string found = FindProgram(environment, wanted);
    if (!found.empty()) return Absolute(found, facts);
    if (wanted.find('/') != std::string::npos) return NotRunnable(wanted, origin);
  }
  for (const char* name : {"python3", "python"}) {
    if (!wanted.empty()) break;
    const std::string found = FindProgram(environment, name);
    if (!found.empty()) return Absolute(found, facts);
  }
  return Problem{.code = "PL-E009",
                 .what = "there is no Python interpreter to run the script",
                 .where = wanted.empty() ? "PATH" : origin,
                 .why = wanted.empty() ? "no python3 is beside paceline or in PATH"
                                       : wanted + " is no executable file in PATH",
                 .fix = "activate your virtual environment, or set launch.python"};
}

namespace {

constexpr int kLacksModule = 42;  // no exit code of Python itself

// The wait status of an interpreter that was asked for the module: exit code 0 or kLacksModule. -1:
// it did not start.
int AskForModule(const std::string& python, const std::string& module) {
  const std::string script =
      Concat("import importlib.util,sys;sys.exit(0 if importlib.util.find_spec('", module,
             "') else ", kLacksModule, ")");
  auto child = SpawnDetached({.argv = {python, "-P", "-c", script}, .env = CurrentEnvironment()});
  int status = 0;
  if (!child.ok() || ::waitpid(child->pid, &status, 0) != child->pid) return -1;
  return status;
}

}  // namespace

bool HasModule(const std::string& python, const std::string& module) {
  return AskForModule(python, module) == 0;
}

Check CheckPreload(const std::string& python, const std::vector<std::string>& modules) {
  if (modules.empty()) return std::nullopt;
  // Finds a module without importing its package. The exit code counts the first missing one. A
  // module that makes its submodules itself, such as six.moves, is not doubted.
  constexpr char kScript[] = R"(import sys
for at, name in enumerate(sys.argv[1:101]):
    path, done = None, ""
    for part in [] if name in sys.modules else name.split("."):
        done = done + "." + part if done else part
        found = next((spec for finder in sys.meta_path if hasattr(finder, "find_spec")
                      and (spec := finder.find_spec(done, path)) is not None), None)
        if found is None:
            sys.exit(100 + at)
        path = found.submodule_search_locations
        if path is None:
            break
)";
  SpawnRequest request{.argv = {python, "-P", "-c", kScript}, .env = CurrentEnvironment()};
  request.argv.insert(request.argv.end(), modules.begin(), modules.end());
  auto child = SpawnDetached(request);
  int status = 0;
  if (!child.ok() || ::waitpid(child->pid, &status, 0) != child->pid) return std::nullopt;
  const int missing = WIFEXITED(status) ? WEXITSTATUS(status) - 100 : -1;
  if (missing < 0 || static_cast<size_t>(missing) >= modules.size()) return std::nullopt;
  const std::string& name = modules[static_cast<size_t>(missing)];
  return Problem{.code = "PL-E003",
                 .what = Concat("the module ", name, " cannot be loaded ahead"),
                 .where = "--preload, or the setting launch.preload",
                 .why = Concat(python, " finds no module of that name"),
                 .fix = "correct the name, or install the module for that interpreter"};
}

Check CheckInterpreter(const std::string& python, const HostFacts& facts) {
  const bool is_ours = python.substr(0, python.rfind('/')) == facts.binary_dir;
  const int status = is_ours ? 0 : AskForModule(python, "paceline");
  if (status == 0) return std::nullopt;
  if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != kLacksModule) {
    const std::string how = status == -1 ? "did not start"
                            : WIFSIGNALED(status)
                                ? Concat("was killed by signal ", WTERMSIG(status))
                                : Concat("ended with exit code ", WEXITSTATUS(status));
    return Problem{.code = "PL-E009",
                   .what = "the Python interpreter cannot be used",
                   .where = python,
                   .why = Concat("it ", how, " when it was asked for the paceline package"),
                   .fix = Concat(ShellWord(python), " -P -c 'import paceline' shows why")};
  }
  return Problem{.code = "PL-E009",
                 .what = "the Python interpreter lacks the paceline package",
                 .where = python,
                 .why = "the starter and the rank bootstrap are Python modules",
                 .fix = "run the paceline of the environment that has it, or set launch.python"};
}

}  // namespace paceline::cli

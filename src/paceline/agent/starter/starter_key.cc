#include "paceline/agent/starter/starter_key.h"

#include <glob.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "paceline/agent/ranks/rank_env.h"
#include "paceline/base/file_text.h"
#include "paceline/base/hex.h"
#include "paceline/base/number_text.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr size_t kProcBytesMax = 64 << 10;

// Variables of the terminal and of one shell or job. No library of a rank reads them.
constexpr std::array<std::string_view, 12> kIgnored = {
    "_",     "PWD",  "OLDPWD", "SHLVL",    "TERM",      "COLUMNS",
    "LINES", "TMUX", "STY",    "WINDOWID", "TMUX_PANE", "COLORTERM"};
constexpr std::array<std::string_view, 2> kIgnoredPrefixes = {"PACELINE_", "SSH_"};

bool IsIgnored(std::string_view name) {
  for (std::string_view ignored : kIgnored) {
    if (name == ignored) return true;
  }
  for (std::string_view prefix : kIgnoredPrefixes) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

// FNV-1a twice with different starts: stable over processes and releases, unlike a library's hash.
// It need not resist attacks: these inputs are the user's own.
class Digest {
 public:
  void Add(std::string_view text) {
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
    AddByte(0);  // so that "ab","c" differs from "a","bc"
  }
  std::string Hex() const { return paceline::Hex(low_, 16) + paceline::Hex(high_, 16); }

 private:
  void AddByte(unsigned char byte) {
    constexpr uint64_t kPrime = 0x100000001b3;
    low_ = (low_ ^ byte) * kPrime;
    high_ = (high_ ^ byte) * kPrime;
    high_ ^= low_ >> 29;
  }
  uint64_t low_ = 0xcbf29ce484222325;
  uint64_t high_ = 0x84222325cbf29ce4;
};

// Changes if the file is replaced, or if files are installed into the directory.
std::string Stamp(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return "none";
  return Concat(found.st_dev, ".", found.st_ino, ".", found.st_mtim.tv_sec, ".",
                found.st_mtim.tv_nsec);
}

// Installing a package into a virtual environment changes this directory.
std::string PackagesStamp(const std::string& python) {
  const std::string pattern =
      Concat(python.substr(0, python.rfind('/') + 1), "../lib/python3*/site-packages");
  glob_t found{};
  std::string stamps;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      Append(&stamps, Stamp(found.gl_pathv[i]), " ");
    }
  }
  ::globfree(&found);
  return stamps;
}

constexpr std::array<const char*, 6> kNamespaces = {"ipc", "mnt", "net", "pid", "user", "uts"};

std::string Namespaces() {
  std::string text;
  for (const char* name : kNamespaces) {
    struct stat found {};
    if (::stat(Concat("/proc/self/ns/", name).c_str(), &found) == 0) {
      Append(&text, name, found.st_ino, " ");
    }
  }
  return text;
}

// Lines of /proc/self/status that a new process inherits.
constexpr std::array<std::string_view, 10> kInherited = {
    "Umask",  "Groups", "CapInh",     "CapPrm",  "CapEff",
    "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Cpus_allowed"};

// The limits and rights that ranks inherit: those that a shell sets with ulimit, taskset, nice,
// umask or sg, and those of a container.
std::string ProcessLimits() {
  std::string text = ReadText("/proc/self/limits", kProcBytesMax);
  Append(&text, ::getpriority(PRIO_PROCESS, 0), ReadText("/proc/self/oom_score_adj", 64));
  const std::string status = ReadText("/proc/self/status", kProcBytesMax);
  for (const std::string_view name : kInherited) {
    const size_t begin = status.find(Concat("\n", name, ":"));
    if (begin == std::string::npos) continue;
    text += status.substr(begin, status.find('\n', begin + 1) - begin);
  }
  return text;
}

// The starter's working directory is "/".
std::string AbsoluteTarget(const LaunchSpec& launch) {
  const bool is_relative = launch.entry == EntryKind::kScript && !launch.target.starts_with("/");
  return is_relative ? Concat(launch.cwd, "/", launch.target) : launch.target;
}

}  // namespace

std::string StarterKey(const LaunchSpec& launch, const Environment& base) {
  Digest digest;
  digest.Add("starter/1");
  digest.Add(launch.python);
  digest.Add(Stamp(launch.python));
  digest.Add(PackagesStamp(launch.python));
  digest.Add(Concat(::geteuid(), ".", ::getegid(), ".", Namespaces()));
  digest.Add(ProcessLimits());
  digest.Add(ReadText("/proc/self/cgroup", kProcBytesMax));
  digest.Add(Concat(static_cast<int>(launch.entry), ":", AbsoluteTarget(launch)));
  digest.Add(JoinWith(launch.preload, ","));
  if (!launch.warm) digest.Add("cold");
  for (const auto& [name, value] : JobEnvironment(launch, base)) {
    if (IsIgnored(name)) continue;
    digest.Add(name);
    digest.Add(value);
  }
  return digest.Hex();
}

StarterPlace PlaceOfStarter(const LaunchSpec& launch, const Environment& base,
                            const StarterHome& home) {
  std::string key = StarterKey(launch, base);
  if (!home.salt.empty()) {
    Digest digest;
    digest.Add(key);
    digest.Add(home.salt);
    key = digest.Hex();
  }
  const std::string dir = Concat(home.runtime_dir, "/starters/", key);
  MakeDirs(dir, 0700).IgnoreError();  // the connection reports a failure
  StarterPlace place;
  place.socket_path = Concat(dir, "/sock");
  place.log_path = home.log_path;
  place.argv = {launch.python,
                "-m",
                "paceline._starter",
                "--key",
                key,
                "--info",
                Concat(dir, "/info.json"),
                "--keep-warm",
                NumberText(launch.keep_warm.ToSecondsF())};
  // Without warm starts it would load the script's modules for nobody.
  if (launch.warm && launch.entry == EntryKind::kScript) {
    place.argv.insert(place.argv.end(), {"--entry", AbsoluteTarget(launch)});
  } else if (launch.warm && launch.entry == EntryKind::kModule) {
    place.argv.insert(place.argv.end(), {"--entry-module", launch.target});
  }
  if (!launch.preload.empty()) {
    place.argv.insert(place.argv.end(), {"--preload", JoinWith(launch.preload, ",")});
  }
  // Libraries read some of it at their import, so the starter must have the ranks' environment.
  for (const auto& [name, value] : JobEnvironment(launch, base)) {
    // The starter may outlive this job and serve the next one.
    if (name != "PACELINE_JOB_ID") place.env.push_back(Concat(name, "=", value));
  }
  return place;
}

}  // namespace paceline::agent

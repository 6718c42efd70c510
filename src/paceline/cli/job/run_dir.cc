#include "paceline/cli/job/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/find_job.h"
#include "paceline/model/job_file_limit.h"

namespace paceline::cli {
namespace {

using nlohmann::json;

json ProcessJson(const agent::ProcessId& process) {
  return {{"pid", process.pid}, {"start_time", process.start_time_ticks}};
}

agent::ProcessId ProcessFrom(const json& object) {
  return {JsonInt<int32_t>(object, "pid"), JsonInt<uint64_t>(object, "start_time")};
}

// The pid in job.json may belong to another program now; its environment tells.
agent::ProcessId LivingMaster(int32_t pid, const std::string& job_id) {
  if (pid <= 0) return {};
  const agent::ProcessId process{pid, agent::StartTimeOf(pid)};
  const std::string environment = ReadText(Concat("/proc/", pid, "/environ"), kJobFileBytesMax);
  const std::string wanted = Concat("PACELINE_JOB_ID=", job_id);
  const size_t at = environment.find(wanted);
  const bool is_ours = at != std::string::npos && (at == 0 || environment[at - 1] == '\0') &&
                       environment.c_str()[at + wanted.size()] == '\0';
  return is_ours && agent::IsAlive(process) ? process : agent::ProcessId{};
}

std::vector<std::string> TextsFrom(const json& object, const char* name) {
  std::vector<std::string> texts;
  const auto field = object.find(name);
  if (field == object.end() || !field->is_array()) return texts;
  for (const json& text : *field) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

Problem Unusable(const std::string& path, const std::string& why) {
  return Problem{.code = "PL-E021",
                 .what = "the run directory cannot be used",
                 .where = path,
                 .why = why,
                 .fix = "paceline run --run-dir DIR …, with a DIR that you can write"};
}

bool IsPrivate(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == ::geteuid() && (found.st_mode & 077) == 0;
}

// "" if nothing can be made there. Another user may have taken the usual name.
std::string TemporaryParent(const Environment& environment) {
  const std::string usual =
      Concat(LookupOr(environment, "TMPDIR", "/tmp"), "/paceline-runs-", ::geteuid());
  if (::mkdir(usual.c_str(), 0700) == 0 || IsPrivate(usual)) return usual;
  std::string made = usual + "-XXXXXX";
  return ::mkdtemp(made.data()) == nullptr ? "" : made;
}

// "" if the user has no place of that kind, as in a container without a home or with a read-only
// one.
std::string LastingParent(const RunDirRequest& request, const Environment& environment) {
  if (request.is_cwd_writable && !request.cwd.empty()) return request.cwd + "/runs";
  const std::string home = LookupOr(environment, "HOME", "");
  const std::string state =
      LookupOr(environment, "XDG_STATE_HOME", home.empty() ? "" : home + "/.local/state");
  if (state.empty()) return "";
  std::string parent = state + "/paceline/runs";
  const bool is_usable = MakeDirs(parent, 0700).ok() && ::access(parent.c_str(), W_OK) == 0;
  return is_usable ? parent : "";
}

bool HoldsJob(const std::string& path) {
  return ::access((path + "/job.json").c_str(), F_OK) == 0 ||
         ::access((path + "/journal.db").c_str(), F_OK) == 0;
}

Check CheckDirectory(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return Unusable(path, std::strerror(errno));
  if (!S_ISDIR(found.st_mode)) return Unusable(path, "it is not a directory");
  if (found.st_uid != ::geteuid()) return Unusable(path, "it belongs to another user");
  if (::access(path.c_str(), W_OK) != 0) return Unusable(path, std::strerror(errno));
  return std::nullopt;
}

// Whoever owns a symbolic link on the way can exchange the directory behind it.
Check CheckLinks(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    struct stat found {};
    if (::lstat(part.c_str(), &found) == 0 && S_ISLNK(found.st_mode) &&
        found.st_uid != ::geteuid() && found.st_uid != 0) {
      return Unusable(path, Concat("the symbolic link ", part, " belongs to another user"));
    }
    if (end == std::string::npos) return std::nullopt;
  }
}

// What a resumed job reads from its directory, and writes to.
Check CheckEntries(const std::string& path) {
  for (const char* name : {"data.db", "errors", "job.json", "journal.db", "lock", "logs", "nodes",
                           "reading_token", "spec.json", "tls", "token"}) {
    const std::string entry = Concat(path, "/", name);
    struct stat found {};
    if (::lstat(entry.c_str(), &found) != 0 || found.st_uid == ::geteuid()) continue;
    return Unusable(path, Concat(entry, " belongs to another user"));
  }
  return std::nullopt;
}

Check CheckUse(const RunDirRequest& request, const std::string& path) {
  const bool holds_job = HoldsJob(path);
  if (holds_job && !request.resume) {
    return Problem{.code = "PL-E020",
                   .what = "this run directory already holds a run",
                   .where = path,
                   .why = "a run directory belongs to one job",
                   .fix = Concat(ResumeCommand(path), "   or choose another --run-dir")};
  }
  if (!holds_job && request.resume) {
    return Problem{.code = "PL-E026",
                   .what = "there is nothing to resume",
                   .where = path,
                   .why = "the directory holds no run",
                   .fix = "leave --resume out, or name the run's directory by --run-dir"};
  }
  return std::nullopt;
}

Result<Fd> TakeLock(const std::string& path) {
  Fd lock(::open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.is_open()) return Unusable(path, std::strerror(errno));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return Unusable(path, std::strerror(errno));
  return Problem{.code = "PL-E020",
                 .what = "another `paceline run` uses this directory now",
                 .where = path,
                 .why = "its launcher holds the lock",
                 .fix = Concat("paceline attach --job ", path, "   or choose another --run-dir")};
}

}  // namespace

std::string HistoryPlace(const std::string& wanted, const Environment& environment,
                         const std::string& cwd) {
  if (wanted == "off") return "";
  const std::string home = LookupOr(environment, "HOME", "");
  if (wanted.starts_with("~/")) return home + wanted.substr(1);
  if (!wanted.empty()) return wanted.starts_with("/") ? wanted : Concat(cwd, "/", wanted);
  const std::string state =
      LookupOr(environment, "XDG_STATE_HOME", home.empty() ? "" : home + "/.local/state");
  return state.empty() ? "" : state + "/paceline";
}

std::string FormatJobCard(const JobCard& card) {
  json text = {{"schema", "paceline.job/1"},
               {"id", card.job_id},
               {"name", card.name},
               {"argv", card.argv},
               {"cwd", card.cwd},
               {"has_master", card.has_master},
               {"master", {{"addr", card.master_address}, {"pid", card.master.pid}}},
               {"launcher_pid", card.launcher.pid},
               {"launcher", ProcessJson(card.launcher)},
               {"pid_space", card.pid_space},
               {"insecure", card.insecure},
               {"http_port", card.http_port},
               {"nodes", card.nodes},
               {"relay", card.relay},
               {"created", card.created},
               {"started", card.started}};
  if (card.end.has_value()) {
    text["end"] = {{"exit_code", card.end->exit_code}, {"reason", card.end->reason}};
  }
  return PrintJson(text, {.indent = 1}) + "\n";
}

Result<JobCard> ReadJobCard(const std::string& run_dir) {
  const std::string path = run_dir + "/job.json";
  const json text = ParseJson(ReadText(path, kJobFileBytesMax));
  const bool is_card = text.is_object() && JsonText(text, "schema") == "paceline.job/1" &&
                       text.contains("master") && text["master"].is_object();
  if (!is_card) {
    return Problem{.code = "PL-E025",
                   .what = "job.json does not describe a job",
                   .where = path,
                   .why = "it is missing, cut off or of another version",
                   .fix = "start again in another --run-dir"};
  }
  JobCard card;
  card.job_id = JsonText(text, "id");
  card.name = JsonText(text, "name");
  card.argv = TextsFrom(text, "argv");
  card.cwd = JsonText(text, "cwd");
  card.master_address = JsonText(text["master"], "addr");
  card.has_master = JsonBool(text, "has_master", true);
  card.master = LivingMaster(JsonInt<int32_t>(text["master"], "pid"), card.job_id);
  if (text.contains("launcher") && text["launcher"].is_object()) {
    card.launcher = ProcessFrom(text["launcher"]);
  }
  card.pid_space = JsonText(text, "pid_space");
  card.insecure = JsonBool(text, "insecure", false);
  card.http_port = JsonInt<uint16_t>(text, "http_port");
  card.nodes = TextsFrom(text, "nodes");
  card.relay = JsonText(text, "relay");
  card.created = JsonNumber(text, "created");
  card.started = JsonNumber(text, "started", card.created);
  card.end = JobEndIn(text);
  return card;
}

std::string RunDirOfEntry(const std::string& text) {
  const json entry = ParseJson(text);
  return entry.is_object() ? JsonText(entry, "run_dir") : "";
}

std::string JobLeftBehind(const std::string& run_dir, const std::string& cwd,
                          const std::vector<std::string>& argv) {
  const std::string path = run_dir.starts_with("/") ? run_dir : Concat(cwd, "/", run_dir);
  const auto card = ReadJobCard(path);
  const bool is_left = card.ok() && card->argv == argv && !card->pid_space.empty() &&
                       card->pid_space != agent::PidSpaceName();
  return is_left ? card->job_id : "";
}

Result<std::string> RunDirOf(const std::string& asked, const Environment& environment) {
  struct stat found {};
  if (::stat(asked.c_str(), &found) == 0) return asked;
  const auto job = FindJob(environment, asked, JobUse::kChange, CurrentDirectory());
  if (job.ok()) return job->place.run_dir;
  if (asked.find('/') != std::string::npos) return asked;
  Problem problem = job.problem();
  problem.where = "--run-dir " + ShellWord(asked);
  problem.fix = "paceline run --resume --run-dir JOB; `paceline ps --all` lists the jobs";
  return problem;
}

Check MakeLogDir(const std::string& path) {
  if (path.empty()) return std::nullopt;
  absl::Status made = MakeDirs(path, 0755);
  if (made.ok() && ::access(path.c_str(), W_OK | X_OK) != 0) {
    made = absl::PermissionDeniedError(std::strerror(errno));
  }
  if (made.ok()) return std::nullopt;
  return Problem{.code = "PL-E021",
                 .what = "the ranks' output cannot be written",
                 .where = Concat("--log-dir ", path),
                 .why = std::string(made.message()),
                 .fix = "--log-dir DIR, with a folder that you may write to"};
}

Result<RunDir> OpenRunDir(const RunDirRequest& request, const Environment& environment) {
  std::string path = request.wanted;
  bool is_temporary = false;
  if (path.empty()) {
    std::string parent = LastingParent(request, environment);
    is_temporary = parent.empty();
    if (is_temporary) parent = TemporaryParent(environment);
    if (parent.empty())
      return Unusable(LookupOr(environment, "TMPDIR", "/tmp"), std::strerror(errno));
    path = Concat(parent, "/", request.job_id);
  }
  if (!path.starts_with("/")) path = Concat(request.cwd, "/", path);
  if (!request.resume) {
    if (absl::Status made = MakeDirs(path, 0700); !made.ok()) {
      return Unusable(path, std::string(made.message()));
    }
  }
  Check problem = CheckDirectory(path);
  if (!problem && request.resume) problem = CheckLinks(path);
  if (!problem && request.resume) problem = CheckEntries(path);
  if (problem) {
    if (request.resume) {
      problem->fix = "paceline run --resume --run-dir JOB; `paceline ps --all` lists the jobs";
    }
    return *problem;
  }
  auto lock = TakeLock(path);
  if (!lock.ok()) return lock.problem();
  if (problem = CheckUse(request, path); problem) return *problem;
  ::chmod(path.c_str(), 0700);
  return RunDir{path, std::move(lock.value()), is_temporary};
}

Result<std::string> OpenRuntimeDir(const Environment& environment) {
  std::string path = LookupOr(environment, "PACELINE_RUNTIME_DIR", "");
  if (path.empty()) {
    const std::string session = LookupOr(environment, "XDG_RUNTIME_DIR", "");
    path = session.empty() ? Concat("/tmp/paceline-", ::geteuid()) : session + "/paceline";
  }
  const absl::Status made = MakeDirs(path, 0700);
  struct stat found {};
  std::string why;
  if (!made.ok()) {
    why = std::string(made.message());
  } else if (::lstat(path.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    why = "it is not a directory";
  } else if (found.st_uid != ::geteuid()) {
    why = "it belongs to another user";
  } else if ((found.st_mode & 077) != 0) {
    why = "others may enter it";
  }
  if (why.empty()) return path;
  return Problem{.code = "PL-E041",
                 .what = "the runtime directory is not safe",
                 .where = path,
                 .why = why,
                 .fix = why.starts_with("others")
                            ? "chmod 700 " + ShellWord(path)
                            : "export PACELINE_RUNTIME_DIR=$HOME/.paceline-run"};
}

Check SaveJobCard(const JobCard& card, const std::string& run_dir, const std::string& runtime_dir) {
  const absl::Status saved = ReplaceFileDurably(run_dir + "/job.json", FormatJobCard(card), 0600);
  if (!saved.ok()) return Unusable(run_dir, std::string(saved.message()));
  json entry = ParseJson(FormatJobCard(card));
  entry["run_dir"] = run_dir;
  MakeDirs(runtime_dir + "/jobs", 0700).IgnoreError();
  // Each `paceline run` of a job on this host has an entry of its own.
  const std::string joined = card.has_master || card.nodes.empty() ? "" : "-" + card.nodes.front();
  // An error is ignored, because a job that is not in the registry still runs.
  ReplaceFile(Concat(runtime_dir, "/jobs/", card.job_id, joined, ".json"), PrintJson(entry), 0600)
      .IgnoreError();
  return std::nullopt;
}

agent::ProcessId FindAgent(const std::string& run_dir, const std::string& node) {
  const json text =
      ParseJson(ReadText(Concat(run_dir, "/nodes/", node, "/agent.json"), kJobFileBytesMax));
  if (!text.is_object() || JsonText(text, "boot_id") != agent::BootId()) return {};
  const agent::ProcessId process = ProcessFrom(text);
  return agent::IsAlive(process) ? process : agent::ProcessId{};
}

bool HasAgent(const JobCard& card, const std::string& run_dir) {
  return std::any_of(card.nodes.begin(), card.nodes.end(),
                     [&](const std::string& node) { return FindAgent(run_dir, node).pid != 0; });
}

}  // namespace paceline::cli

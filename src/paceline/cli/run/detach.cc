#include "paceline/cli/run/detach.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

std::string LauncherLog(const PreparedRun& run) { return run.dir.path + "/logs/launcher.log"; }

// The size of a file; 0 if there is none. The launcher's log may begin with errors of earlier
// launchers of this directory.
size_t BytesOf(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? static_cast<size_t>(found.st_size) : 0;
}

// The message of a detached launcher's parent if the launcher ended before its master answered. The
// first problem in the launcher's log is the cause; later ones follow from it.
int TellFailedStart(const PreparedRun& run, pid_t child, size_t log_begin, Output& out) {
  constexpr size_t kSaidBytesMax = 64 << 10;
  int status = 0;
  ::waitpid(child, &status, 0);
  const std::string log = LauncherLog(run);
  const std::string text = ReadText(log, log_begin + kSaidBytesMax);
  const std::string said = text.substr(std::min(log_begin, text.size()));
  if (const std::optional<Problem> first = FirstProblemIn(said)) {
    out.Say(Concat("The job ended before its master answered; ", log, " has all of it."));
    out.Fail(*first);
  } else {
    out.Fail({.code = "PL-E060",
              .what = "the job ended before its master answered",
              .where = log,
              .why = said.empty() ? "the launcher ended without a message" : said,
              .fix = "run it without --detach to see what happens"});
  }
  return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status)
                                                       : int{kExitTrainingFailed};
}

// Without a process of its own, the job is not started: in the foreground it would end with the
// terminal, and a script that waits for this command would wait for the job.
int SayNotDetached(const PreparedRun& run, int error_number, Output& out) {
  return out.Fail({.code = "PL-E050",
                   .what = "the job cannot go on in the background",
                   .where = run.dir.path,
                   .why = Concat("no process could be made for it: ", std::strerror(error_number)),
                   .fix = "allow this user more processes and files (ulimit -u, ulimit -n), or run "
                          "it without --detach"});
}

}  // namespace

std::optional<int> Detach(PreparedRun& run, Output& out, Fd* serving) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return SayNotDetached(run, errno, out);
  Fd reader(ends[0]);
  const size_t log_begin = BytesOf(LauncherLog(run));
  *serving = Fd(ends[1]);
  const pid_t child = ::fork();
  if (child > 0) {
    serving->Close();
    char told = 0;
    if (::read(reader.get(), &told, 1) != 1) return TellFailedStart(run, child, log_begin, out);
    out.DataLine(run.card.job_id);
    return kExitDone;
  }
  if (child < 0) return SayNotDetached(run, errno, out);
  ::setsid();
  // Commands look for the launcher's pid, so this must be the pid of the process that stays.
  run.card.launcher = {::getpid(), agent::StartTimeOf(::getpid())};
  if (Check problem = SaveJobCard(run.card, run.dir.path, run.runtime_dir)) out.Warn(*problem);
  const Fd input(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Fd output(
      ::open(LauncherLog(run).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (input.is_open()) ::dup2(input.get(), STDIN_FILENO);
  // Without the log, as on a full disk, nothing is said: the terminal belongs to the next command.
  const int into = output.is_open() ? output.get() : input.get();
  if (into >= 0) {
    ::dup2(into, STDOUT_FILENO);
    ::dup2(into, STDERR_FILENO);
  }
  return std::nullopt;
}

}  // namespace paceline::cli

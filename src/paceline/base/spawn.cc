#include "paceline/base/spawn.h"

#include "paceline/base/text.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace paceline {
namespace {

constexpr int kPassedFd = 3;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void PrepareFiles(const SpawnRequest& request, posix_spawn_file_actions_t* files) {
  const char* output = request.output_path.empty() ? "/dev/null" : request.output_path.c_str();
  if (request.input_fd >= 0) {
    posix_spawn_file_actions_adddup2(files, request.input_fd, STDIN_FILENO);
  } else {
    posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  if (request.output_fd >= 0) {
    posix_spawn_file_actions_adddup2(files, request.output_fd, STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(files, STDOUT_FILENO, output, O_WRONLY | O_APPEND | O_CREAT,
                                     0600);
  }
  posix_spawn_file_actions_adddup2(files, STDOUT_FILENO, STDERR_FILENO);
  if (request.passed_fd >= 0) {
    posix_spawn_file_actions_adddup2(files, request.passed_fd, kPassedFd);
    posix_spawn_file_actions_addclosefrom_np(files, kPassedFd + 1);
  } else {
    posix_spawn_file_actions_addclosefrom_np(files, kPassedFd);
  }
  if (!request.cwd.empty()) {
    posix_spawn_file_actions_addchdir_np(files, request.cwd.c_str());
  }
}

void PrepareSignals(posix_spawnattr_t* attributes) {
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setsigdefault(attributes, &all);
  posix_spawnattr_setflags(attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

}  // namespace

absl::StatusOr<SpawnedProcess> SpawnDetached(const SpawnRequest& request) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  PrepareFiles(request, &files);
  PrepareSignals(&attributes);
  const std::vector<char*> argv = Pointers(request.argv);
  const std::vector<char*> env = Pointers(request.env);
  SpawnedProcess process;
  const int error =
      ::posix_spawnp(&process.pid, argv[0], &files, &attributes, argv.data(), env.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return absl::ErrnoToStatus(error, Concat("cannot start ", request.argv[0]));
  }
  // Not reaped yet, so the pid is still this process's.
  process.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!process.pidfd.is_open()) return absl::ErrnoToStatus(errno, "pidfd_open");
  return process;
}

int ReapProcess(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, WNOHANG) == pid ? status : -1;
}

std::vector<std::string> CurrentEnvironment() {
  std::vector<std::string> env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    env.emplace_back(*entry);
  }
  return env;
}

}  // namespace paceline

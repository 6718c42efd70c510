#include "paceline/ckpt/client_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/base/text.h"

extern char** environ;

namespace paceline::ckpt {
namespace {

constexpr int kSilenceMsMax = 600'000;
constexpr size_t kLineBytesMax = size_t{64} << 20;

// With default signals, none blocked, and its own process group, so that Ctrl-C does not reach it.
int Spawn(const std::vector<std::string>& argv, int socket, pid_t* pid) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, socket, 0);
  ::posix_spawn_file_actions_adddup2(&actions, socket, 1);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error = ::posix_spawnp(pid, words[0], &actions, &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

Result<void> ClientProcess::Start() {
  Stop();
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Failure{FailureKind::kBusy, Concat("no socket: ", std::strerror(errno)), errno};
  }
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  if (const int error = Spawn(argv_, theirs.get(), &pid_); error != 0) {
    pid_ = 0;
    return Failure{FailureKind::kBusy,
                   Concat("cannot start ", argv_[0], ": ", std::strerror(error)), error};
  }
  socket_ = std::move(ours);
  return {};
}

void ClientProcess::Stop() {
  socket_.Close();
  unread_.clear();
  if (pid_ <= 0) return;
  // Killed at once, because it holds nothing that is worth waiting for.
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

Result<void> ClientProcess::Lost(std::string_view why) {
  Stop();
  return Failure{FailureKind::kBusy, Concat(argv_[0], " ", why)};
}

Result<void> ClientProcess::Send(const void* data, uint64_t bytes) {
  if (!socket_.is_open()) return Lost("does not run");
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    pollfd ready{socket_.get(), POLLOUT, 0};
    const int polled = ::poll(&ready, 1, kSilenceMsMax);
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return Lost("takes nothing any more");
    const ssize_t sent = ::send(socket_.get(), at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent <= 0) return Lost("has gone");
    at += sent;
    bytes -= static_cast<uint64_t>(sent);
  }
  return {};
}

Result<void> ClientProcess::Receive(void* data, uint64_t bytes) {
  auto* to = static_cast<char*>(data);
  const size_t held = std::min<uint64_t>(unread_.size(), bytes);
  std::memcpy(to, unread_.data(), held);
  unread_.erase(0, held);
  to += held;
  bytes -= held;
  while (bytes > 0) {
    if (!socket_.is_open()) return Lost("does not run");
    pollfd ready{socket_.get(), POLLIN, 0};
    const int polled = ::poll(&ready, 1, kSilenceMsMax);
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return Lost("has said nothing for ten minutes");
    const ssize_t got = ::recv(socket_.get(), to, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return Lost("has gone");
    to += got;
    bytes -= static_cast<uint64_t>(got);
  }
  return {};
}

Result<std::string> ClientProcess::ReceiveLine() {
  size_t looked = 0;
  for (;;) {
    const size_t end = unread_.find('\n', looked);
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    looked = unread_.size();
    if (looked > kLineBytesMax) return Lost("says too much").failure();
    if (!socket_.is_open()) return Lost("does not run").failure();
    pollfd ready{socket_.get(), POLLIN, 0};
    const int polled = ::poll(&ready, 1, kSilenceMsMax);
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return Lost("has said nothing for ten minutes").failure();
    char some[65536];
    const ssize_t got = ::recv(socket_.get(), some, sizeof(some), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return Lost("has gone").failure();
    unread_.append(some, static_cast<size_t>(got));
  }
}

}  // namespace paceline::ckpt

#include "paceline/agent/starter/starter_client.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/agent/socket/unix_socket.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

using nlohmann::json;

constexpr uint32_t kProtocol = 1;
constexpr size_t kLogTailBytes = 16 << 10;
constexpr size_t kWhyBytesMax = 400;

// A Unix address holds 107 bytes and a runtime directory may be longer, so the address goes through
// the open directory.
bool ConnectTo(int fd, const std::string& path) {
  const size_t slash = path.rfind('/');
  const Fd dir(::open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!dir.is_open()) return false;
  const std::string through =
      Concat("/proc/self/fd/", dir.get(), "/", std::string_view(path).substr(slash + 1));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (through.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, through.data(), through.size());
  return ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

uint64_t SizeOf(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? static_cast<uint64_t>(found.st_size) : 0;
}

// Returns the last line that was written to the log after byte `before`, or "it printed nothing".
// For a Python program that died, this line is its exception.
std::string LastLineSince(const std::string& path, uint64_t before) {
  const uint64_t size = SizeOf(path);
  if (size <= before) return "it printed nothing";
  std::string text = ReadTail(path, std::min<uint64_t>(size - before, kLogTailBytes));
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  const size_t newline = text.rfind('\n');
  if (newline != std::string::npos) text.erase(0, newline + 1);
  return text.substr(0, kWhyBytesMax);
}

template <class... Calls>
struct Overloaded : Calls... {
  using Calls::operator()...;
};
template <class... Calls>
Overloaded(Calls...) -> Overloaded<Calls...>;

}  // namespace

StarterClient::StarterClient(Reactor& reactor, std::string job, std::string node,
                             StarterListener listener)
    : reactor_(reactor),
      job_(std::move(job)),
      node_(std::move(node)),
      listener_(std::move(listener)) {}

StarterClient::~StarterClient() {
  *is_alive_ = false;
  CloseSocket();
  if (ready_pipe_.is_open()) reactor_.Unwatch(ready_pipe_.get());
  for (auto& [pid, process] : launched_) reactor_.Unwatch(process.pidfd.get());
}

void StarterClient::Connect(StarterPlace place) {
  CloseSocket();
  place_ = std::move(place);
  was_launched_ = false;
  reactor_.Post([this, alive = is_alive_] {
    if (*alive) TryConnect();
  });
}

void StarterClient::TryConnect() {
  CloseSocket();
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open() || !ConnectTo(fd.get(), place_.socket_path)) {
    if (was_launched_) {
      Lose(Concat("cannot connect to ", place_.socket_path, ": ", std::strerror(errno)));
    } else {
      Launch();
    }
    return;
  }
  if (!SameUserAt(fd.get()).has_value()) {
    Lose(Concat(place_.socket_path, " belongs to another user"));
    return;
  }
  socket_ = std::move(fd);
  const absl::Status watched = reactor_.Watch(
      socket_.get(), EPOLLIN, [this](uint32_t epoll_events) { OnSocket(epoll_events); });
  if (!watched.ok()) {
    Lose(std::string(watched.message()));
    return;
  }
  nlohmann::json hello = {
      {"type", "hello"}, {"protocol", kProtocol}, {"job", job_}, {"node", node_}};
  if (!place_.orphan_after.is_infinite()) {
    hello["orphan_after_ms"] = place_.orphan_after.milliseconds();
  }
  Send(hello);
}

void StarterClient::Launch() {
  was_launched_ = true;
  std::array<int, 2> pipe_fds{};
  if (::pipe2(pipe_fds.data(), O_CLOEXEC) != 0) {
    Lose(Concat("cannot make a pipe: ", std::strerror(errno)));
    return;
  }
  ready_pipe_ = Fd(pipe_fds[0]);
  const Fd write_end(pipe_fds[1]);
  SpawnRequest request;
  request.argv = place_.argv;
  request.argv.insert(request.argv.end(), {"--socket", place_.socket_path, "--ready-fd", "3"});
  request.env = place_.env;
  request.cwd = "/";
  request.output_path = place_.log_path;
  request.passed_fd = write_end.get();
  log_size_ = SizeOf(place_.log_path);
  absl::StatusOr<SpawnedProcess> process = SpawnDetached(request);
  if (!process.ok()) {
    ready_pipe_.Close();
    Lose(std::string(process.status().message()));
    return;
  }
  const pid_t pid = process->pid;
  SpawnedProcess& kept = launched_[pid] = *std::move(process);
  reactor_.Watch(kept.pidfd.get(), EPOLLIN, [this, pid](uint32_t) { OnStarterEnded(pid); })
      .IgnoreError();
  reactor_.Watch(ready_pipe_.get(), EPOLLIN, [this](uint32_t) { OnLaunchSignal(); }).IgnoreError();
}

void StarterClient::OnStarterEnded(pid_t pid) {
  auto ended = launched_.find(pid);
  if (ended == launched_.end()) return;
  reactor_.Unwatch(ended->second.pidfd.get());
  ReapProcess(pid);
  launched_.erase(ended);
}

void StarterClient::OnLaunchSignal() {
  char byte = 0;
  const ssize_t got = ::read(ready_pipe_.get(), &byte, 1);
  reactor_.Unwatch(ready_pipe_.get());
  ready_pipe_.Close();
  if (got == 1) {
    TryConnect();
    return;
  }
  Lose(
      Concat("the starter ended before it was ready: ", LastLineSince(place_.log_path, log_size_)));
}

bool StarterClient::Spawn(uint64_t id, json message) {
  if (!is_ready_) return false;
  message["type"] = "spawn";
  message["id"] = id;
  Send(message);
  return true;
}

void StarterClient::List() {
  if (is_ready_) Send({{"type", "list"}});
}

void StarterClient::Bye() {
  if (socket_.is_open()) Send({{"type", "bye"}});
  CloseSocket();
}

void StarterClient::Send(const json& message) {
  const std::string text = PrintJson(message);
  const auto size = static_cast<uint32_t>(text.size());
  std::array<char, sizeof(size)> prefix{};
  std::memcpy(prefix.data(), &size, sizeof(size));
  output_.append(prefix.data(), prefix.size());
  output_.append(text);
  Flush();
}

void StarterClient::Flush() {
  while (!output_.empty()) {
    const ssize_t sent = ::send(socket_.get(), output_.data(), output_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    // The error comes as EPOLLHUP. Unsent messages are lost with the connection.
    if (sent < 0) break;
    output_.erase(0, static_cast<size_t>(sent));
  }
  reactor_.Change(socket_.get(), output_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

void StarterClient::OnSocket(uint32_t epoll_events) {
  if ((epoll_events & EPOLLOUT) != 0) Flush();
  if ((epoll_events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  const bool is_open = ReadSocket();
  if (!TakeMessages() || is_open) return;
  // The starter ended before anyone spoke to it: a kept-warm starter that was just leaving.
  if (!is_ready_ && !was_launched_) {
    CloseSocket();
    Launch();
    return;
  }
  Lose("the starter closed the connection");
}

bool StarterClient::ReadSocket() {
  std::array<char, 16384> buffer;
  while (true) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    input_.append(buffer.data(), static_cast<size_t>(got));
  }
}

// False if the connection was given up meanwhile.
bool StarterClient::TakeMessages() {
  const int connection = socket_.get();
  while (true) {
    const absl::StatusOr<std::optional<StarterMessage>> message = TakeStarterMessage(&input_);
    if (!message.ok()) {
      Lose(std::string(Text(message.status())));
      return false;
    }
    if (!message->has_value()) return true;
    Handle(**message);
    if (socket_.get() != connection) return false;
  }
}

void StarterClient::Handle(const StarterMessage& message) {
  std::visit(Overloaded{
                 [this](const StarterHello& hello) {
                   is_ready_ = true;
                   listener_.ready(hello);
                 },
                 [this](const StarterSpawned& spawned) { listener_.spawned(spawned); },
                 [this](const StarterSpawnFailed& failed) {
                   listener_.spawn_failed(failed.id, failed.why);
                 },
                 [this](const StarterExited& exited) { listener_.exited(exited.child); },
                 [this](const StarterChildren& all) { listener_.children(all.children); },
                 [this](const StarterRefused& refused) {
                   Lose(Concat("the starter refused: ", refused.why));
                 },
                 [](const StarterUnknown&) {},
             },
             message);
}

void StarterClient::Lose(const std::string& why) {
  CloseSocket();
  listener_.lost(why);
}

void StarterClient::CloseSocket() {
  if (socket_.is_open()) reactor_.Unwatch(socket_.get());
  socket_.Close();
  is_ready_ = false;
  input_.clear();
  output_.clear();
}

}  // namespace paceline::agent

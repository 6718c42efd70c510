#include "paceline/agent/socket/local_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "paceline/agent/socket/unix_socket.h"
#include "paceline/base/status_macros.h"

namespace paceline::agent {
namespace {

constexpr int kAcceptPauseMs = 20;

ino_t InodeOf(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

}  // namespace

LocalServer::LocalServer(std::string path, Fd fd, size_t connections_max, Serve serve)
    : path_(std::move(path)),
      fd_(std::move(fd)),
      inode_(InodeOf(path_)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      connections_max_(connections_max),
      serve_(std::move(serve)) {}

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Listen(const std::string& path,
                                                                 size_t connections_max,
                                                                 Serve serve) {
  ASSIGN_OR_RETURN(Fd fd, ListenAt(path));
  std::unique_ptr<LocalServer> server(
      new LocalServer(path, std::move(fd), connections_max, std::move(serve)));
  LocalServer* const raw = server.get();
  server->thread_ = std::thread([raw] { raw->Accept(); });
  ::pthread_setname_np(server->thread_.native_handle(), "local-server");
  return server;
}

LocalServer::~LocalServer() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  for (const Session& session : sessions_) ::shutdown(session.fd.get(), SHUT_RDWR);
  for (Session& session : sessions_) session.thread.join();
  if (InodeOf(path_) == inode_) ::unlink(path_.c_str());
}

void LocalServer::Accept() {
  std::array<pollfd, 2> ready = {{{stop_.get(), POLLIN, 0}, {fd_.get(), POLLIN, 0}}};
  while (::poll(ready.data(), ready.size(), -1) >= 0 || errno == EINTR) {
    if (ready[0].revents != 0) return;
    Take();
  }
}

void LocalServer::Take() {
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    const auto next = std::next(it);
    if (it->is_done) {
      it->thread.join();
      sessions_.erase(it);
    }
    it = next;
  }
  Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.is_open()) {
    // Out of descriptors: pause, because accept would fail again at once.
    ::poll(nullptr, 0, kAcceptPauseMs);
    return;
  }
  if (!SameUserAt(fd.get()).has_value()) return;
  if (sessions_.size() >= connections_max_) return;
  Session& session = sessions_.emplace_back();
  session.fd = std::move(fd);
  session.thread = std::thread([this, &session] {
    serve_(session.fd);
    ::shutdown(session.fd.get(), SHUT_RDWR);
    session.is_done = true;
  });
}

}  // namespace paceline::agent

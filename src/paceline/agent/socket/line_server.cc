#include "paceline/agent/socket/line_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/agent/socket/unix_socket.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::agent {

absl::StatusOr<std::unique_ptr<LineServer>> LineServer::Listen(Reactor& reactor, std::string path,
                                                               Listener listener) {
  ASSIGN_OR_RETURN(Fd fd, ListenAt(path));
  auto server = std::unique_ptr<LineServer>(
      new LineServer(reactor, std::move(path), std::move(fd), std::move(listener)));
  LineServer* const raw = server.get();
  RETURN_IF_ERROR(reactor.Watch(raw->fd_.get(), EPOLLIN, [raw](uint32_t) { raw->OnPeer(); }));
  return server;
}

LineServer::~LineServer() {
  for (auto& [id, peer] : peers_) reactor_.Unwatch(peer.fd.get());
  reactor_.Cancel(accept_timer_);
  reactor_.Unwatch(fd_.get());
  ::unlink(path_.c_str());
}

void LineServer::OnPeer() {
  for (;;) {
    Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_open()) return PauseAccepting(reactor_, fd_.get(), errno, &accept_timer_);
    const std::optional<ucred> process = SameUserAt(fd.get());
    if (!process.has_value() || peers_.size() >= kPeersMax) continue;
    const PeerId id = next_++;
    const int raw = fd.get();
    peers_[id].fd = std::move(fd);
    peers_[id].pid = process->pid;
    const absl::Status watched =
        reactor_.Watch(raw, EPOLLIN, [this, id](uint32_t events) { OnReady(id, events); });
    if (!watched.ok()) peers_.erase(id);
  }
}

void LineServer::OnReady(PeerId id, uint32_t events) {
  if ((events & EPOLLOUT) != 0) Flush(id);
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  std::array<char, 65'536> buffer;
  const ssize_t got = ::recv(found->second.fd.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return Drop(id);
  found->second.unread.append(buffer.data(), static_cast<size_t>(got));
  for (;;) {
    // The listener may have dropped the peer.
    const auto peer = peers_.find(id);
    if (peer == peers_.end()) return;
    std::string& unread = peer->second.unread;
    const size_t end = unread.find('\n');
    if (end == std::string::npos) {
      if (unread.size() > kLineBytesMax) Drop(id);
      return;
    }
    const std::string line = unread.substr(0, end);
    unread.erase(0, end + 1);
    listener_.line(id, line);
  }
}

void LineServer::Send(PeerId id, const std::string& line) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  if (found->second.unsent.size() + line.size() > kUnreadBytesMax) {
    LogWarning("peer_does_not_read", {{"peer", id}});
    return Drop(id);
  }
  found->second.unsent += line + "\n";
  Flush(id);
}

pid_t LineServer::PidOf(PeerId id) const {
  const auto found = peers_.find(id);
  return found == peers_.end() ? 0 : found->second.pid;
}

void LineServer::DropProcess(pid_t pid) {
  std::vector<PeerId> dropped;
  for (const auto& [id, peer] : peers_) {
    if (peer.pid == pid) dropped.push_back(id);
  }
  for (const PeerId id : dropped) Drop(id);
}

void LineServer::Flush(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  std::string& unsent = found->second.unsent;
  while (!unsent.empty()) {
    const ssize_t sent = ::send(found->second.fd.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent <= 0) return Drop(id);
    unsent.erase(0, static_cast<size_t>(sent));
  }
  reactor_.Change(found->second.fd.get(), unsent.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

void LineServer::Drop(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  reactor_.Unwatch(found->second.fd.get());
  peers_.erase(found);
  listener_.gone(id);
}

}  // namespace paceline::agent

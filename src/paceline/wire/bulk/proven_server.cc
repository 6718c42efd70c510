#include "paceline/wire/bulk/proven_server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/wire/bulk/channel_proof.h"
#include "paceline/wire/security/peer_limits.h"

namespace paceline::wire {

absl::StatusOr<std::unique_ptr<ProvenServer>> ProvenServer::Start(const Place& place,
                                                                  const Credentials& credentials,
                                                                  Serve serve) {
  if (credentials.token.empty()) return absl::InvalidArgumentError("the job has no token");
  if (!credentials.is_tls() && !place.is_insecure && !IsLoopbackAddress(place.listen)) {
    return absl::FailedPreconditionError("other hosts could reach it, and the job has no TLS");
  }
  std::unique_ptr<ProvenServer> server(
      new ProvenServer(place, credentials.token, std::move(serve)));
  ASSIGN_OR_RETURN(server->tls_, BulkTls::Make(credentials));
  ASSIGN_OR_RETURN(server->listener_, Listener::Open(place.listen));
  ProvenServer* const raw = server.get();
  server->listener_->Start({.take = [raw](Connection connection) { raw->Take(connection); },
                            .make_room = [raw] { raw->Reap(); }});
  return server;
}

ProvenServer::~ProvenServer() {
  listener_.reset();  // stop accepting
  {
    const std::lock_guard lock(mutex_);
    for (const Session& session : sessions_) {
      ::shutdown(session.handle.get(), SHUT_RDWR);
    }
  }
  for (Session& session : sessions_) session.thread.join();
}

// Called on the listener's thread, the only one that removes sessions.
void ProvenServer::Reap() {
  std::list<Session> done;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = sessions_.begin(); it != sessions_.end();) {
      const auto next = std::next(it);
      if (it->is_done) done.splice(done.end(), sessions_, it);
      it = next;
    }
  }
  for (Session& session : done) session.thread.join();
}

// Makes room for a connection. False: processes of the job have all places.
bool ProvenServer::MakeRoom() {
  std::list<Session> gone;
  {
    const std::lock_guard lock(mutex_);
    if (sessions_.size() < connections_max_) return true;
    const auto oldest = std::find_if(sessions_.begin(), sessions_.end(),
                                     [](const Session& one) { return !one.is_proven; });
    if (oldest == sessions_.end()) return false;
    ::shutdown(oldest->handle.get(), SHUT_RDWR);
    gone.splice(gone.end(), sessions_, oldest);
  }
  gone.front().thread.join();  // it only waited for its socket, which is shut down
  return true;
}

void ProvenServer::Take(Connection connection) {
  Fd fd(connection.fd);
  Reap();
  if (!MakeRoom()) return;
  const std::lock_guard lock(mutex_);
  Session& session = sessions_.emplace_back();
  session.handle = Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  session.thread = std::thread([this, &session, fd = fd.Release()] {
    // After any failure the client sees the connection end, and asks again here or elsewhere.
    Prove(&session, Fd(fd)).IgnoreError();
    const std::lock_guard ending(mutex_);
    session.is_done = true;
    ::shutdown(session.handle.get(), SHUT_RDWR);
  });
}

absl::Status ProvenServer::Prove(Session* session, Fd fd) {
  const DialDeadline until = std::chrono::steady_clock::now() + kProofPatience;
  ASSIGN_OR_RETURN(const auto socket, BulkSocket::Accept(std::move(fd), *tls_, until));
  RETURN_IF_ERROR(ProveAsServer(socket.get(), token_, magic_));
  {
    const std::lock_guard lock(mutex_);
    session->is_proven = true;
  }
  serve_(socket.get());
  return absl::OkStatus();
}

}  // namespace paceline::wire

#include "paceline/wire/bulk/bulk_server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/wire/bulk/channel_proof.h"
#include "paceline/wire/security/peer_limits.h"

namespace paceline::wire {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

absl::StatusOr<std::unique_ptr<BulkServer>> BulkServer::Start(const std::string& listen,
                                                              const Credentials& credentials,
                                                              Source source) {
  if (credentials.token.empty()) return absl::InvalidArgumentError("the job has no token");
  if (!credentials.is_tls() && !IsLoopbackAddress(listen)) {
    return absl::FailedPreconditionError("other hosts could reach it, and the job has no TLS");
  }
  std::unique_ptr<BulkServer> server(new BulkServer(credentials, std::move(source)));
  ASSIGN_OR_RETURN(server->tls_, BulkTls::Make(credentials));
  ASSIGN_OR_RETURN(server->listener_, Listener::Open(listen));
  BulkServer* const raw = server.get();
  server->listener_->Start({.take = [raw](Connection connection) { raw->Take(connection); },
                            .make_room = [raw] { raw->Reap(); }});
  return server;
}

BulkServer::~BulkServer() {
  is_ending_ = true;
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
void BulkServer::Reap() {
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
bool BulkServer::MakeRoom() {
  std::list<Session> gone;
  {
    const std::lock_guard lock(mutex_);
    if (sessions_.size() < kConnectionsMax) return true;
    const auto oldest = std::find_if(sessions_.begin(), sessions_.end(),
                                     [](const Session& one) { return !one.is_proven; });
    if (oldest == sessions_.end()) return false;
    ::shutdown(oldest->handle.get(), SHUT_RDWR);
    gone.splice(gone.end(), sessions_, oldest);
  }
  gone.front().thread.join();  // it only waited for its socket, which is shut down
  return true;
}

void BulkServer::Take(Connection connection) {
  Fd fd(connection.fd);
  Reap();
  if (!MakeRoom()) return;
  const std::lock_guard lock(mutex_);
  Session& session = sessions_.emplace_back();
  session.handle = Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  session.thread = std::thread([this, &session, fd = fd.Release()] {
    // After any failure the client sees the connection end, and asks again here or elsewhere.
    Serve(&session, Fd(fd)).IgnoreError();
    const std::lock_guard ending(mutex_);
    session.is_done = true;
    ::shutdown(session.handle.get(), SHUT_RDWR);
  });
}

absl::Status BulkServer::Serve(Session* session, Fd fd) {
  ASSIGN_OR_RETURN(const auto socket,
                   BulkSocket::Accept(std::move(fd), *tls_, Clock::now() + kProofPatience));
  RETURN_IF_ERROR(ProveAsServer(socket.get(), credentials_.token, kBulkMagic));
  {
    const std::lock_guard lock(mutex_);
    session->is_proven = true;
  }
  while (!is_ending_) {
    uint32_t size = 0;
    RETURN_IF_ERROR(socket->Read(&size, sizeof(size), Clock::now() + kIdlePatience));
    if (size > kBulkRequestBytesMax) return absl::InvalidArgumentError("a request too long");
    std::string bytes(size, '\0');
    const DialDeadline until = Clock::now() + kProofPatience;
    RETURN_IF_ERROR(socket->Read(bytes.data(), bytes.size(), until));
    ASSIGN_OR_RETURN(const BulkRequest request, ParseBulkRequest(bytes));
    const BulkImage image = source_(request);
    const std::string answer = EncodeBulk(image.answer);
    RETURN_IF_ERROR(socket->Write(answer.data(), answer.size(), Clock::now() + kChunkPatience));
    if (image.answer.kind != BulkAnswer::Kind::kImage) continue;
    RETURN_IF_ERROR(Give(socket.get(), image, request.first_chunk));
  }
  return absl::OkStatus();
}

absl::Status BulkServer::Give(BulkSocket* socket, const BulkImage& image,
                              uint64_t first_chunk) const {
  const BulkFacts& facts = image.answer.facts;
  const size_t of_file = facts.file_chunks();
  for (uint64_t chunk = first_chunk; chunk < facts.hashes.size(); ++chunk) {
    if (is_ending_ || (image.await && !image.await(chunk))) {
      return absl::AbortedError("there is no more of it");
    }
    const bool is_file = chunk < of_file;
    const uint64_t at = (is_file ? chunk : chunk - of_file) * kBulkChunkBytes;
    const std::byte* memory = (is_file ? image.file : image.notes).data() + at;
    // Not sendfile, which transfers each page separately: over loopback it takes twice as long, and
    // twice the receiver's CPU (bench/checkpoint/peer_fetch.py).
    RETURN_IF_ERROR(socket->Write(memory, facts.BytesOf(chunk), Clock::now() + kChunkPatience));
  }
  return absl::OkStatus();
}

}  // namespace paceline::wire

#include "paceline/agent/memory/chunk_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "paceline/agent/socket/unix_socket.h"
#include "paceline/base/socket_bytes.h"
#include "paceline/base/status_macros.h"

namespace paceline::agent {
namespace {

constexpr size_t kWhyBytesMax = 512;
constexpr int kAcceptPauseMs = 20;

ChunkEnd EndOf(FailureKind kind) {
  switch (kind) {
    case FailureKind::kDamaged:
    case FailureKind::kInvalid: return ChunkEnd::kDamaged;
    case FailureKind::kNotFound: return ChunkEnd::kGone;
    case FailureKind::kSystem: return ChunkEnd::kFailed;
    default: return ChunkEnd::kAway;
  }
}

bool Answer(int fd, ChunkEnd end, const void* bytes, size_t size) {
  const std::array<uint32_t, 2> head = {static_cast<uint32_t>(end), static_cast<uint32_t>(size)};
  return SendAll(fd, head.data(), sizeof(head)) && SendAll(fd, bytes, size);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChunkServer>> ChunkServer::Listen(const std::string& path,
                                                                 Source source) {
  ASSIGN_OR_RETURN(Fd fd, ListenAt(path));
  std::unique_ptr<ChunkServer> server(new ChunkServer(path, std::move(fd), std::move(source)));
  ChunkServer* const raw = server.get();
  server->thread_ = std::thread([raw] { raw->Accept(); });
  ::pthread_setname_np(server->thread_.native_handle(), "chunks");
  return server;
}

ChunkServer::~ChunkServer() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  for (const Session& session : sessions_) ::shutdown(session.fd.get(), SHUT_RDWR);
  for (Session& session : sessions_) session.thread.join();
  ::unlink(path_.c_str());
}

void ChunkServer::Accept() {
  std::array<pollfd, 2> ready = {{{stop_.get(), POLLIN, 0}, {fd_.get(), POLLIN, 0}}};
  while (::poll(ready.data(), ready.size(), -1) >= 0 || errno == EINTR) {
    if (ready[0].revents != 0) return;
    Take();
  }
}

void ChunkServer::Take() {
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
  if (sessions_.size() >= kConnectionsMax) return;
  Session& session = sessions_.emplace_back();
  session.fd = std::move(fd);
  session.thread = std::thread([this, &session] {
    Serve(session.fd);
    ::shutdown(session.fd.get(), SHUT_RDWR);
    session.is_done = true;
  });
}

void ChunkServer::Serve(const Fd& fd) const {
  for (;;) {
    uint32_t size = 0;
    if (!ReceiveAll(fd.get(), &size, sizeof(size)) || size > kStoredChunkTextMax) return;
    std::string text(size, '\0');
    if (!ReceiveAll(fd.get(), text.data(), text.size())) return;
    const std::optional<StoredChunk> chunk = ParseChunk(text);
    if (!chunk.has_value()) return;
    const Result<HeldChunk> held = source_(*chunk);
    const std::string_view why =
        held.ok() ? "" : std::string_view(held.failure().message).substr(0, kWhyBytesMax);
    const bool is_told = held.ok()
                             ? Answer(fd.get(), ChunkEnd::kHere, (*held)->data.get(), (*held)->size)
                             : Answer(fd.get(), EndOf(held.failure().kind), why.data(), why.size());
    if (!is_told) return;
  }
}

}  // namespace paceline::agent

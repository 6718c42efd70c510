#include "paceline/wire/bulk/table_bridge.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "paceline/base/status_macros.h"
#include "paceline/wire/bulk/channel_proof.h"
#include "paceline/wire/tcp_dial.h"

namespace paceline::wire {
namespace {

constexpr std::chrono::seconds kDialPatience{2};
constexpr size_t kBufferBytes = size_t{256} << 10;

// The bytes of one direction that have come and are not sent yet.
class Pipe {
 public:
  bool is_empty() const { return sent_ == filled_; }
  char* room() { return bytes_.data(); }
  size_t room_bytes() const { return bytes_.size(); }
  void Fill(size_t bytes) { sent_ = 0, filled_ = bytes; }
  const char* unsent() const { return bytes_.data() + sent_; }
  size_t unsent_bytes() const { return filled_ - sent_; }
  void Sent(size_t bytes) { sent_ += bytes; }
  bool is_over = false;  // no more will come

 private:
  std::vector<char> bytes_ = std::vector<char>(kBufferBytes);
  size_t sent_ = 0;
  size_t filled_ = 0;
};

enum class Went { kOn, kNowhere, kOver };

// From the local socket into the pipe.
Went TakeLocal(int fd, Pipe* pipe) {
  if (!pipe->is_empty() || pipe->is_over) return Went::kNowhere;
  const ssize_t got = ::recv(fd, pipe->room(), pipe->room_bytes(), MSG_DONTWAIT);
  if (got > 0) pipe->Fill(static_cast<size_t>(got));
  if (got > 0) return Went::kOn;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Went::kNowhere;
  pipe->is_over = true;
  return Went::kOver;
}

Went GiveLocal(int fd, Pipe* pipe) {
  if (pipe->is_empty()) return Went::kNowhere;
  const ssize_t sent =
      ::send(fd, pipe->unsent(), pipe->unsent_bytes(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) pipe->Sent(static_cast<size_t>(sent));
  if (sent > 0) return Went::kOn;
  const bool is_full = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  return is_full ? Went::kNowhere : Went::kOver;
}

Went TakeFar(BulkSocket* far, Pipe* pipe) {
  if (!pipe->is_empty() || pipe->is_over) return Went::kNowhere;
  const absl::StatusOr<size_t> got = far->ReadSome(pipe->room(), pipe->room_bytes());
  pipe->is_over = !got.ok();
  if (pipe->is_over) return Went::kOver;
  if (*got > 0) pipe->Fill(*got);
  return *got > 0 ? Went::kOn : Went::kNowhere;
}

Went GiveFar(BulkSocket* far, Pipe* pipe) {
  if (pipe->is_empty()) return Went::kNowhere;
  const absl::StatusOr<size_t> sent = far->WriteSome(pipe->unsent(), pipe->unsent_bytes());
  if (!sent.ok()) return Went::kOver;
  pipe->Sent(*sent);
  return *sent > 0 ? Went::kOn : Went::kNowhere;
}

pollfd Awaited(int fd, const Pipe& from_it, const Pipe& to_it) {
  const bool reads = from_it.is_empty() && !from_it.is_over;
  const int events = (reads ? POLLIN : 0) | (to_it.is_empty() ? 0 : POLLOUT);
  // A descriptor without events would still tell that the other side has hung up, again and again.
  return {.fd = events == 0 ? -1 : fd, .events = static_cast<short>(events), .revents = 0};
}

// Carries bytes both ways until one side ends and what came from it is sent.
void Carry(int local, BulkSocket* far) {
  Pipe to_far;
  Pipe to_local;
  for (;;) {
    TakeLocal(local, &to_far);
    const Went out = GiveFar(far, &to_far);
    TakeFar(far, &to_local);
    const Went in = GiveLocal(local, &to_local);
    if (out == Went::kOver || in == Went::kOver) return;
    if ((to_far.is_over && to_far.is_empty()) || (to_local.is_over && to_local.is_empty())) return;
    if (out == Went::kOn || in == Went::kOn) continue;
    std::array<pollfd, 2> both = {Awaited(local, to_far, to_local),
                                  Awaited(far->fd(), to_local, to_far)};
    ::poll(both.data(), both.size(), -1);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableGate>> TableGate::Start(const std::string& listen,
                                                            const Credentials& credentials,
                                                            Dial dial) {
  auto gate = std::make_unique<TableGate>();
  ASSIGN_OR_RETURN(gate->server_, ProvenServer::Start({.listen = listen,
                                                       .magic = kTableMagic,
                                                       .connections_max = kConnectionsMax,
                                                       .is_insecure = true},
                                                      credentials, [dial](BulkSocket* far) {
                                                        const Fd local = dial();
                                                        if (local.is_open()) {
                                                          Carry(local.get(), far);
                                                        }
                                                      }));
  return gate;
}

absl::Status CarryToGate(const Fd& local, const std::string& address,
                         const Credentials& credentials, const BulkTls& tls) {
  const DialDeadline until = std::chrono::steady_clock::now() + kDialPatience;
  ASSIGN_OR_RETURN(Fd fd, DialTcp(address, until));
  ASSIGN_OR_RETURN(const auto far, BulkSocket::Connect(std::move(fd), tls, "", until));
  RETURN_IF_ERROR(ProveAsClient(far.get(), {address, kTableMagic}, credentials.token, until));
  Carry(local.get(), far.get());
  return absl::OkStatus();
}

}  // namespace paceline::wire

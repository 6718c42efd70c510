#include "paceline/wire/bulk/lease_socket.h"

#include <array>
#include <chrono>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/bulk/channel_proof.h"
#include "paceline/wire/bulk/lease_server.h"
#include "paceline/wire/security/certificates.h"
#include "paceline/wire/tcp_dial.h"

namespace paceline::wire {

LeaseSocket::LeaseSocket(std::unique_ptr<BulkSocket> socket) : socket_(std::move(socket)) {}
LeaseSocket::~LeaseSocket() = default;

int LeaseSocket::fd() const { return socket_->fd(); }

absl::StatusOr<std::unique_ptr<LeaseSocket>> LeaseSocket::Dial(const std::string& address,
                                                               const Credentials& credentials,
                                                               Duration timeout) {
  const DialDeadline until =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout.nanoseconds());
  ASSIGN_OR_RETURN(const auto tls, BulkTls::Make(credentials));
  ASSIGN_OR_RETURN(Fd fd, DialTcp(address, until));
  ASSIGN_OR_RETURN(auto socket, BulkSocket::Connect(std::move(fd), *tls, kServerName, until));
  RETURN_IF_ERROR(ProveAsClient(socket.get(), {address, kLeaseMagic}, credentials.token, until));
  return std::make_unique<LeaseSocket>(std::move(socket));
}

absl::Status LeaseSocket::Receive(std::vector<LeaseFrame>* frames) {
  std::array<char, 64 << 10> bytes;
  absl::Status status;
  for (;;) {
    const absl::StatusOr<size_t> got = socket_->ReadSome(bytes.data(), bytes.size());
    if (!got.ok()) status = got.status();
    if (!got.ok() || *got == 0) break;
    unread_.append(bytes.data(), *got);
    const std::optional<size_t> used = TakeFrames(unread_, frames);
    if (!used) return absl::UnavailableError("what came is no frame");
    unread_.erase(0, *used);
    if (*got < bytes.size()) break;
  }
  return status;
}

absl::Status LeaseSocket::Flush() {
  while (has_unsent()) {
    ASSIGN_OR_RETURN(const size_t sent,
                     socket_->WriteSome(unsent_.data() + sent_, unsent_.size() - sent_));
    if (sent == 0) break;
    sent_ += sent;
  }
  if (!has_unsent()) {
    unsent_.clear();
    sent_ = 0;
  } else if (unsent_.size() - sent_ > kUnsentBytesMax) {
    return absl::UnavailableError("the other side does not take what it asked for");
  } else if (sent_ > unsent_.size() / 2) {
    // Otherwise the buffer would grow as long as there is anything unsent. Fewer bytes move than
    // were sent.
    unsent_.erase(0, std::exchange(sent_, 0));
  }
  return absl::OkStatus();
}

}  // namespace paceline::wire

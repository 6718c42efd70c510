#include "paceline/server/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace paceline::server {
namespace {

constexpr uint64_t kFirstBodyBytes = 256 << 10;
constexpr size_t kKeptBytes = size_t{8} << 20;  // of buffers between two frames

uint64_t Words(uint64_t bytes) { return (bytes + 7) / 8; }

}  // namespace

Connection::Arrived Connection::Take() {
  const auto receive = [this](std::byte* to, size_t bytes) -> ssize_t {
    for (;;) {
      const ssize_t got = ::recv(fd_.get(), to, bytes, 0);
      if (got >= 0 || errno != EINTR) return got;
    }
  };
  const auto outcome = [](ssize_t got) {
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? Arrived::kNothing
                                                                : Arrived::kClosed;
  };
  while (!has_head_) {
    const size_t had = head_bytes_.size();
    head_bytes_.resize(ps::kTableHeadBytes);
    const ssize_t got = receive(head_bytes_.data() + had, ps::kTableHeadBytes - had);
    head_bytes_.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) return outcome(got);
    if (head_bytes_.size() < ps::kTableHeadBytes) continue;
    const auto read = ps::ReadHead(head_bytes_);
    if (!read) return Arrived::kMalformed;
    head_ = read->head;
    has_head_ = true;
    body_bytes_ = 0;
  }
  // A head may promise much: memory is taken as bytes come.
  while (body_bytes_ < head_.bytes) {
    const uint64_t room = std::min(head_.bytes, std::max(kFirstBodyBytes, body_bytes_ * 2));
    if (body_.size() < Words(room)) body_.resize(Words(room));
    auto* const at = reinterpret_cast<std::byte*>(body_.data()) + body_bytes_;
    const ssize_t got = receive(at, room - body_bytes_);
    if (got <= 0) return outcome(got);
    body_bytes_ += static_cast<uint64_t>(got);
  }
  return ps::IsBodyOf(head_bytes_, body()) ? Arrived::kFrame : Arrived::kMalformed;
}

void Connection::Drop() {
  head_bytes_.clear();
  has_head_ = false;
  if (body_.size() * sizeof(uint64_t) > kKeptBytes) std::vector<uint64_t>().swap(body_);
}

bool Connection::Flush() {
  while (has_unsent()) {
    const ssize_t sent =
        ::send(fd_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    sent_ += static_cast<size_t>(sent);
  }
  if (unsent_.size() > kKeptBytes) std::string().swap(unsent_);
  unsent_.clear();
  sent_ = 0;
  return true;
}

}  // namespace paceline::server

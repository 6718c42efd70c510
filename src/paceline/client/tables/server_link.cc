#include "paceline/client/tables/server_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/base/unix_dial.h"

namespace paceline::client {
namespace {

constexpr int64_t kRetryNs = 20'000'000;
constexpr uint64_t kFirstBodyBytes = 256 << 10;

}  // namespace

void ServerLink::Dial(int64_t now_ns) {
  fd_ = DialUnix(place_.socket, SOCK_NONBLOCK);
  if (!fd_.is_open()) return Break(now_ns, std::strerror(errno));
  step_ = Step::kGreeting;
  Ask({.op = ps::TableOp::kHello},
      ps::EncodeHello({.server = place_.server, .servers = place_.servers, .job = place_.job}));
}

void ServerLink::Break(int64_t now_ns, const std::string& why) {
  fd_.Close();
  step_ = Step::kAway;
  tables_.clear();
  reopened_ = SIZE_MAX;
  inits_done_ = 0;
  is_old_init_ = is_old_open_ = false;
  unsent_.clear();
  sent_ = 0;
  head_bytes_.clear();
  has_head_ = false;
  is_forgotten_ = false;
  retry_ns_ = now_ns + kRetryNs;
  why_ = why;
}

void ServerLink::Ask(ps::TableHead head, std::string_view body) {
  head.number = ++number_;
  unsent_ = ps::EncodeFrame(head, body);
  sent_ = 0;
}

void ServerLink::Send(ps::TableHead head, std::string_view body) {
  Ask(head, body);
  step_ = Step::kCalling;
}

void ServerLink::KeepInit(uint32_t table, uint32_t count, std::string body) {
  const auto is_same = [&](const KeptInit& one) {
    return one.table == table && one.count == count && one.body == body;
  };
  if (std::any_of(inits_.begin(), inits_.end(), is_same)) return;
  const bool is_done = inits_done_ == inits_.size() && step_ != Step::kAway;
  inits_.push_back({table, count, std::move(body)});
  if (is_done) inits_done_ = inits_.size();
}

void ServerLink::SetInits(std::vector<KeptInit> inits) {
  const bool is_done = inits_done_ == inits_.size() && step_ != Step::kAway;
  is_old_init_ = step_ == Step::kIniting;
  inits_ = std::move(inits);
  inits_done_ = is_done ? inits_.size() : 0;
}

void ServerLink::Reopen() {
  if (step_ == Step::kAway) return;
  is_old_open_ = step_ == Step::kOpening;
  reopened_ = 0;
}

void ServerLink::Forget() {
  if (step_ == Step::kCalling) is_forgotten_ = true;
}

short ServerLink::events() const {
  return static_cast<short>(sent_ < unsent_.size() ? POLLIN | POLLOUT : POLLIN);
}

bool ServerLink::Flush(int64_t now_ns) {
  while (sent_ < unsent_.size()) {
    const ssize_t sent =
        ::send(fd_.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return true;
    if (sent < 0) {
      Break(now_ns, std::strerror(errno));
      return false;
    }
    sent_ += static_cast<size_t>(sent);
  }
  return true;
}

bool ServerLink::Receive(int64_t now_ns) {
  // Bytes received, 0: none yet, -1: the connection broke.
  const auto receive = [&](std::byte* to, uint64_t bytes) -> ssize_t {
    for (;;) {
      const ssize_t got = ::recv(fd_.get(), to, bytes, 0);
      if (got > 0) return got;
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return 0;
      Break(now_ns, got == 0 ? "it has closed the connection" : std::strerror(errno));
      return -1;
    }
  };
  while (!has_head_) {
    const size_t had = head_bytes_.size();
    head_bytes_.resize(ps::kTableHeadBytes);
    const ssize_t got = receive(head_bytes_.data() + had, ps::kTableHeadBytes - had);
    if (got < 0) return false;
    head_bytes_.resize(had + static_cast<size_t>(got));
    if (got == 0) return false;
    if (head_bytes_.size() < ps::kTableHeadBytes) continue;
    const auto read = ps::ReadHead(head_bytes_);
    if (!read) {
      Break(now_ns, "its answer is no frame");
      return false;
    }
    head_ = read->head;
    has_head_ = true;
    body_bytes_ = 0;
  }
  while (body_bytes_ < head_.bytes) {
    const uint64_t room = std::min(head_.bytes, std::max(kFirstBodyBytes, body_bytes_ * 2));
    if (body_.size() < (room + 7) / 8) body_.resize((room + 7) / 8);
    auto* const at = reinterpret_cast<std::byte*>(body_.data()) + body_bytes_;
    const ssize_t got = receive(at, room - body_bytes_);
    if (got <= 0) return false;
    body_bytes_ += static_cast<uint64_t>(got);
  }
  if (!ps::IsBodyOf(head_bytes_, body())) {
    Break(now_ns, "its answer was damaged on the way");
    return false;
  }
  head_bytes_.clear();
  has_head_ = false;
  return true;
}

std::optional<ServerLink::Answer> ServerLink::Go(int64_t now_ns,
                                                 std::span<const std::string> specs) {
  if (step_ == Step::kAway) {
    if (now_ns < retry_ns_) return std::nullopt;
    Dial(now_ns);
  }
  while (step_ != Step::kAway) {
    if (step_ == Step::kReady) {
      if (tables_.size() < specs.size()) {
        step_ = Step::kOpening;
        Ask({.op = ps::TableOp::kOpen}, specs[tables_.size()]);
      } else if (reopened_ < specs.size()) {
        step_ = Step::kOpening;
        Ask({.op = ps::TableOp::kOpen}, specs[reopened_]);
      } else if (inits_done_ < inits_.size()) {
        const KeptInit& init = inits_[inits_done_];
        step_ = Step::kIniting;
        Ask({.op = ps::TableOp::kInit,
             .table = tables_[init.table],
             .count = init.count,
             .recovery = version_},
            init.body);
      } else {
        return std::nullopt;
      }
    }
    if (!Flush(now_ns) || !Receive(now_ns)) return std::nullopt;
    if (head_.op == ps::TableOp::kRefused && !is_forgotten_) {
      // A refused table is not opened again by this link: the owner forgets its spec.
      const auto refusal = static_cast<ps::TableRefusal>(head_.count);
      if (refusal == ps::TableRefusal::kOtherServer) {
        Break(now_ns, std::string(reinterpret_cast<const char*>(body_.data()), head_.bytes));
        return std::nullopt;
      }
      step_ = Step::kReady;
      return Answer{head_, body()};
    }
    if (head_.number != number_) continue;
    const bool is_wanted = step_ == Step::kCalling && !std::exchange(is_forgotten_, false);
    const bool is_moved = head_.op == ps::TableOp::kMoved;
    const bool is_init = step_ == Step::kIniting && !std::exchange(is_old_init_, false);
    const bool is_open = step_ == Step::kOpening;
    if (is_open && tables_.size() < specs.size()) {
      tables_.push_back(head_.table);
      is_old_open_ = false;
    } else if (is_open && !std::exchange(is_old_open_, false)) {
      ++reopened_;
    }
    if (is_init && !is_moved) ++inits_done_;
    step_ = Step::kReady;
    if (is_wanted || (is_init && is_moved)) return Answer{head_, body()};
  }
  return std::nullopt;
}

}  // namespace paceline::client

// The answers that a lease reader receives, and its receiving thread.

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/client/lease_reader.h"

namespace paceline::client {
namespace {

constexpr int kReconnectMilliseconds = 20;
constexpr int kAckMilliseconds = 5;

}  // namespace

void LeaseReader::Hear(const LeaseFrame& frame) {
  switch (frame.op) {
    case LeaseOp::kOpened:
      is_opening_ = false;
      if (!known_) known_ = frame.end;
      return;
    case LeaseOp::kGranted: return HearGranted(frame);
    case LeaseOp::kWait:
      if (const auto request = requests_.find(frame.number); request != requests_.end()) {
        request->second = true;
      }
      return;
    case LeaseOp::kComplete:
      if (requests_.erase(frame.number) == 0) return;  // requested before a rewind
      requests_.clear();
      complete_ =
          Taken{.what = What::kComplete, .range = {frame.begin, frame.end}, .text = frame.text};
      return;
    case LeaseOp::kStale: HearStale(frame); return Presented(frame.lease);
    case LeaseOp::kConfirmed: return HearConfirmed(frame.number);
    case LeaseOp::kPresented: HearPresented(frame); return Presented(frame.lease);
    case LeaseOp::kRecall: return HearRecall(frame);
    case LeaseOp::kMarked:
      if (const auto mark = marks_.find(frame.number); mark != marks_.end()) {
        mark->second = frame.text;
      }
      return;
    case LeaseOp::kRewound:
      if (frame.number != rewind_number_) return;
      is_rewinding_ = false;
      known_ = frame.end;
      return;
    case LeaseOp::kStands:
      if (frame.number != stand_number_) return;
      stand_ = Taken{.what = What::kComplete,
                     .lease = frame.begin,
                     .range = {0, frame.end},
                     .text = frame.text};
      return;
    case LeaseOp::kRefused: ended_ = Taken{.what = What::kRefused, .text = frame.text}; return;
    case LeaseOp::kFenced: ended_ = Taken{.what = What::kFenced}; return;
    case LeaseOp::kReset:
      // The agent sends it for each new connection, the master if it does not know this process.
      if (frame.number == 0 && is_opening_) return;
      ++counters_.resets;
      return Reopen();
    default: return;
  }
}

void LeaseReader::HearGranted(const LeaseFrame& frame) {
  // Granted before a rewind: it is outdated, and the ledger knows that as well.
  if (requests_.erase(frame.number) == 0) return;
  held_[frame.lease] = {.range = {frame.begin, frame.end},
                        .said = frame.begin,
                        .done = frame.begin,
                        .confirmed = frame.begin,
                        .text = frame.text};
  ready_.push_back(frame.lease);
  granted_ += frame.end - frame.begin;
  ++counters_.leases;
}

// A lease that the caller has not seen goes back at once.
void LeaseReader::HearRecall(const LeaseFrame& frame) {
  const auto held = held_.find(frame.lease);
  if (held == held_.end()) return Say({.op = LeaseOp::kReturn, .lease = frame.lease});
  held->second.is_recalled = true;
  if (std::find(ready_.begin(), ready_.end(), frame.lease) == ready_.end()) return;
  Drop(frame.lease);
  Say({.op = LeaseOp::kReturn, .lease = frame.lease});
}

void LeaseReader::Drop(uint64_t lease) {
  held_.erase(lease);
  std::erase_if(ready_, [lease](uint64_t one) { return one == lease; });
  std::erase_if(unconfirmed_, [lease](const Said& one) { return one.lease == lease; });
}

void LeaseReader::HearStale(const LeaseFrame& frame) {
  std::erase_if(unconfirmed_, [&](const Said& one) { return one.lease == frame.lease; });
  if (!held_.contains(frame.lease)) return;
  ++counters_.stale;
  Drop(frame.lease);
}

void LeaseReader::HearConfirmed(uint64_t number) {
  while (!unconfirmed_.empty() && unconfirmed_.front().number <= number) {
    const Said said = unconfirmed_.front();
    unconfirmed_.pop_front();
    const auto held = held_.find(said.lease);
    if (held == held_.end()) continue;
    held->second.confirmed = std::max(held->second.confirmed, said.until);
    std::erase_if(held->second.gaps,
                  [&said](const LeaseFrame& gap) { return gap.end <= said.until; });
    const bool is_all = held->second.confirmed == held->second.done;
    if (held->second.is_over && is_all) held_.erase(held);
  }
}

// The lease continues at the new ledger. Acks that the ledger lacks are repeated.
void LeaseReader::HearPresented(const LeaseFrame& frame) {
  const auto found = held_.find(frame.lease);
  if (found == held_.end()) return Say({.op = LeaseOp::kReturn, .lease = frame.lease});
  Held& held = found->second;
  held.confirmed = std::max(held.confirmed, frame.begin);
  std::erase_if(unconfirmed_, [&](const Said& one) { return one.lease == frame.lease; });
  held.said = frame.begin;
  if (held.done > held.said) SayAck(frame.lease, &held);
  // The ledger may have had all of a lease that was given back.
  if (held.is_over && options_.open.is_stream) Say({.op = LeaseOp::kReturn, .lease = frame.lease});
  if (held.is_over && held.said == frame.begin) held_.erase(found);
}

// ---- the thread ----

bool LeaseReader::Connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, options_.socket.data(), options_.socket.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  socket_ = std::move(fd);
  unread_.clear();
  Reopen();
  return true;
}

void LeaseReader::Disconnect() {
  const std::lock_guard lock(mutex_);
  socket_.Close();
  unsent_.clear();
  ++counters_.resets;
}

void LeaseReader::Run() {
  while (true) {
    pollfd waits[2] = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                       {.fd = -1, .events = POLLIN, .revents = 0}};
    int timeout = -1;
    {
      const std::lock_guard lock(mutex_);
      if (is_ending_ && (unsent_.empty() || !socket_.is_open())) return;
      waits[1].fd = socket_.is_open() ? socket_.get() : -1;
      if (!unsent_.empty()) waits[1].events |= POLLOUT;
      if (has_unsaid_) timeout = kAckMilliseconds;
    }
    if (waits[1].fd < 0) {
      if (Connect()) continue;
      timeout = kReconnectMilliseconds;
    }
    ::poll(waits, 2, timeout);
    if (waits[0].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof(count));
    }
    if ((waits[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      Read();
    } else {
      const std::lock_guard lock(mutex_);
      SayAcks(/*is_urgent=*/false);
      Push();
    }
  }
}

void LeaseReader::Read() {
  std::array<char, 64 << 10> bytes;
  const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return Disconnect();
  std::vector<LeaseFrame> frames;
  std::unique_lock lock(mutex_);
  unread_.append(bytes.data(), static_cast<size_t>(got));
  const std::optional<size_t> used = TakeFrames(unread_, &frames);
  if (!used) {
    lock.unlock();
    return Disconnect();
  }
  unread_.erase(0, *used);
  for (const LeaseFrame& frame : frames) Hear(frame);
  Push();
  changed_.notify_all();
}

}  // namespace paceline::client

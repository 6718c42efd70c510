#include "paceline/server/ledger_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/log.h"
#include "paceline/base/socket_bytes.h"
#include "paceline/base/unix_dial.h"
#include "paceline/model/lease_frame.h"

namespace paceline::server {
namespace {

// The server sends everything again if the ledger has not answered within this time, because an
// agent drops frames while it has no master.
constexpr int kAnswerPatienceMs = 500;
constexpr int kRedialMs = 50;
// After the first signal. A job that ends at once still learns whether its tables are whole.
constexpr int64_t kEndPatienceNs = 5'000'000'000;

int64_t MonotonicNow() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool IsReadable(int fd, int timeout_ms) {
  pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, timeout_ms) > 0;
}

// Frames of whole lines.
std::string FramesOf(const TablesHave& have) {
  std::string frames;
  LeaseFrame frame{
      .op = LeaseOp::kTablesHave, .number = have.server, .lease = 0, .begin = have.restarts};
  for (size_t at = 0;; ++frame.lease) {
    const size_t last = have.text.size() - at <= kLeaseFrameTextMax
                            ? have.text.size()
                            : have.text.rfind('\n', at + kLeaseFrameTextMax - 1) + 1;
    frame.text = have.text.substr(at, last - at);
    at = last;
    frame.flags = at < have.text.size() ? LeaseFrame::kMore : uint16_t{0};
    AppendFrame(frame, &frames);
    if (frame.flags == 0) return frames;
  }
}

// None: to be told again.
std::optional<Freed> Ask(int fd, const std::string& told) {
  if (!SendAll(fd, told.data(), told.size())) return std::nullopt;
  std::string unread;
  while (IsReadable(fd, kAnswerPatienceMs)) {
    std::array<char, 4096> bytes;
    const ssize_t got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    unread.append(bytes.data(), static_cast<size_t>(got));
    std::vector<LeaseFrame> frames;
    const std::optional<size_t> used = TakeFrames(unread, &frames);
    if (!used) return std::nullopt;
    unread.erase(0, *used);
    for (const LeaseFrame& frame : frames) {
      if (frame.op == LeaseOp::kUndone) return Freed{frame.begin, frame.end, frame.text};
      if (frame.op == LeaseOp::kReset) return std::nullopt;  // there is a new master
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Freed> TellLedger(const std::string& socket, const TablesHave& have, int signals) {
  const std::string told = FramesOf(have);
  bool is_logged = false;
  int64_t until_ns = 0;  // after a signal
  for (;;) {
    const Fd fd = DialUnix(socket, 0);
    if (fd.is_open()) {
      if (std::optional<Freed> freed = Ask(fd.get(), told)) return freed;
    }
    if (until_ns == 0 && IsReadable(signals, kRedialMs)) until_ns = MonotonicNow() + kEndPatienceNs;
    if (until_ns != 0) {
      if (MonotonicNow() > until_ns) return std::nullopt;
      IsReadable(-1, kRedialMs);
    }
    if (!is_logged) LogWarning("ledger_away", {{"socket", socket}});
    is_logged = true;
  }
}

}  // namespace paceline::server

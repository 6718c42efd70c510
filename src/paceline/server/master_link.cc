#include "paceline/server/master_link.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <utility>

#include "paceline/base/unix_dial.h"
#include "paceline/model/lease_frame.h"

namespace paceline::server {
namespace {

constexpr int64_t kLinkRetryNs = 20'000'000;

}  // namespace

void MasterLink::Break(int64_t now_ns) {
  fd_.Close();
  unread_.clear();
  retry_ns_ = now_ns + kLinkRetryNs;
}

// The agent reads at once, so the few bytes always fit into the socket.
void MasterLink::Send() {
  std::string bytes;
  AppendFrame({.op = LeaseOp::kTablesWatch, .number = server_}, &bytes);
  if (taken_) AppendFrame({.op = LeaseOp::kTablesTaken, .text = EncodeTaken(*taken_)}, &bytes);
  const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size())) fd_.Close();
}

void MasterLink::Tell(std::optional<PartitionsTaken> taken) {
  if (taken == taken_) return;
  taken_ = taken;
  if (taken_ && fd_.is_open()) Send();
}

std::optional<RoutingNews> MasterLink::Go(int64_t now_ns) {
  if (!is_on()) return std::nullopt;
  if (!fd_.is_open()) {
    if (now_ns < retry_ns_) return std::nullopt;
    fd_ = DialUnix(socket_, SOCK_NONBLOCK);
    if (!fd_.is_open()) {
      Break(now_ns);
      return std::nullopt;
    }
    ++links_;
    Send();
  }
  std::optional<RoutingNews> news;
  while (fd_.is_open()) {
    std::array<char, 64 << 10> bytes;
    const ssize_t got = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      Break(now_ns);
      break;
    }
    unread_.append(bytes.data(), static_cast<size_t>(got));
    std::vector<LeaseFrame> frames;
    const std::optional<size_t> used = TakeFrames(unread_, &frames);
    if (!used) {
      Break(now_ns);
      break;
    }
    unread_.erase(0, *used);
    for (const LeaseFrame& frame : frames) {
      if (frame.op == LeaseOp::kReset) Send();  // there is a new master
      if (frame.op != LeaseOp::kRouting) continue;
      std::optional<RoutingNews> heard = ParseNews(frame.text);
      if (heard && (!news || heard->id > news->id)) news = std::move(heard);
    }
  }
  if (!fd_.is_open() && retry_ns_ <= now_ns) retry_ns_ = now_ns + kLinkRetryNs;
  return news;
}

}  // namespace paceline::server

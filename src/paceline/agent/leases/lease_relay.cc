#include "paceline/agent/leases/lease_relay.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "paceline/agent/socket/unix_socket.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr int64_t kRedialNs = 20'000'000;
constexpr int64_t kRedialMaxNs = 50'000'000;
// A dial blocks this thread. Without a connection it could not answer anyway.
constexpr Duration kDialPatience = Duration::Milliseconds(500);
constexpr size_t kKilledMax = 1'024;

}  // namespace

LeaseRelay::LeaseRelay(Setup setup, std::unique_ptr<Reactor> reactor, Fd fd)
    : setup_(std::move(setup)), reactor_(std::move(reactor)), fd_(std::move(fd)) {}

absl::StatusOr<std::unique_ptr<LeaseRelay>> LeaseRelay::Start(Setup setup) {
  ASSIGN_OR_RETURN(Fd fd, ListenAt(setup.socket));
  ASSIGN_OR_RETURN(auto reactor, Reactor::Create());
  std::unique_ptr<LeaseRelay> relay(
      new LeaseRelay(std::move(setup), std::move(reactor), std::move(fd)));
  RETURN_IF_ERROR(relay->Watch());
  LeaseRelay* const raw = relay.get();
  relay->thread_ = std::thread([raw] { raw->reactor_->Run(); });
  return relay;
}

absl::Status LeaseRelay::Watch() {
  Ping();
  return reactor_->Watch(fd_.get(), EPOLLIN, [this](uint32_t) { OnPeer(); });
}

LeaseRelay::~LeaseRelay() {
  reactor_->Post([this] { reactor_->Stop(); });
  if (thread_.joinable()) thread_.join();
  ::unlink(setup_.socket.c_str());
}

void LeaseRelay::SetMaster(const std::string& address) {
  reactor_->Post([this, address] {
    // If a new master has the same address, its predecessor's connection is closed already. Only
    // another address needs a new connection here.
    if (address == master_) return;
    master_ = address;
    BreakUpstream("there is a new master");
  });
}

void LeaseRelay::NoteKilled(int32_t pid) {
  const ProcessId process{.pid = pid, .start_time_ticks = StartTimeOf(pid)};
  const std::lock_guard lock(mutex_);
  if (std::find(killed_.begin(), killed_.end(), process) != killed_.end()) return;
  killed_.push_back(process);
  if (killed_.size() > kKilledMax) killed_.pop_front();
}

// ---- processes of this node ----

void LeaseRelay::OnPeer() {
  for (;;) {
    Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_open()) return PauseAccepting(*reactor_, fd_.get(), errno, &accept_timer_);
    const std::optional<ucred> who = SameUserAt(fd.get());
    if (!who.has_value() || peers_.size() >= kPeersMax) continue;
    const PeerId id = next_++;
    Peer& peer = peers_[id];
    peer.fd = std::move(fd);
    peer.process = {.pid = who->pid, .start_time_ticks = StartTimeOf(who->pid)};
    peer.pidfd = OpenPidfd(peer.process);
    const absl::Status status = reactor_->Watch(
        peer.fd.get(), EPOLLIN, [this, id](uint32_t events) { OnReady(id, events); });
    if (!status.ok() || !peer.pidfd.is_open()) {
      if (status.ok()) reactor_->Unwatch(peer.fd.get());
      peers_.erase(id);
      continue;
    }
    // Detects the process's end even if a forked child holds its socket open.
    reactor_->Watch(peer.pidfd.get(), EPOLLIN, [this, id](uint32_t) { Gone(id, true); })
        .IgnoreError();
  }
}

void LeaseRelay::OnReady(PeerId id, uint32_t events) {
  if ((events & EPOLLOUT) != 0) Flush(id);
  const auto found = peers_.find(id);
  if (found == peers_.end() || (events & ~uint32_t{EPOLLOUT}) == 0) return;
  Peer& peer = found->second;
  std::array<char, 64 << 10> bytes;
  const ssize_t got = ::recv(peer.fd.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return Gone(id, IsDying(peer.process));
  peer.unread.append(bytes.data(), static_cast<size_t>(got));
  std::vector<LeaseFrame> frames;
  const std::optional<size_t> used = TakeFrames(peer.unread, &frames);
  if (!used) {
    LogWarning("lease_peer_cut", {{"pid", peer.process.pid}, {"why", "what it says is no frame"}});
    return Gone(id, false);
  }
  peer.unread.erase(0, *used);
  // Dropped without a master: the next master asks all processes to repeat everything.
  if (upstream_ == nullptr) return;
  for (LeaseFrame& frame : frames) {
    if (frame.op >= LeaseOp::kGone) continue;  // processes may not send these
    frame.peer = id;
    upstream_->Add(frame);
  }
  FlushUpstream();
}

void LeaseRelay::Gone(PeerId id, bool has_died) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  reactor_->Unwatch(peer.fd.get());
  reactor_->Unwatch(peer.pidfd.get());
  bool is_blamed = has_died;
  {
    const std::lock_guard lock(mutex_);
    if (std::find(killed_.begin(), killed_.end(), peer.process) != killed_.end()) {
      is_blamed = false;
    }
  }
  peers_.erase(found);
  if (upstream_ == nullptr) return;
  upstream_->Add(
      {.op = LeaseOp::kGone, .flags = is_blamed ? LeaseFrame::kBlamed : uint16_t{0}, .peer = id});
  FlushUpstream();
}

void LeaseRelay::Flush(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  peer.is_dirty = false;
  const ssize_t sent =
      ::send(peer.fd.get(), peer.unsent.data(), peer.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) peer.unsent.erase(0, static_cast<size_t>(sent));
  if (peer.unsent.size() > kUnreadBytesMax) return Gone(id, false);
  if (peer.unsent.empty() != peer.is_full) return;
  peer.is_full = !peer.is_full;
  reactor_->Change(peer.fd.get(), peer.is_full ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

// ---- the master ----

void LeaseRelay::Dial() {
  dial_timer_ = 0;
  if (upstream_ != nullptr || master_.empty()) return;
  auto dialled = wire::LeaseSocket::Dial(master_, setup_.credentials, kDialPatience);
  absl::Status status = dialled.status();
  if (status.ok()) {
    upstream_ = *std::move(dialled);
    is_upstream_full_ = false;
    status =
        reactor_->Watch(upstream_->fd(), EPOLLIN, [this](uint32_t events) { OnUpstream(events); });
  }
  if (!status.ok()) {
    if (redial_ns_ == 0) LogWarning("lease_master_away", {{"why", status}});
    upstream_.reset();
    redial_ns_ = std::clamp(redial_ns_ * 2, kRedialNs, kRedialMaxNs);
    dial_timer_ = reactor_->CallAt(MonotonicNs() + redial_ns_, [this] { Dial(); });
    return;
  }
  redial_ns_ = 0;
  ++links_;
  LogInfo("lease_master", {{"address", master_}, {"processes", peers_.size()}});
  std::vector<PeerId> all;
  for (const auto& [id, peer] : peers_) all.push_back(id);
  for (const PeerId id : all) {
    AppendFrame({.op = LeaseOp::kReset, .number = links_}, &peers_.at(id).unsent);
    Flush(id);
  }
}

void LeaseRelay::BreakUpstream(std::string_view why) {
  if (upstream_ != nullptr) {
    LogWarning("lease_master_lost", {{"why", why}});
    reactor_->Unwatch(upstream_->fd());
    upstream_.reset();
  }
  if (dial_timer_ == 0) dial_timer_ = reactor_->CallAt(MonotonicNs(), [this] { Dial(); });
}

void LeaseRelay::OnUpstream(uint32_t events) {
  if ((events & EPOLLOUT) != 0) FlushUpstream();
  if (upstream_ == nullptr) return;
  std::vector<LeaseFrame> frames;
  const absl::Status status = upstream_->Receive(&frames);
  std::vector<PeerId> dirty;
  for (const LeaseFrame& frame : frames) {
    const auto peer = peers_.find(frame.peer);
    if (peer == peers_.end()) continue;
    AppendFrame(frame, &peer->second.unsent);
    if (!std::exchange(peer->second.is_dirty, true)) dirty.push_back(frame.peer);
  }
  for (const PeerId id : dirty) Flush(id);
  if (!status.ok()) BreakUpstream(Text(status));
}

void LeaseRelay::FlushUpstream() {
  if (upstream_ == nullptr) return;
  if (const absl::Status status = upstream_->Flush(); !status.ok()) {
    return BreakUpstream(Text(status));
  }
  if (upstream_->has_unsent() == is_upstream_full_) return;
  is_upstream_full_ = !is_upstream_full_;
  reactor_->Change(upstream_->fd(), is_upstream_full_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void LeaseRelay::Ping() {
  reactor_->CallAt(MonotonicNs() + wire::kLeasePing.nanoseconds(), [this] { Ping(); });
  if (upstream_ == nullptr) return;
  upstream_->Add({.op = LeaseOp::kPing});
  FlushUpstream();
}

}  // namespace paceline::agent

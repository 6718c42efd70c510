#include "paceline/wire/bulk/lease_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/bulk/channel_proof.h"
#include "paceline/wire/security/peer_limits.h"

namespace paceline::wire {
namespace {

constexpr uint64_t kWakeTag = 0;  // no link has this id
constexpr int kEventsMax = 256;

Credentials ClientView(const ServerCredentials& server) {
  return {.token = server.token,
          .ca_pem = server.is_tls() ? server.ca_pem : "",
          .cert_pem = server.cert_pem,
          .key_pem = server.key_pem};
}

}  // namespace

Instant LeaseServer::Now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return Instant::FromNanoseconds(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

LeaseServer::LeaseServer(const ServerCredentials& credentials, std::unique_ptr<BulkTls> tls,
                         std::unique_ptr<Listener> listener)
    : token_(credentials.token),
      tls_(std::move(tls)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      listener_(std::move(listener)) {}

absl::StatusOr<std::unique_ptr<LeaseServer>> LeaseServer::Open(
    const Place& place, const ServerCredentials& credentials) {
  if (credentials.token.empty()) return absl::InvalidArgumentError("the job has no token");
  if (!credentials.is_tls() && !place.is_insecure && !IsLoopbackAddress(place.listen)) {
    return absl::FailedPreconditionError("other hosts could reach it, and the job has no TLS");
  }
  ASSIGN_OR_RETURN(auto tls, BulkTls::Make(ClientView(credentials)));
  ASSIGN_OR_RETURN(auto listener, Listener::Open(place.listen));
  return std::unique_ptr<LeaseServer>(
      new LeaseServer(credentials, std::move(tls), std::move(listener)));
}

void LeaseServer::Start(Hooks hooks) {
  hooks_ = std::move(hooks);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeTag}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
  thread_ = std::thread([this] { Run(); });
  listener_->Start({.take = [this](Connection connection) { Take(std::move(connection)); },
                    .make_room = [this] { Reap(); }});
}

LeaseServer::~LeaseServer() { Stop(); }

void LeaseServer::Stop() {
  is_ending_ = true;
  listener_.reset();  // stop accepting
  {
    const std::lock_guard lock(mutex_);
    for (const Newcomer& one : newcomers_) ::shutdown(one.handle.get(), SHUT_RDWR);
  }
  for (Newcomer& one : newcomers_) one.thread.join();
  newcomers_.clear();
  Wake();
  if (thread_.joinable()) thread_.join();
}

// ---- new connections: accepted on the listener's thread, proven on a thread of their own ----

void LeaseServer::Reap() {
  std::list<Newcomer> done;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = newcomers_.begin(); it != newcomers_.end();) {
      const auto next = std::next(it);
      if (it->is_done) done.splice(done.end(), newcomers_, it);
      it = next;
    }
    // The oldest is dropped: a process of the job proves its token at once.
    if (newcomers_.size() >= kUnprovenMax) {
      ::shutdown(newcomers_.front().handle.get(), SHUT_RDWR);
      done.splice(done.end(), newcomers_, newcomers_.begin());
    }
  }
  for (Newcomer& one : done) one.thread.join();
}

void LeaseServer::Take(Connection connection) {
  Fd fd(connection.fd);
  Reap();
  const std::lock_guard lock(mutex_);
  Newcomer& one = newcomers_.emplace_back();
  one.handle = Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  one.thread = std::thread([this, &one, fd = fd.Release()] {
    const DialDeadline until = std::chrono::steady_clock::now() + kProofPatience;
    auto socket = BulkSocket::Accept(Fd(fd), *tls_, until);
    const bool is_ours = socket.ok() && ProveAsServer(socket->get(), token_, kLeaseMagic).ok();
    if (is_ours) {
      // std::function is copied, so a shared pointer holds the socket.
      const auto held = std::make_shared<std::unique_ptr<LeaseSocket>>(
          std::make_unique<LeaseSocket>(*std::move(socket)));
      Post([this, held] { Adopt(std::move(*held)); });
    }
    const std::lock_guard ending(mutex_);
    one.is_done = true;
    one.handle.Close();
  });
}

// ---- the thread ----

void LeaseServer::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

void LeaseServer::Post(std::function<void()> work) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = posted_.empty();
    posted_.push_back(std::move(work));
  }
  if (is_first) Wake();
}

void LeaseServer::RunPosted() {
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
  }
  for (const auto& work : posted) work();
}

void LeaseServer::Adopt(std::unique_ptr<LeaseSocket> socket) {
  if (links_.size() >= kLinksMax) return;
  const LinkId id = next_link_++;
  epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket->fd(), &event) != 0) return;
  links_[id] = {.socket = std::move(socket), .heard = Now()};
  Read(id);  // TLS may have read ahead, which epoll does not report
}

void LeaseServer::Read(LinkId id) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  std::vector<LeaseFrame> frames;
  const absl::Status status = found->second.socket->Receive(&frames);
  found->second.heard = Now();
  if (!frames.empty()) hooks_.heard(id, frames);
  if (!status.ok()) Drop(id, /*is_silent=*/false);
}

void LeaseServer::Send(LinkId id, const LeaseFrame& frame) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  found->second.socket->Add(frame);
  if (!std::exchange(found->second.is_dirty, true)) dirty_.push_back(id);
}

void LeaseServer::Drop(LinkId id, bool is_silent) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.socket->fd(), nullptr);
  links_.erase(found);
  hooks_.broken(id, is_silent);
}

void LeaseServer::FlushDirty() {
  for (const LinkId id : std::exchange(dirty_, {})) {
    const auto found = links_.find(id);
    if (found == links_.end()) continue;
    Link& link = found->second;
    link.is_dirty = false;
    if (!link.socket->Flush().ok()) {
      Drop(id, /*is_silent=*/false);
      continue;
    }
    if (link.socket->has_unsent() == link.is_full) continue;
    link.is_full = !link.is_full;
    const uint32_t events = link.is_full ? EPOLLIN | EPOLLOUT : EPOLLIN;
    epoll_event event{.events = events, .data = {.u64 = id}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link.socket->fd(), &event);
  }
}

void LeaseServer::CutSilent(Instant now) {
  if (now < silence_due_) return;
  // If this thread itself was stopped, it did not listen, so no link counts as silent.
  const bool was_away = now - silence_due_ > kLeasePing * 2;
  silence_due_ = now + kLeasePing / 2;
  std::vector<LinkId> silent;
  for (auto& [id, link] : links_) {
    if (was_away) link.heard = now;
    if (now - link.heard >= kSilenceMax) silent.push_back(id);
  }
  for (const LinkId id : silent) Drop(id, /*is_silent=*/true);
}

void LeaseServer::Run() {
  std::array<epoll_event, kEventsMax> events;
  Instant deadline = Now();
  silence_due_ = Now() + kLeasePing / 2;
  while (!is_ending_) {
    const Duration wait = std::min(deadline, silence_due_) - Now();
    const auto milliseconds =
        static_cast<int>(std::clamp<int64_t>((wait.nanoseconds() + 999'999) / 1'000'000, 0, 100));
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.u64 == kWakeTag) {
        uint64_t times = 0;
        [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &times, sizeof(times));
        continue;
      }
      if ((event.events & EPOLLOUT) != 0) dirty_.push_back(event.data.u64);
      if ((event.events & ~uint32_t{EPOLLOUT}) != 0) Read(event.data.u64);
    }
    RunPosted();
    CutSilent(Now());
    deadline = hooks_.round();
    FlushDirty();
  }
}

}  // namespace paceline::wire

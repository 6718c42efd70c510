#include "paceline/server/table_server.h"

#include <malloc.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/fnv.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/ps/frame/table_frame.h"
#include "paceline/ps/holding.h"
#include "paceline/server/connection.h"
#include "paceline/server/ledger_link.h"
#include "paceline/server/one_server.h"
#include "paceline/server/snapshots.h"
#include "paceline/server/table_desk.h"

namespace paceline::server {
namespace {

constexpr int kBacklog = 1024;
// A server writes snapshots for at most a twentieth of its time. It waits at least two seconds
// between two of them, and at most ten minutes.
constexpr int64_t kSnapshotShare = 20;
constexpr int64_t kSnapshotLeastNs = 2'000'000'000;
constexpr int64_t kSnapshotMostNs = 600'000'000'000;

int64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

absl::Status Failed(std::string_view what, const std::string& path) {
  return absl::InternalError(Concat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

absl::StatusOr<Fd> Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(Concat("the path of a socket is too long: ", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return Failed("make", path);
  ::unlink(path.c_str());
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(fd.get(), any, sizeof(address)) != 0) return Failed("bind", path);
  ::chmod(path.c_str(), 0600);
  if (::listen(fd.get(), kBacklog) != 0) return Failed("listen on", path);
  return fd;
}

bool IsSameUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  const bool is_known = ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  return is_known && peer.uid == ::geteuid();
}

// Chooses where keys lie in memory, so that nobody can choose keys that collide.
uint64_t Salt() {
  uint64_t salt = 0;
  if (::getrandom(&salt, sizeof(salt), 0) != sizeof(salt)) return ps::Holding::kSalt;
  return salt;
}

class Server {
 public:
  explicit Server(const TableServerOptions& options)
      : options_(options),
        holding_(Salt()),
        snapshots_(
            {.directory = options.directory, .server = options.server, .servers = options.servers}),
        desk_({.server = options.server,
               .servers = options.servers,
               .job = Fnv1a(options.job_id),
               .incarnation = options.generation},
              &holding_) {}
  ~Server() {
    if (listening_.is_open()) ::unlink(options_.socket.c_str());
  }

  absl::StatusOr<int> Run();

 private:
  absl::Status Load();
  bool TellTheLedger();
  std::string Owed() const;
  absl::Status Watch(int fd, uint32_t events, int operation);
  void Accept();
  void Serve(int fd, uint32_t events);
  bool Answer(Connection* connection);
  void End(int fd);
  void HearSignals();
  void MaybeSnapshot();
  void ChildEnded(int status);
  absl::Status LastSnapshot();
  int WaitMs() const;

  const TableServerOptions options_;
  ps::Holding holding_;
  Snapshots snapshots_;
  TableDesk desk_;
  ps::AppliedSet applied_;                              // when it was loaded
  std::map<uint64_t, std::vector<OrdinalRange>> owed_;  // by data set
  Fd lock_;                                             // of the directory
  Fd epoll_;
  Fd signals_;
  Fd listening_;
  std::map<int, std::unique_ptr<Connection>> connections_;
  bool is_ending_ = false;
  pid_t writer_ = 0;  // the fork that writes a snapshot
  int64_t writing_from_ns_ = 0;
  uint64_t writing_changes_ = 0;
  uint64_t saved_changes_ = 0;
  int64_t next_snapshot_ns_ = 0;
};

absl::Status Server::Watch(int fd, uint32_t events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) == 0) return absl::OkStatus();
  return absl::InternalError(Concat("epoll: ", std::strerror(errno)));
}

absl::Status Server::Load() {
  ASSIGN_OR_RETURN(Snapshots::Loaded loaded, snapshots_.Load(&holding_));
  for (const std::string& note : loaded.notes) LogWarning("snapshot", {{"note", note}});
  applied_ = std::move(loaded.applied);
  if (loaded.from.empty()) return absl::OkStatus();
  LogInfo("tables_loaded",
          {{"server", options_.server}, {"rows", loaded.rows}, {"from", loaded.from}});
  return absl::OkStatus();
}

// False: the job was stopped before.
bool Server::TellTheLedger() {
  if (options_.lease_socket.empty()) return true;
  const uint64_t job = Fnv1a(options_.job_id);
  const auto freed =
      TellLedger(options_.lease_socket,
                 {options_.server, options_.restarts, HaveText(applied_, job)}, signals_.get());
  if (!freed) return false;
  if (freed->count > 0) LogWarning("batches_again", {{"ordinals", freed->count}});
  for (const std::string_view line : SplitParts(freed->text, "\n")) {
    const size_t space = std::min(line.find(' '), line.size());
    const auto set = ParseWhole<uint64_t>(line.substr(0, space));
    const auto ranges = RangesFromText(line.substr(std::min(space + 1, line.size())));
    if (set && ranges) owed_[ps::SetOfJob(job, *set)] = *ranges;
  }
  return true;
}

// Batches that an earlier process of this server had, and that nobody pushed again; "": none.
std::string Server::Owed() const {
  for (uint32_t partition = options_.server; partition < ps::kPartitions;
       partition += options_.servers) {
    for (const auto& [set, ranges] : owed_) {
      for (const OrdinalRange& range : ranges) {
        if (holding_.Applied(partition, set).Covers(range)) continue;
        return Concat("the samples ", RangesToText({range}),
                      " were applied by an earlier process of this server after its last snapshot, "
                      "and no worker has repeated them");
      }
    }
  }
  return "";
}

absl::StatusOr<int> Server::Run() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&wanted, signal);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  signals_ = Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!signals_.is_open() || !epoll_.is_open()) {
    return absl::InternalError(Concat("no epoll or signalfd: ", std::strerror(errno)));
  }
  ASSIGN_OR_RETURN(lock_, BecomeServer(options_.directory, options_.server, options_.job_id));
  RETURN_IF_ERROR(Load());
  if (!TellTheLedger()) {
    return absl::UnavailableError("the job ended before this server reached the ledger of leases");
  }
  ASSIGN_OR_RETURN(listening_, Listen(options_.socket));
  RETURN_IF_ERROR(Watch(listening_.get(), EPOLLIN, EPOLL_CTL_ADD));
  RETURN_IF_ERROR(Watch(signals_.get(), EPOLLIN, EPOLL_CTL_ADD));
  while (!is_ending_) {
    std::array<epoll_event, 64> events;
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), WaitMs());
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == signals_.get()) {
        HearSignals();
      } else if (fd == listening_.get()) {
        Accept();
      } else {
        Serve(fd, events[static_cast<size_t>(i)].events);
      }
    }
    MaybeSnapshot();
  }
  RETURN_IF_ERROR(LastSnapshot());
  if (const std::string owed = Owed(); !owed.empty()) return absl::DataLossError(owed);
  return 0;
}

int Server::WaitMs() const {
  if (writer_ != 0 || desk_.changes() == saved_changes_) return -1;  // a signal or a request
  const int64_t left = (next_snapshot_ns_ - NowNs()) / 1'000'000 + 1;
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void Server::Accept() {
  for (;;) {
    Fd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_open()) {
      // The connection stays in the kernel's queue. Without a pause the loop would spin.
      if (errno == EMFILE || errno == ENFILE) ::usleep(10'000);
      return;
    }
    if (!IsSameUser(fd.get())) continue;
    const int number = fd.get();
    if (!Watch(number, EPOLLIN, EPOLL_CTL_ADD).ok()) continue;
    connections_[number] = std::make_unique<Connection>(std::move(fd));
  }
}

void Server::End(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  connections_.erase(fd);
}

// False: the connection is over.
bool Server::Answer(Connection* connection) {
  const int64_t from = NowNs();
  TableDesk::Reply reply =
      desk_.Handle(connection->head(), connection->body(), &connection->is_greeted);
  desk_.work().longest_ns = std::max(desk_.work().longest_ns, NowNs() - from);
  connection->Drop();
  connection->Send(std::move(reply.frame));
  connection->is_last = reply.is_last;
  return connection->Flush();
}

void Server::Serve(int fd, uint32_t events) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  Connection* const connection = found->second.get();
  const bool had_unsent = connection->has_unsent();
  if (!connection->Flush()) return End(fd);
  if (connection->has_unsent()) return;
  if (connection->is_last) return End(fd);
  if ((events & EPOLLIN) != 0 || had_unsent || (events & (EPOLLHUP | EPOLLERR)) != 0) {
    switch (connection->Take()) {
      case Connection::Arrived::kNothing: break;
      case Connection::Arrived::kClosed: return End(fd);
      case Connection::Arrived::kMalformed:
        LogWarning("peer_cut", {{"why", "what it says is no frame"}});
        connection->Send(TableDesk::Malformed("what came is no frame, or was damaged").frame);
        connection->is_last = true;
        if (!connection->Flush() || !connection->has_unsent()) return End(fd);
        break;
      case Connection::Arrived::kFrame:
        if (!Answer(connection)) return End(fd);
        if (connection->is_last && !connection->has_unsent()) return End(fd);
        break;
    }
  }
  if (connection->has_unsent() == had_unsent) return;
  Watch(fd, connection->has_unsent() ? EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD).IgnoreError();
}

void Server::HearSignals() {
  signalfd_siginfo heard{};
  while (::read(signals_.get(), &heard, sizeof(heard)) == sizeof(heard)) {
    if (heard.ssi_signo != SIGCHLD) is_ending_ = true;
  }
  int status = 0;
  if (writer_ != 0 && ::waitpid(writer_, &status, WNOHANG) == writer_) ChildEnded(status);
}

// ---- snapshots ----

void Server::MaybeSnapshot() {
  const int64_t now = NowNs();
  if (writer_ != 0 || desk_.changes() == saved_changes_ || now < next_snapshot_ns_) return;
  const std::string path = snapshots_.NextPath();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    LogWarning("snapshot_failed", {{"why", std::strerror(errno)}});
    next_snapshot_ns_ = now + kSnapshotLeastNs;
    return;
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    const absl::Status written = snapshots_.Write(holding_, path);
    if (!written.ok()) LogError("snapshot_failed", {{"why", written}});
    ::_exit(written.ok() ? 0 : 1);
  }
  writer_ = child;
  writing_from_ns_ = now;
  writing_changes_ = desk_.changes();
}

void Server::ChildEnded(int status) {
  writer_ = 0;
  const int64_t took = NowNs() - writing_from_ns_;
  const bool is_written = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  next_snapshot_ns_ =
      NowNs() + std::clamp(took * kSnapshotShare, kSnapshotLeastNs, kSnapshotMostNs);
  if (!is_written) return;
  saved_changes_ = writing_changes_;
  snapshots_.Prune();
}

absl::Status Server::LastSnapshot() {
  if (writer_ != 0) {
    int status = 0;
    if (::waitpid(writer_, &status, 0) == writer_) ChildEnded(status);
  }
  if (desk_.changes() == saved_changes_) return absl::OkStatus();
  RETURN_IF_ERROR(snapshots_.Write(holding_, snapshots_.NextPath()));
  snapshots_.Prune();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunTableServer(const TableServerOptions& options) {
  // Buffers of some megabytes come and go with each request. Given back to the kernel, each of
  // their pages would be zeroed anew for the next request.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 512 << 20);
  RETURN_IF_ERROR(MakeDirs(options.directory, 0700));
  return Server(options).Run();
}

}  // namespace paceline::server

#include "paceline/server/table_server.h"

#include <malloc.h>
#include <poll.h>
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
#include "paceline/ps/partition_share.h"
#include "paceline/server/connection.h"
#include "paceline/server/ledger_link.h"
#include "paceline/server/master_link.h"
#include "paceline/server/one_server.h"
#include "paceline/server/snapshots.h"
#include "paceline/server/table_desk.h"
#include "paceline/server/taker.h"
#include "paceline/server/whole_tables.h"

namespace paceline::server {
namespace {

constexpr int kBacklog = 1024;
// A server writes snapshots for at most a twentieth of its time. It waits at least two seconds
// between two of them, and at most ten minutes.
constexpr int64_t kSnapshotShare = 20;
constexpr int64_t kSnapshotLeastNs = 2'000'000'000;
constexpr int64_t kSnapshotMostNs = 600'000'000'000;
constexpr int kRoutingLookMs = 20;
// A job that ends at once still learns whether its tables are whole.
constexpr int64_t kRoutingEndNs = 5'000'000'000;

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
        snapshots_({options.directory, Fnv1a(options.job_id), options.server, options.servers}),
        share_({.server = options.server, .generation = options.generation}, &holding_),
        master_(options.lease_socket, options.server),
        taker_(options.socket, Fnv1a(options.job_id), &share_),
        desk_({.server = options.server,
               .servers = options.servers,
               .job = Fnv1a(options.job_id),
               .incarnation = options.generation},
              &holding_, &share_) {
    desk_.giving = [this] {
      // The next owner of a partition does not know which batches an earlier process of this one
      // had, so they come first.
      return TableDesk::Giving{.may_give = Owed().empty(), .snapshot = snapshots_.next()};
    };
  }
  ~Server() {
    if (listening_.is_open()) ::unlink(options_.socket.c_str());
  }

  absl::StatusOr<int> Run();

 private:
  bool AwaitRouting();
  absl::Status Load();
  bool TellTheLedger();
  std::string Owed() const;
  absl::Status Watch(int fd, uint32_t events, int operation);
  void Accept();
  void Serve(int fd, uint32_t events);
  bool Answer(Connection* connection);
  void End(int fd);
  absl::Status GoOn();
  void WatchLinks();
  void Resume();
  void HearSignals();
  void MaybeSnapshot();
  void ChildEnded(int status);
  absl::Status LastSnapshot();
  int WaitMs() const;

  const TableServerOptions options_;
  ps::Holding holding_;
  Snapshots snapshots_;
  ps::PartitionShare share_;
  MasterLink master_;
  Taker taker_;
  TableDesk desk_;
  std::string lost_;  // see FirstLoad
  uint64_t counted_ = 0;
  ps::AppliedSet applied_;                              // when it was loaded
  std::map<uint64_t, std::vector<OrdinalRange>> owed_;  // by data set
  Fd lock_;                                             // of the directory
  Fd epoll_;
  Fd signals_;
  Fd listening_;
  std::map<int, std::unique_ptr<Connection>> connections_;
  std::map<int, int64_t> waiting_;  // connections whose request waits for news, and since when
  uint64_t watched_master_ = 0;     // links
  uint64_t watched_taker_ = 0;
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

// Which partitions this server has, by the journal. False: the job ended before.
bool Server::AwaitRouting() {
  if (!master_.is_on()) {
    share_.Begin({.id = 0, .routing = TableRouting(options_.servers)});
    return true;
  }
  int64_t until_ns = INT64_MAX;
  for (;;) {
    const int64_t now = NowNs();
    if (const std::optional<RoutingNews> news = master_.Go(now)) {
      share_.Begin(*news);
      return true;
    }
    if (now > until_ns) return false;
    std::array<pollfd, 2> polled = {pollfd{.fd = master_.fd(), .events = POLLIN, .revents = 0},
                                    pollfd{.fd = signals_.get(), .events = POLLIN, .revents = 0}};
    ::poll(polled.data(), until_ns == INT64_MAX ? 2 : 1, kRoutingLookMs);
    if (until_ns == INT64_MAX && polled[1].revents != 0) until_ns = now + kRoutingEndNs;
  }
}

absl::Status Server::Load() {
  ASSIGN_OR_RETURN(Snapshots::Loaded loaded, snapshots_.Load(share_.own(), &holding_));
  for (const std::string& note : loaded.notes) LogWarning("snapshot", {{"note", note}});
  if (!loaded.notes.empty()) lost_ = loaded.notes.front();
  applied_ = std::move(loaded.applied);
  if (loaded.from.empty()) return absl::OkStatus();
  LogInfo("tables_loaded",
          {{"server", options_.server}, {"rows", loaded.rows}, {"from", loaded.from}});
  return absl::OkStatus();
}

// False: the job was stopped before.
bool Server::TellTheLedger() {
  // Without partitions it lacks no batch.
  if (options_.lease_socket.empty() || share_.own().none()) return true;
  const uint64_t job = Fnv1a(options_.job_id);
  const auto freed =
      TellLedger(options_.lease_socket,
                 {options_.server, options_.restarts, HaveText(applied_, job)}, signals_.get());
  if (!freed) return false;
  counted_ = freed->counted;
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
  for (uint32_t partition = 0; partition < ps::kPartitions && !owed_.empty(); ++partition) {
    if (!share_.own().test(partition)) continue;
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
  const bool is_routed = AwaitRouting();
  if (is_routed) {
    RETURN_IF_ERROR(Load());
  }
  if (!is_routed || !TellTheLedger()) {
    return absl::UnavailableError("the job ended before this server reached the ledger of leases");
  }
  RETURN_IF_ERROR(CheckFirstLoad(
      {options_.directory, options_.job_id, options_.server, options_.restarts, counted_, lost_}));
  ASSIGN_OR_RETURN(listening_, Listen(options_.socket));
  RETURN_IF_ERROR(Watch(listening_.get(), EPOLLIN, EPOLL_CTL_ADD));
  RETURN_IF_ERROR(Watch(signals_.get(), EPOLLIN, EPOLL_CTL_ADD));
  // Watches the link to the master: a server without partitions may hear of nothing else.
  RETURN_IF_ERROR(GoOn());
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
    RETURN_IF_ERROR(GoOn());
    MaybeSnapshot();
  }
  RETURN_IF_ERROR(LastSnapshot());
  if (const std::string owed = Owed(); !owed.empty()) return absl::DataLossError(owed);
  return 0;
}

int Server::WaitMs() const {
  int64_t due = taker_.next_ns();
  if (master_.is_on() && master_.fd() < 0) due = std::min(due, master_.retry_ns());
  if (writer_ == 0 && desk_.changes() != saved_changes_) due = std::min(due, next_snapshot_ns_);
  if (due == INT64_MAX) return -1;  // a signal, news or a request
  return static_cast<int>(std::clamp<int64_t>((due - NowNs()) / 1'000'000 + 1, 0, 60'000));
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
  waiting_.erase(fd);
  connections_.erase(fd);
}

// ---- moves ----

// Takes news, and brings a move to this server forward. An error: this process must end.
absl::Status Server::GoOn() {
  const int64_t now = NowNs();
  if (const std::optional<RoutingNews> news = master_.Go(now)) {
    const uint64_t before = share_.news().routing.version();
    std::string why;
    if (!share_.Learn(*news, &why)) return absl::AbortedError(why);
    snapshots_.GoAbove(taker_.snapshot());
    if (share_.news().routing.version() != before) {
      LogInfo("routing",
              {{"version", share_.news().routing.version()}, {"partitions", share_.own().count()}});
    }
    Resume();
  }
  taker_.Go(now);
  master_.Tell(share_.Taken());
  WatchLinks();
  return absl::OkStatus();
}

void Server::WatchLinks() {
  if (watched_master_ != master_.links() && master_.fd() >= 0) {
    watched_master_ = master_.links();
    Watch(master_.fd(), EPOLLIN, EPOLL_CTL_ADD).IgnoreError();
  }
  if (watched_taker_ != taker_.links() && taker_.fd() >= 0) {
    watched_taker_ = taker_.links();
    Watch(taker_.fd(), EPOLLIN, EPOLL_CTL_ADD).IgnoreError();
  }
}

// Answers the requests that have waited for news.
void Server::Resume() {
  for (const auto& [fd, since] : std::exchange(waiting_, {})) {
    Connection* const connection = connections_.at(fd).get();
    if (!Answer(connection)) {
      End(fd);
      continue;
    }
    const auto again = waiting_.find(fd);
    if (again != waiting_.end()) {
      again->second = since;
      continue;
    }
    desk_.work().longest_ns = std::max(desk_.work().longest_ns, NowNs() - since);
    Watch(fd, connection->has_unsent() ? EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD).IgnoreError();
  }
}

// False: the connection is over.
bool Server::Answer(Connection* connection) {
  const int64_t from = NowNs();
  TableDesk::Reply reply =
      desk_.Handle(connection->head(), connection->body(), &connection->is_greeted);
  desk_.work().longest_ns = std::max(desk_.work().longest_ns, NowNs() - from);
  if (reply.waits) {
    waiting_.emplace(connection->fd(), from);
    return true;
  }
  connection->Drop();
  connection->Send(std::move(reply.frame));
  connection->is_last = reply.is_last;
  return connection->Flush();
}

void Server::Serve(int fd, uint32_t events) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  // A waiting connection is watched for its end alone.
  if (waiting_.contains(fd)) return End(fd);
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
        if (waiting_.contains(fd)) {
          Watch(fd, 0, EPOLL_CTL_MOD).IgnoreError();
          return;
        }
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
  if (share_.own().none()) {
    saved_changes_ = desk_.changes();
    return;
  }
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
    const absl::Status written = snapshots_.Write(share_.own(), holding_, path);
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
  if (desk_.changes() == saved_changes_ || share_.own().none()) return absl::OkStatus();
  RETURN_IF_ERROR(snapshots_.Write(share_.own(), holding_, snapshots_.NextPath()));
  snapshots_.Prune();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunTableServer(const TableServerOptions& options) {
  // Buffers of some megabytes come and go with each request. Given back to the kernel, each of
  // their pages would be zeroed anew for the next request.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 512 << 20);
  if (options.is_shared && !IsOfJob(options.directory, options.job_id)) {
    return absl::NotFoundError(
        Concat(options.directory, "/job does not name the job ", options.job_id, " on this host"));
  }
  RETURN_IF_ERROR(MakeDirs(options.directory, 0700));
  return Server(options).Run();
}

}  // namespace paceline::server

#include "paceline/master/main.h"

#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/host_text.h"
#include "paceline/base/log.h"
#include "paceline/base/prng.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/master/event_loop.h"
#include "paceline/master/event_queue.h"
#include "paceline/master/history/history_keeper.h"
#include "paceline/master/history/signature.h"
#include "paceline/master/job_file.h"
#include "paceline/master/leases/lease_host.h"
#include "paceline/master/notify/notifier.h"
#include "paceline/master/page/page.h"
#include "paceline/master/report/http.h"
#include "paceline/model/problem.h"
#include "paceline/wire/codec/spec_file.h"
#include "paceline/wire/security/page_session.h"
#include "paceline/wire/security/secret_file.h"

namespace paceline::master {
namespace {

struct HostPort {
  std::string host;
  int port = 0;
  std::string Text() const { return host + ":" + std::to_string(port); }
};

absl::StatusOr<HostPort> ParseListen(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  HostPort result;
  if (colon != std::string::npos && colon > 0 && colon + 1 < listen.size() &&
      listen.find_first_not_of("0123456789", colon + 1) == std::string::npos &&
      listen.size() - colon <= 6) {
    result = {listen.substr(0, colon), std::atoi(listen.c_str() + colon + 1)};
    if (result.port <= 65535) return result;
  }
  return ToStatus(absl::StatusCode::kInvalidArgument,
                  {.code = "PL-E043",
                   .what = "the address \"" + listen + "\" cannot be used",
                   .where = "--listen",
                   .why = "it is not HOST:PORT",
                   .fix = "--listen 127.0.0.1:0"});
}

absl::Status CheckExposure(const MasterOptions& options, bool has_tls) {
  if (has_tls || options.insecure || IsLoopback(options.listen)) return absl::OkStatus();
  return ToStatus(absl::StatusCode::kFailedPrecondition,
                  {.code = "PL-E101",
                   .what = "an open address without encryption is refused",
                   .where = options.listen,
                   .why = "anybody who can read the network traffic could read the job's token",
                   .fix = "add --tls, or --insecure when the network is trusted"});
}

absl::StatusOr<std::string> ReadToken(const std::string& run_dir) {
  ASSIGN_OR_RETURN(std::string token, wire::ReadSecretFile(run_dir + "/token", 1024));
  while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.pop_back();
  if (wire::IsToken(token)) return token;
  return ToStatus(absl::StatusCode::kInvalidArgument,
                  {.code = "PL-E025",
                   .what = "a file of the run directory is damaged",
                   .where = run_dir + "/token",
                   .why = "it does not hold 64 hexadecimal digits",
                   .fix = "start again with another --run-dir"});
}

absl::StatusOr<wire::ServerCredentials> ReadCredentials(const std::string& run_dir) {
  ASSIGN_OR_RETURN(const std::string token, ReadToken(run_dir));
  auto credentials = wire::LoadServerCredentials(run_dir + "/tls", token);
  if (credentials.ok() || !absl::IsNotFound(credentials.status())) return credentials;
  return wire::ServerCredentials{.token = token};
}

// The token for those who may read the page and the metrics, and no more: a session of the page
// that is kept in a file. A full disk costs that file, and not the job.
void KeepReadingToken(const std::string& run_dir, const std::string& token) {
  const std::string path = run_dir + "/reading_token";
  std::string known = ReadOwnText(path, 1024);
  if (known.ends_with('\n')) known.pop_back();
  if (wire::IsPageSession(token, known)) return;
  const absl::Status kept = ReplaceFile(path, wire::MakePageSession(token) + "\n", 0600);
  if (!kept.ok()) LogWarning("reading_token", {{"why", kept}});
}

int PortOf(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseListen(address);
  return parsed.ok() ? parsed->port : 0;
}

// Ports below the kernel's ephemeral range. An agent that dials a dead master's port can then never
// connect to itself, and the next master finds the port free.
int EphemeralLow() {
  const int low = std::atoi(ReadText("/proc/sys/net/ipv4/ip_local_port_range", 64).c_str());
  return low > 12'000 ? low : 32'768;
}

// The server as the loop sees it.
class ServerOutside final : public Outside {
 public:
  explicit ServerOutside(std::unique_ptr<Page>* page) : page_(page) {}
  void SetServer(wire::MasterServer* server) { server_ = server; }
  void Send(ConnectionId connection, wire::MasterMessage message) override {
    server_->Send(connection, std::move(message));
  }
  void Close(ConnectionId connection, std::string why) override {
    server_->Close(connection, std::move(why));
  }
  void Order(wire::SupervisorId supervisor, wire::SupervisorOrder order) override {
    server_->Order(supervisor, std::move(order));
  }
  void SendEvents(wire::WatchId watch, std::vector<wire::JobEvent> events, bool is_last) override {
    if (watch == kPageWatch) {
      (*page_)->Take(events, is_last);
    } else {
      server_->SendEvents(watch, std::move(events), is_last);
    }
  }
  wire::PageLink MakePageLink() override { return (*page_)->MakeLink(); }

 private:
  std::unique_ptr<Page>* const page_;  // made when the token is known
  wire::MasterServer* server_ = nullptr;
};

bool MustBeTaken(const wire::ServerEvent& event) {
  return std::holds_alternative<wire::AgentDisconnected>(event) ||
         std::holds_alternative<wire::WatchEnded>(event) ||
         std::holds_alternative<wire::SupervisorDetached>(event);
}

absl::StatusOr<std::unique_ptr<wire::MasterServer>> Listen(const HostPort& at,
                                                           wire::MasterServerOptions options,
                                                           EventQueue* queue) {
  options.listen = at.Text();
  return wire::MasterServer::Start(std::move(options), [queue](wire::ServerEvent event) {
    if (!MustBeTaken(event)) return queue->TryPost(std::move(event));
    queue->Post(std::move(event));
    return true;
  });
}

absl::StatusOr<std::unique_ptr<wire::MasterServer>> ListenAnywhere(
    HostPort at, const wire::MasterServerOptions& options, EventQueue* queue) {
  constexpr int kTries = 100;
  Prng prng(static_cast<uint64_t>(Clock::WallNow().nanoseconds()) ^
            (static_cast<uint64_t>(getpid()) << 40));
  const int low = EphemeralLow();
  for (int i = 0;; ++i) {
    at.port = static_cast<int>(prng.Between(low - 8'000, low - 1));
    auto server = Listen(at, options, queue);
    if (server.ok() || i == kTries) return server;
  }
}

// Listens at the former master's port, so that agents find this one; if that is taken, at any port.
absl::StatusOr<std::unique_ptr<LeaseHost>> ServeLeases(HostPort at, LeaseHost::Options options) {
  constexpr int kTries = 100;
  Prng prng(static_cast<uint64_t>(Clock::WallNow().nanoseconds()) ^
            (static_cast<uint64_t>(getpid()) << 32));
  const int low = EphemeralLow();
  for (int i = 0;; ++i) {
    if (i > 0 || at.port == 0) at.port = static_cast<int>(prng.Between(low - 8'000, low - 1));
    options.listen = at.Text();
    auto host = LeaseHost::Start(options);
    if (host.ok() || i == kTries || !absl::IsAlreadyExists(host.status())) return host;
  }
}

// A text that the loop makes, for everybody who may read the page.
template <class Asked>
HttpRoute TextRoute(const char* path, const char* type, EventQueue* queue) {
  return {.path = path,
          .access = HttpAccess::kReader,
          .ask = [queue, type](const HttpRequest&, HttpReply reply) {
            return queue->TryPost(Asked{[reply = std::move(reply), type](std::string text) {
              reply({.text = std::move(text), .type = type});
            }});
          }};
}

absl::StatusOr<std::unique_ptr<HttpServer>> ServeHttp(int port, const std::string& token,
                                                      EventQueue* queue, Page* page) {
  std::vector<HttpRoute> routes = page->Routes();
  routes.push_back(TextRoute<MetricsAsked>(
      "/metrics", "application/openmetrics-text; version=1.0.0; charset=utf-8", queue));
  routes.push_back(TextRoute<HealthAsked>("/healthz", "text/plain; charset=utf-8", queue));
  return HttpServer::Start({.port = port,
                            .token = token,
                            .routes = std::move(routes),
                            .on_beat = [page](size_t viewers) { page->Beat(viewers); }});
}

// Raises the limit of open files, because each agent takes a descriptor.
void RaiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Ignored, because the launcher handles Ctrl-C, and a closed terminal does not stop the job.
void IgnoreTerminal() {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

void TellReady(int fd) {
  const Fd ready(fd);
  if (!ready.is_open()) return;
  [[maybe_unused]] const ssize_t written = ::write(ready.get(), "s", 1);
}

class Master {
 public:
  absl::Status Run(const MasterOptions& options) {
    ASSIGN_OR_RETURN(HostPort at, ParseListen(options.listen));
    ASSIGN_OR_RETURN(const wire::ServerCredentials credentials, ReadCredentials(options.run_dir));
    RETURN_IF_ERROR(CheckExposure(options, credentials.is_tls()));
    ASSIGN_OR_RETURN(const wire::SpecFile spec, wire::ReadSpecFile(options.run_dir + "/spec.json"));
    std::vector<core::Record> records;
    ASSIGN_OR_RETURN(journal_, Journal::Open({.path = options.run_dir + "/journal.db"}, &records));
    const absl::StatusOr<MasterAddress> before = ReadMasterAddress(options.run_dir);
    if (at.port == 0 && before.ok() && !records.empty()) at.port = PortOf(before->addr);
    const std::string& token = credentials.token;
    KeepReadingToken(options.run_dir, token);
    JobHistory own_history = StartHistory(spec);

    StartPage(token, options.page, records);
    EventLoop loop(&queue_, journal_.get(), &outside_);
    const wire::MasterServerOptions admission{
        .credentials = credentials,
        .has_relays = !spec.launch.relays.empty(),
        .unproven_per_peer_max = spec.job.budgets.unproven_connections_max};
    ASSIGN_OR_RETURN(server_, at.port == 0 ? ListenAnywhere(at, admission, &queue_)
                                           : Listen(at, admission, &queue_));
    at.port = static_cast<int>(server_->port());
    outside_.SetServer(server_.get());
    RETURN_IF_ERROR(
        StartHttp(WantedHttpPort(options.run_dir), before.ok() ? PortOf(before->http) : 0, token));
    ASSIGN_OR_RETURN(leases_, ServeLeases({at.host, before.ok() ? PortOf(before->leases) : 0},
                                          {.path = options.run_dir + "/data.db",
                                           .job = spec.job.job_id,
                                           .is_insecure = options.insecure,
                                           .credentials = credentials,
                                           .silence_max = spec.job.timers.lost_after_max,
                                           .is_placed = spec.job.is_placed,
                                           .taken = [this](const PartitionsTaken& taken) {
                                             queue_.Post(TablesTaken{taken});
                                           }}));
    loop.SetLeases(leases_.get());
    loop.SetHistory(history_.get(), std::move(own_history));
    StartNotifier(spec.launch);
    loop.SetNotifier(notifier_.get(), options.run_dir);
    loop.SetTerm({options.term, options.survivors,
                  std::string(Trimmed(ReadText("/proc/sys/kernel/random/boot_id", 64))),
                  options.memo});
    loop.Begin(spec.job, records, options.resumes);
    RETURN_IF_ERROR(WriteMasterAddress(options.run_dir, spec.job.job_id,
                                       {.addr = at.Text(),
                                        .http = http_->address(),
                                        .pid = getpid(),
                                        .leases = HostPort{at.host, leases_->port()}.Text(),
                                        .start_time = OwnStartTime()}));
    LogInfo("master_serving", {{"addr", at.Text()},
                               {"http_port", http_->port()},
                               {"records", records.size()},
                               {"incarnation", loop.state().master_incarnation}});
    TellReady(options.ready_fd);
    loop.Run();
    LogInfo("master_done",
            {{"exit_code", loop.state().exit_code}, {"reason", loop.state().final_reason}});
    return absl::OkStatus();
  }

  // Streams first: their last events are queued, and unanswered requests are dropped with the
  // queue.
  ~Master() {
    http_.reset();
    if (page_ != nullptr) page_->Close();
    queue_.Take(Duration());
    server_.reset();
    queue_.Take(Duration());
  }

 private:
  // The journal starts, too, because it tells the page of its records.
  void StartPage(const std::string& token, const PageMaker& maker,
                 const std::vector<core::Record>& records) {
    page_ = std::make_unique<Page>(token, maker, &queue_);
    page_->Open(journal_.get(), records.empty() ? RecordSeq() : records.back().seq);
    journal_->Start([this](JournalEvent event) {
      if (!page_->Take(&event)) queue_.Post(std::move(event));
    });
  }

  // It reads the file while the master opens its ports. Returns what is known of this job.
  JobHistory StartHistory(const wire::SpecFile& spec) {
    if (spec.launch.history_place.empty() || spec.job.scale == ScaleMode::kOff) return {};
    const std::string device = DeviceOf();
    const std::string signature = SignatureOf(spec.launch, device);
    history_ = std::make_unique<HistoryKeeper>(spec.launch.history_place, signature);
    return {
        .run = spec.job.job_id, .signature = signature, .name = spec.job.name, .device = device};
  }

  void StartNotifier(const LaunchSpec& launch) {
    if (launch.notify_command.empty()) return;
    notifier_ = std::make_unique<Notifier>(NotifyOptions{.command = launch.notify_command,
                                                         .timeout = launch.notify_timeout,
                                                         .end_wait = launch.notify_end_wait(),
                                                         .cwd = launch.cwd});
  }

  // A port that the user set must be free, or the master fails. The port of an earlier master is
  // only tried first.
  absl::Status StartHttp(uint16_t wanted, int former, const std::string& token) {
    auto http = ServeHttp(wanted != 0 ? wanted : former, token, &queue_, page_.get());
    if (!http.ok() && wanted == 0) http = ServeHttp(0, token, &queue_, page_.get());
    if (!http.ok()) return http.status();
    http_ = *std::move(http);
    page_->Serve(http_.get());
    return absl::OkStatus();
  }

  std::unique_ptr<HistoryKeeper> history_;
  std::unique_ptr<Notifier> notifier_;  // ends last: it may wait for the user's command
  EventQueue queue_;
  std::unique_ptr<Page> page_;  // before the journal, which tells it of records
  ServerOutside outside_{&page_};
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<wire::MasterServer> server_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<LeaseHost> leases_;
};

}  // namespace

bool IsLoopback(const std::string& listen) {
  const std::string host = listen.substr(0, listen.rfind(':'));
  const bool is_v4 = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "[::1]" || (is_v4 && host.starts_with("127."));
}

absl::Status RunMaster(MasterOptions options) {
  if (options.listen.empty()) options.listen = Bracketed(LoopbackHost()) + ":0";
  IgnoreTerminal();
  RaiseFileLimit();
  // gRPC returns its errors as a Status, so its own log would only repeat them.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  wire::UseOnlyTls13();
  return Master().Run(options);
}

}  // namespace paceline::master

#include "paceline/agent/agent_setup.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "paceline/agent/agent_json.h"
#include "paceline/agent/checks/check_line.h"
#include "paceline/agent/logs/disk_watch.h"
#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/agent/ranks/gloo_interface.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/host_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/log.h"
#include "paceline/base/spawn.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/base/utf8.h"
#include "paceline/model/arena_layout.h"
#include "paceline/model/problem.h"
#include "paceline/model/version.h"
#include "paceline/wire/client/resolve.h"
#include "paceline/wire/server/master_server.h"

namespace paceline::agent {
namespace {

constexpr size_t kSmallFileBytes = 64 << 10;

uint64_t RealtimeNs() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

absl::StatusOr<std::string> MasterAddress(const nlohmann::json& job, const AgentFiles& files) {
  if (job.is_object() && job.contains("master") && job["master"].is_object()) {
    std::string address = JsonText(job["master"], "addr");
    if (!address.empty()) return address;
  }
  return ToStatus(absl::StatusCode::kNotFound,
                  Problem{"PL-E025", "the address of the master is not known in this run directory",
                          files.JobJson(), "job.json is missing or damaged",
                          Concat("paceline run --resume --run-dir ", files.run_dir)});
}

// The first agent of a host is the host's relay.
void SetRelays(const nlohmann::json& job, AgentSetup* setup) {
  if (!JsonBool(job, "has_master", true)) setup->relays = setup->spec.launch.relays;
  const auto nodes = job.find("nodes");
  const bool is_first = nodes != job.end() && nodes->is_array() && !nodes->empty() &&
                        nodes->front() == setup->files.node;
  if (is_first) setup->relay_listen = JsonText(job, "relay");
}

// This host's address on the route to the master. The other nodes can reach it as well.
std::string AddressTowards(const std::string& master_address) {
  const size_t colon = master_address.rfind(':');
  std::string host = master_address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  const std::string port = colon == std::string::npos ? "1" : master_address.substr(colon + 1);
  wire::AddressList found = wire::Resolve(host, port, hints);
  wire::WhileNamesSpread([&] {
    if (found == nullptr) found = wire::Resolve(host, port, hints);
    return found != nullptr;
  });
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    const Fd fd(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    socklen_t size = sizeof(local);
    // Connecting a datagram socket sends nothing; it only queries the routing table.
    if (!fd.is_open() || ::connect(fd.get(), entry->ai_addr, entry->ai_addrlen) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) {
      continue;
    }
    char text[NI_MAXHOST];
    if (::getnameinfo(reinterpret_cast<sockaddr*>(&local), size, text, sizeof(text), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      return text;
    }
  }
  return host;
}

// The path of a socket is limited to 107 bytes, so both names are hashed.
std::string SocketOf(std::string_view what, const AgentOptions& options) {
  const std::string names = Concat(options.run_dir, "\n", options.node);
  return Concat(options.runtime_dir, "/", what, "-", ArenaCheck(std::as_bytes(std::span(names))),
                ".sock");
}

// A record lock: it ends with this process, and children do not inherit it.
absl::StatusOr<Fd> LockNode(const AgentFiles& files) {
  const std::string path = Concat(files.NodeDir(), "/agent.lock");
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) {
    return absl::UnavailableError(Concat("cannot open ", path, ": ", std::strerror(errno)));
  }
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_SETLK, &whole) == 0) return fd;
  if (errno != EACCES && errno != EAGAIN) {
    // Training must also work on a file system without locks.
    LogWarning("agent_unlocked", {{"path", path}, {"why", std::strerror(errno)}});
    return fd;
  }
  ::fcntl(fd.get(), F_GETLK, &whole);
  return ToStatus(absl::StatusCode::kAlreadyExists,
                  {.code = "PL-E028",
                   .what = Concat("another agent of ", files.node, " runs on this host"),
                   .where = files.NodeDir(),
                   .why = Concat("process ", whole.l_pid, " keeps its ranks and its checkpoints"),
                   .fix = "nothing to do: paceline run restarts an agent that has died"});
}

absl::Status MakeNodeDirs(const AgentFiles& files) {
  for (const std::string& dir : {files.NodeDir(), files.LogDir(), files.ErrorDir()}) {
    RETURN_IF_ERROR(MakeDirs(dir, 0700));
  }
  return absl::OkStatus();
}

absl::StatusOr<wire::Credentials> ReadCredentials(const AgentFiles& files) {
  const std::string token(Trimmed(ReadText(files.Token(), kSmallFileBytes)));
  absl::StatusOr<wire::Credentials> tls = wire::LoadCredentials(files.TlsDir(), token);
  if (tls.ok() || !absl::IsNotFound(tls.status())) return tls;
  wire::Credentials plain;
  plain.token = token;
  return plain;
}

// The failure domain of this host: the one set by its owner (a rack, a power supply), else the
// host.
std::string DomainOf(const AgentSetup& setup) {
  const auto named = setup.base_env.find("PACELINE_FAILURE_DOMAIN");
  if (named != setup.base_env.end() && !named->second.empty()) return CleanText(named->second);
  return setup.identity.boot_id;
}

// The name by which a platform knows this host, which it tells in the environment.
std::string PlatformHostOf(const AgentSetup& setup) {
  const auto named = setup.base_env.find("PACELINE_PLATFORM_HOST");
  return named == setup.base_env.end() ? "" : CleanText(named->second);
}

}  // namespace

void BlockAgentSignals() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&blocked, signal);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

absl::StatusOr<AgentSetup> PrepareAgent(const AgentOptions& options) {
  AgentSetup setup;
  setup.files = {options.run_dir, options.node, SocketOf("checkpoints", options),
                 SocketOf("leases", options)};
  setup.runtime_dir = options.runtime_dir;
  RETURN_IF_ERROR(MakeNodeDirs(setup.files));
  ReserveErrorRoom(setup.files.ErrorDir());
  ASSIGN_OR_RETURN(setup.lock, LockNode(setup.files));
  RETURN_IF_ERROR(LogToFile(setup.files.AgentLog()));
  ASSIGN_OR_RETURN(setup.spec, wire::ReadSpecFile(setup.files.Spec()));
  const nlohmann::json job = ReadJson(setup.files.JobJson());
  ASSIGN_OR_RETURN(setup.master_address, MasterAddress(job, setup.files));
  SetRelays(job, &setup);
  ASSIGN_OR_RETURN(setup.credentials, ReadCredentials(setup.files));
  setup.incarnation = RealtimeNs();
  setup.base_env = ToEnvironment(CurrentEnvironment());
  for (const auto& [name, value] : setup.spec.launch.env) setup.base_env[name] = value;
  // UseOnlyTls13 sets a variable for gRPC, which the ranks must not inherit: they have base_env.
  if (!setup.relay_listen.empty()) wire::UseOnlyTls13();
  NodeReport& identity = setup.identity;
  identity.name = options.node;
  identity.job_id = setup.spec.job.job_id;
  identity.boot_id = BootId();
  identity.incarnation = options.incarnation;
  identity.agent_incarnation = setup.incarnation;
  identity.agent_pid = ::getpid();
  identity.address = setup.spec.launch.local_addr.empty() ? AddressTowards(setup.master_address)
                                                          : setup.spec.launch.local_addr;
  identity.host = PlatformHostOf(setup);
  identity.slots = setup.spec.launch.nproc_per_node;
  identity.version_major = kVersionMajor;
  identity.version_minor = kVersionMinor;
  const nlohmann::json former = ReadJson(setup.files.AgentJson());
  if (former.is_object()) {
    setup.former_term = JsonInt<uint64_t>(former, "term");
    setup.former_checkpoints = JsonText(former, "checkpoints");
  }
  const bool is_same_boot = former.is_object() && JsonText(former, "boot_id") == identity.boot_id;
  if (is_same_boot) {
    setup.former_restart_count = JsonInt<uint32_t>(former, "restart_count");
    setup.former_generation = Generation(JsonInt<uint64_t>(former, "generation"));
  }
  // A DNS timeout takes seconds. A restarted agent would be silent for as long, and the master
  // could give its node up. So it uses the interface that the former agent found.
  setup.gloo_interface = is_same_boot ? JsonText(former, "gloo_interface")
                                      : GlooInterface(identity.address, HostName());
  return setup;
}

absl::StatusOr<std::unique_ptr<PageFile>> OpenPage(AgentSetup* setup) {
  const PageIdentity identity = PageIdentityOf(*setup);
  const auto former = PageFile::Open(setup->files.PageInRunDir());
  const bool is_there = former.ok() && (*former)->is_of_this_boot();
  const std::string root = ArenaRoots(setup->spec.job.job_id).memory;
  if (!is_there && MakeArenaFolder(root, setup->files.node).ok()) {
    // The next incarnation of a node may run on this host before this one has left.
    setup->files.page_in_memory =
        Concat(root, "/", setup->files.node, "/page-", setup->files.Mark());
    auto page = PageFile::AdoptOrMake(setup->files.Page(), identity);
    if (page.ok()) return page;
    LogWarning("page_in_run_dir", {{"why", page.status()}});
    setup->files.page_in_memory.clear();
  }
  return PageFile::AdoptOrMake(setup->files.Page(), identity);
}

std::unique_ptr<wire::Relay> StartRelay(const AgentSetup& setup) {
  if (setup.relay_listen.empty()) return nullptr;
  auto relay = wire::Relay::Start(
      {.listen = setup.relay_listen,
       .master = setup.master_address,
       .credentials = setup.credentials,
       .unproven_per_peer_max = setup.spec.job.budgets.unproven_connections_max});
  if (!relay.ok()) {
    LogError("relay", {{"listen", setup.relay_listen}, {"why", relay.status()}});
    return nullptr;
  }
  LogInfo("relay", {{"listen", setup.relay_listen}});
  return *std::move(relay);
}

std::unique_ptr<LeaseRelay> StartLeases(const AgentSetup& setup) {
  auto relay = LeaseRelay::Start({setup.files.lease_socket, setup.credentials});
  if (relay.ok()) return *std::move(relay);
  LogError("leases", {{"why", relay.status()}});
  return nullptr;
}

LinksPlace LinksPlaceOf(const AgentSetup& setup) {
  return {.has_tables = setup.spec.job.tasks.has_tables(),
          .host = setup.identity.address,
          .beside = setup.files.lease_socket,
          .run_dir = setup.files.run_dir};
}

std::string LeaseAddress(const AgentSetup& setup, uint32_t port) {
  const std::string& master = setup.master_address;
  return port == 0 ? "" : Concat(master.substr(0, master.rfind(':')), ":", port);
}

Fd OpenAgentSignals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&wanted, signal);
  return Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
}

StarterPlace StarterPlaceOf(const AgentSetup& setup, const std::string& salt) {
  const StarterHome home{.runtime_dir = setup.runtime_dir,
                         .log_path = setup.files.LogDir() + "/starter.log",
                         .salt = salt};
  StarterPlace place = PlaceOfStarter(setup.spec.launch, setup.base_env, home);
  place.orphan_after = setup.spec.job.timers.orphan_after;
  return place;
}

CheckpointStation::Setup StationSetupOf(const AgentSetup& setup) {
  return {.node = setup.files.node,
          .job_id = setup.spec.job.job_id,
          .boot_id = setup.identity.boot_id,
          .socket = setup.files.checkpoint_socket,
          .arena_roots = ArenaRoots(setup.spec.job.job_id),
          .tier = setup.files.NodeDir() + "/tier",
          .directory = setup.former_checkpoints,
          .store_host = {.python = setup.spec.launch.python},
          .report_every = setup.spec.job.timers.heartbeat_interval,
          .peers = CheckpointStation::Setup::Peers{setup.identity.address, DomainOf(setup),
                                                   setup.credentials}};
}

bool HasHostCheck(const AgentSetup& setup) {
  const auto& checks = setup.spec.launch.checks;
  return std::find(checks.begin(), checks.end(), kHostCheck) != checks.end();
}

CheckSetup CheckSetupOf(const AgentSetup& setup) {
  CheckSetup checks{.checks = setup.spec.launch.checks,
                    .timeout = setup.spec.launch.check_timeout,
                    .node = setup.files.node,
                    .boot_id = setup.identity.boot_id,
                    .python = setup.spec.launch.python,
                    .cwd = setup.spec.launch.cwd,
                    .log_dir = setup.files.LogDir(),
                    .memory = setup.files.NodeDir() + "/check.json",
                    .env = setup.base_env};
  checks.env["PACELINE_NODE"] = setup.files.node;
  checks.env["PACELINE_RANKS"] = Concat(setup.spec.launch.nproc_per_node);
  return checks;
}

EvidenceDesk::Setup EvidenceSetupOf(const AgentSetup& setup) {
  return {.memory = ArenaRoots(setup.spec.job.job_id).memory,
          .node = setup.files.node,
          .mark = setup.files.Mark(),
          .python = setup.spec.launch.python,
          .log_dir = setup.files.LogDir()};
}

wire::AgentStreamOptions StreamOptionsOf(const AgentSetup& setup) {
  const Timers& timers = setup.spec.job.timers;
  return {.address = setup.master_address,
          .relays = setup.relays,
          .who = setup.files.node,
          .credentials = setup.credentials,
          .reconnect_delay = timers.reconnect_delay,
          .reconnect_delay_max = timers.reconnect_delay_max,
          .jitter_seed = setup.incarnation};
}

PageIdentity PageIdentityOf(const AgentSetup& setup) {
  return {.job_id = setup.spec.job.job_id,
          .node = setup.files.node,
          .boot_id = setup.identity.boot_id,
          .slot_count = setup.spec.launch.nproc_per_node,
          .created_monotonic_ns = MonotonicNs()};
}

}  // namespace paceline::agent

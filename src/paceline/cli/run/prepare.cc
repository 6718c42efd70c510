#include "paceline/cli/run/prepare.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/file_text.h"
#include "paceline/base/host_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/ended_run.h"
#include "paceline/cli/job/registered.h"
#include "paceline/cli/run/check_files.h"
#include "paceline/cli/run/interpreter.h"
#include "paceline/cli/run/node_names.h"
#include "paceline/cli/run/notify_check.h"
#include "paceline/cli/run/own_address.h"
#include "paceline/cli/run/placed_credentials.h"
#include "paceline/cli/run/port_turn.h"
#include "paceline/cli/run/rule_files.h"
#include "paceline/cli/run/secret_file.h"
#include "paceline/cli/run/tables_place.h"
#include "paceline/cli/run/wait_teller.h"
#include "paceline/model/job_file_limit.h"
#include "paceline/wire/client/control_client.h"
#include "paceline/wire/client/route.h"
#include "paceline/wire/codec/spec_file.h"

namespace paceline::cli {
namespace {

// A host may be started long before the one that runs the master, as under torchrun.
constexpr auto kJoinTimeout = std::chrono::minutes(10);
// A master serves within this time after its launcher has begun.
constexpr auto kPortTurnPatience = std::chrono::seconds(20);
constexpr auto kJoinPause = std::chrono::milliseconds(100);
// How long one attempt at a relay may take. Hosts that are started together are there within this
// time; a relay that is not costs it three times, before the master is asked.
constexpr Duration kRelayPatience = Duration::Seconds(2);

double RealtimeSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

Problem Failed(const std::string& code, const std::string& what, const absl::Status& status) {
  Problem problem = ProblemFrom(status);
  if (problem.code != "PL-E099") return problem;
  return Problem{.code = code,
                 .what = what,
                 .where = "",
                 .why = std::string(status.message()),
                 .fix = Concat("paceline why ", code)};
}

bool IsOurs(AddressOwner owner) {
  return owner == AddressOwner::kLoopback || owner == AddressOwner::kThisHost;
}

class Preparation {
 public:
  explicit Preparation(RunInput input) : input_(std::move(input)), request_(input_.request) {}

  Result<PreparedRun> Make() {
    auto runtime_dir = OpenRuntimeDir(input_.environment);
    if (!runtime_dir.ok()) return runtime_dir.problem();
    run_.runtime_dir = *runtime_dir;
    run_.spec = request_.spec;
    run_.launch = request_.launch;
    Check problem;
    resumes_ = request_.resume || GoesOnWhereItWas();
    if (resumes_) {
      problem = Resume();
    } else {
      if (request_.local_nodes > 0) {
        problem = CheckInterpreter(run_.launch.python, input_.facts);
        if (!problem) problem = CheckPreload(run_.launch.python, run_.launch.preload);
        if (!problem) problem = CheckTheChecks(run_.launch.checks, input_.facts.host_name);
        if (!problem) problem = CheckRuleFiles(run_.launch.log_rules);
      }
      if (!problem) problem = ChooseRole();
      if (!problem) problem = ChooseRelay();
      if (!problem && is_master_) {
        problem = CheckTablesPlace(run_.spec.tasks.tables);
      }
      if (!problem && is_master_) {
        problem = CheckNotifyCommand(run_.launch.notify_command,
                                     LookupOr(input_.environment, "PATH", ""), input_.facts.cwd);
      }
      if (!problem) problem = is_master_ ? Found() : Join();
    }
    if (!problem && run_.card.has_master) {
      problem = NameTablesJob(run_.spec.tasks.tables, run_.spec.job_id);
    }
    if (problem) return *std::move(problem);
    return std::move(run_);
  }

 private:
  // Returns true if the run directory holds this job already, because it outlived the job's
  // container or host.
  bool GoesOnWhereItWas() const {
    if (request_.run_dir.empty() || !request_.credentials.empty()) return false;
    const std::string job = JobLeftBehind(request_.run_dir, input_.facts.cwd, input_.args);
    if (job.empty()) return false;
    input_.wait_note(Concat(request_.run_dir, " holds job ", Visible(job),
                            ", whose processes ended with their container or at a reboot: "
                            "going on with it, as --resume does"));
    return true;
  }

  // Under a platform, the platform says which host runs the master, and that host has no other
  // node.
  Check TakePlace() {
    run_.is_whole_job = false;
    is_master_ = request_.local_nodes == 0;
    const Endpoint& endpoint = *request_.endpoint;
    run_.listen = Concat(EveryAddress(), ":", endpoint.port);
    address_ = is_master_ ? Concat(Bracketed(LoopbackHost()), ":", endpoint.port)  //
                          : ToText(endpoint);
    return std::nullopt;
  }

  static Problem Unresolved(const std::string& address, std::string_view flag) {
    return {
        .code = "PL-E043",
        .what = Concat("the address of ", flag, " cannot be used"),
        .where = address,
        .why = Concat("the host name did not resolve here within ", kJoinTimeout.count(), " min"),
        .fix = Concat("give an address that all hosts can reach by ", flag, " HOST:PORT")};
  }

  // Decides whether this host runs the master.
  Check ChooseRole() {
    if (!request_.credentials.empty()) return TakePlace();
    if (!request_.endpoint.has_value()) {
      is_master_ = true;
      run_.is_whole_job = true;
      return ChooseLoopbackPort();
    }
    const Endpoint& endpoint = *request_.endpoint;
    run_.is_whole_job = run_.spec.nodes_max <= request_.local_nodes;
    const AddressOwner owner = AwaitOwner(endpoint.host, kJoinTimeout, input_.wait_note);
    if (owner == AddressOwner::kUnknown) {
      return Unresolved(ToText(endpoint), "--rdzv-endpoint");
    }
    was_ours_ = IsOurs(owner);
    address_ = ToText(endpoint);
    is_master_ = request_.is_master_host.value_or(IsOurs(owner) && request_.join.empty());
    if (is_master_ && endpoint.port != 0 && !run_.port_turn.is_open()) {
      run_.port_turn = TakePortTurn(run_.runtime_dir, endpoint.port, kPortTurnPatience);
    }
    // A second `paceline run` on the address's own host joins the first one, as torchrun's does.
    const bool is_taken =
        is_master_ && endpoint.port != 0 && IsPortTaken(endpoint.host, endpoint.port);
    if (is_taken && !request_.is_master_host.has_value()) is_master_ = false;
    if (!is_master_) run_.port_turn.Close();
    if (is_taken && is_master_) {
      return Problem{.code = "PL-E031",
                     .what = "the master cannot listen on its address",
                     .where = address_,
                     .why = "another process listens there",
                     .fix = "choose another port, on all hosts"};
    }
    if (is_master_ && endpoint.port == 0 && owner == AddressOwner::kLoopback) {
      return ChooseLoopbackPort();
    }
    run_.listen = address_;
    return CheckOpen(owner, address_);
  }

  // Returns true if the rendezvous name now belongs to this host, although it did not when this
  // host's role was chosen. After a pod was replaced, its name may lead to the old pod for a
  // moment. A host that trusted that would wait for a master that no host starts.
  bool HasBecomeOurs() const {
    return request_.endpoint.has_value() && !was_ours_ && request_.join.empty() &&
           !request_.is_master_host.has_value() && IsOurs(OwnerOf(request_.endpoint->host));
  }

  // A host that owns the address of a relay becomes that relay, unless another `paceline run` on
  // this host already is.
  Check ChooseRelay() {
    for (const Endpoint& relay : request_.relays) {
      const AddressOwner owner = AwaitOwner(relay.host, kJoinTimeout, input_.wait_note);
      if (owner == AddressOwner::kUnknown) return Unresolved(ToText(relay), "--relays");
      if (!IsOurs(owner) || IsPortTaken(relay.host, relay.port)) continue;
      run_.card.relay = ToText(relay);
      return CheckOpen(owner, run_.card.relay);
    }
    return std::nullopt;
  }

  Check CheckOpen(AddressOwner owner, const std::string& address) const {
    const bool is_open = owner != AddressOwner::kLoopback;
    const bool is_safe = request_.tls || !request_.join.empty() ||
                         (request_.insecure && !request_.token_file.empty());
    if (!is_open || is_safe) return std::nullopt;
    return Problem{.code = "PL-E101",
                   .what = "an open address without encryption is refused",
                   .where = address,
                   .why = request_.insecure
                              ? "--insecure needs a shared --token-file"
                              : "anybody who can read the network traffic could read the token",
                   .fix = "add --tls; the first host then prints a join string for the others"};
  }

  Check ChooseLoopbackPort() {
    run_.port.emplace(static_cast<uint64_t>(RealtimeSeconds() * 1e6) ^
                      static_cast<uint64_t>(::getpid()));
    if (const absl::Status held = run_.port->Hold(); !held.ok()) {
      return Failed("PL-E031", "there is no port for the master", held);
    }
    run_.port->Lend();
    address_ = Concat(Bracketed(LoopbackHost()), ":", run_.port->port());
    run_.listen = address_;
    return std::nullopt;
  }

  // Prepares a job whose master runs here.
  Check Found() {
    run_.spec.job_id = NewJobId();
    std::string token = wire::MakeToken();
    if (!request_.credentials.empty()) {
      auto given = ReadCredential(request_.credentials, "token");
      if (!given.ok()) return given.problem();
      token = *given;
      auto id = PlacedJobId(request_.credentials, run_.spec.name);
      if (!id.ok()) return id.problem();
      run_.spec.job_id = *id;
    } else if (!request_.token_file.empty()) {
      auto given = ReadTokenFile(request_.token_file);
      if (!given.ok()) return given.problem();
      token = *given;
    }
    if (Check problem = OpenDirectory()) return problem;
    NameNodes();
    run_.card.has_master = true;
    run_.credentials.token = token;
    if (request_.tls || !request_.credentials.empty()) {
      if (Check problem = MakeTls(token)) return problem;
    }
    return WriteFiles();
  }

  // Prepares this host's part of a job whose master runs on another host.
  Check Join() {
    auto join = JoinStringToUse();
    if (!join.ok()) return join.problem();
    address_ = join->address;
    run_.is_whole_job = false;
    run_.card.has_master = false;
    NameNodes();
    const std::string& node = run_.card.nodes.front();
    // The limit is a time and not a number of attempts, because a host without a listener refuses
    // sixty connections within milliseconds.
    const auto until = std::chrono::steady_clock::now() + kJoinTimeout;
    // A relay gets its certificate from the master: the other hosts wait for it.
    const bool is_relay = !run_.card.relay.empty();
    wire::Route route(join->address, is_relay ? std::vector<std::string>() : run_.launch.relays,
                      node);
    absl::Status status;
    WaitTeller teller;
    for (bool has_told = false;; std::this_thread::sleep_for(kJoinPause)) {
      const wire::JoinString way{route.address(), join->ca_sha256, join->token};
      const Duration patience =
          route.is_relay() ? kRelayPatience : run_.spec.timers.connect_timeout;
      absl::StatusOr<wire::Credentials> credentials =
          wire::Enroll(way, run_.card.nodes, patience, is_relay);
      status = credentials.status();
      if (status.ok()) {
        run_.credentials = *std::move(credentials);
        wire::ControlClient client({way.address, run_.credentials, patience});
        const absl::StatusOr<wire::JobStatus> job = client.GetStatus();
        status = job.status();
        if (status.ok()) {
          run_.spec.job_id = job->job_id;
          break;
        }
      }
      if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) break;
      if (std::chrono::steady_clock::now() >= until) break;
      route.Failed();
      if (HasBecomeOurs()) {
        if (Check problem = ChooseRole()) return problem;
        if (is_master_) return Found();
      }
      if (!has_told) input_.wait_note(Concat("waiting for the master at ", join->address, " …"));
      has_told = true;
      if (teller.Take(agent::MonotonicNow(), /*is_waiting=*/true)) {
        input_.wait_note(Concat("still waiting for the master at ", join->address, ": ",
                                Visible(std::string(status.message()))));
      }
    }
    if (!status.ok()) {
      return Failed(absl::IsUnavailable(status) ? "PL-E030" : "PL-E102",
                    Concat("this host cannot join the job at ", join->address), status);
    }
    directory_suffix_ = Concat("-", node);
    if (Check problem = OpenDirectory()) return problem;
    if (run_.credentials.is_tls()) {
      const absl::Status saved = wire::SaveCredentials(run_.credentials, run_.dir.path + "/tls");
      if (!saved.ok()) return Failed("PL-E021", "the run directory cannot be used", saved);
    }
    return WriteFiles();
  }

  Result<wire::JoinString> JoinStringToUse() {
    if (!request_.credentials.empty()) return PlacedJoin(request_.credentials, address_);
    if (!request_.join.empty()) {
      auto text = ReadJoinText(request_.join);
      if (!text.ok()) return text.problem();
      const absl::StatusOr<wire::JoinString> join = wire::ParseJoinString(*text);
      if (join.ok()) return *join;
      return Failed("PL-E104", "the join string is not usable", join.status());
    }
    if (!request_.token_file.empty()) {
      auto token = ReadTokenFile(request_.token_file);
      if (!token.ok()) return token.problem();
      return wire::JoinString{.address = address_, .ca_sha256 = "", .token = *token};
    }
    const std::string run_dir = RunDirOfLivingMaster(Registered(run_.runtime_dir, address_));
    if (!run_dir.empty()) {
      return wire::JoinString{
          .address = address_, .ca_sha256 = "", .token = ReadSecret(run_dir + "/token")};
    }
    // This host has the address and would run the master, but another process listens there.
    const bool is_stranger = !request_.is_master_host.has_value() &&
                             request_.endpoint.has_value() &&
                             IsOurs(OwnerOf(request_.endpoint->host));
    if (is_stranger) {
      return Problem{.code = "PL-E031",
                     .what = "the master cannot listen on its address",
                     .where = address_,
                     .why = "another program listens there, which is not a job of yours",
                     .fix = "choose another port, on all hosts"};
    }
    return Problem{
        .code = "PL-E102",
        .what = Concat("joining the job at ", address_, " needs its token"),
        .where = "the command line",
        .why = "neither --join nor --token-file was given",
        .fix = "paceline run --join 'paceline-join:v1:…' …, as the first host printed it"};
  }

  // Prepares a resumed job: all settings are those of its start.
  Check Resume() {
    if (request_.run_dir.empty()) {
      return Problem{.code = "PL-E026",
                     .what = "--resume needs to know which run",
                     .where = "the command line",
                     .why = "no run directory was given",
                     .fix = "paceline run --resume --run-dir runs/JOB"};
    }
    const auto resumed = RunDirOf(request_.run_dir, input_.environment);
    if (!resumed.ok()) return resumed.problem();
    resumed_dir_ = *resumed;
    AwaitEndedRun(resumed_dir_, input_.wait_note);
    if (Check problem = OpenDirectory()) return problem;
    auto card = ReadJobCard(run_.dir.path);
    if (!card.ok()) return card.problem();
    const absl::StatusOr<wire::SpecFile> spec = wire::ReadSpecFile(run_.dir.path + "/spec.json");
    if (!spec.ok()) return Failed("PL-E025", "spec.json is damaged", spec.status());
    // The interpreter with which the job was started, not the one of this shell's PATH.
    if (Check problem = CheckInterpreter(spec->launch.python, input_.facts)) return problem;
    run_.card = *std::move(card);
    run_.spec = spec->job;
    run_.launch = spec->launch;
    run_.listen = run_.card.master_address;
    run_.is_resumed = true;
    run_.is_whole_job = run_.card.has_master && run_.card.nodes.size() >= run_.spec.nodes_max;
    const std::string token = ReadSecret(run_.dir.path + "/token");
    absl::StatusOr<wire::Credentials> tls = wire::LoadCredentials(run_.dir.path + "/tls", token);
    run_.credentials = tls.ok() ? *std::move(tls) : wire::Credentials{.token = token};
    run_.former_end = run_.card.end;
    if (run_.former_end.has_value() && run_.former_end->exit_code != 0) run_.card.end.reset();
    NameLauncher();
    return SaveJobCard(run_.card, run_.dir.path, run_.runtime_dir);
  }

  void NameLauncher() {
    run_.card.started = RealtimeSeconds();
    run_.card.launcher = {::getpid(), agent::StartTimeOf(::getpid())};
    run_.card.pid_space = agent::PidSpaceName();
  }

  std::string NewJobId() const {
    return Concat(run_.spec.name, "-", wire::MakeToken().substr(0, 6));
  }

  Check OpenDirectory() {
    RunDirRequest request{.wanted = resumes_ ? resumed_dir_ : request_.run_dir,
                          .job_id = run_.spec.job_id + directory_suffix_,
                          .cwd = input_.facts.cwd,
                          .is_cwd_writable = input_.facts.cwd_writable,
                          .resume = resumes_};
    if (Check problem = MakeLogDir(run_.launch.log_dir)) return problem;
    auto dir = OpenRunDir(request, input_.environment);
    if (!dir.ok()) return dir.problem();
    run_.dir = std::move(dir.value());
    return std::nullopt;
  }

  void NameNodes() {
    std::string name = request_.node_name;
    const uint32_t count = request_.local_nodes + request_.local_spares;
    if (name.empty() && request_.endpoint.has_value() && !run_.is_whole_job) {
      name = FreeNodeName(input_.facts.host_name, count, Registered(run_.runtime_dir, address_));
    }
    run_.card.nodes = NodesNamed(name, count);
  }

  Check MakeTls(const std::string& token) {
    const std::string tls_dir = run_.dir.path + "/tls";
    const absl::StatusOr<wire::ServerCredentials> server =
        request_.credentials.empty() ? wire::MakeServerCredentials(run_.spec.job_id, token)
                                     : PlacedServer(request_.credentials, token);
    if (!server.ok()) return Failed("PL-E105", "the job's CA cannot be made", server.status());
    const std::vector<std::string> names =
        run_.card.nodes.empty() ? std::vector<std::string>{"launcher"} : run_.card.nodes;
    absl::StatusOr<wire::Credentials> client =
        wire::MakeClientCredentials(*server, names, !run_.card.relay.empty());
    if (!client.ok()) return Failed("PL-E105", "no certificate can be made", client.status());
    const absl::StatusOr<std::string> print = wire::CaFingerprint(server->ca_pem);
    if (!print.ok()) return Failed("PL-E105", "the CA has no fingerprint", print.status());
    for (const absl::Status& saved :
         {wire::SaveServerCredentials(*server, tls_dir), wire::SaveCredentials(*client, tls_dir)}) {
      if (!saved.ok()) return Failed("PL-E021", "the run directory cannot be used", saved);
    }
    run_.credentials = *std::move(client);
    if (request_.tls) run_.join_string = wire::FormatJoinString({address_, *print, token});
    return std::nullopt;
  }

  Check WriteFiles() {
    const std::string& path = run_.dir.path;
    if (run_.launch.run_id.empty()) run_.launch.run_id = run_.spec.job_id;
    // Several jobs may share one --log-dir. Each has a folder of its own, so that none reads,
    // appends to or prunes another's files.
    if (!run_.launch.log_dir.empty()) run_.launch.log_dir += "/" + run_.spec.job_id;
    PassStdin();
    const absl::Status token =
        ReplaceFileDurably(path + "/token", run_.credentials.token + "\n", 0600);
    if (!token.ok()) return Failed("PL-E021", "the run directory cannot be used", token);
    const absl::Status spec = wire::WriteSpecFile({run_.spec, run_.launch}, path + "/spec.json");
    if (!spec.ok()) return Failed("PL-E021", "the run directory cannot be used", spec);
    run_.card.job_id = run_.spec.job_id;
    run_.card.name = run_.spec.name;
    run_.card.argv = input_.args;
    run_.card.cwd = input_.facts.cwd;
    run_.card.master_address = address_;
    run_.card.insecure = request_.insecure;
    run_.card.http_port = request_.http_port;
    NameLauncher();
    run_.card.created = run_.card.started;
    MakeDirs(path + "/logs", 0700).IgnoreError();
    return SaveJobCard(run_.card, path, run_.runtime_dir);
  }

  // In a job of one rank, the rank reads what is piped into the launcher, as under torchrun.
  // Several ranks would each get some of the bytes. A terminal is never passed on.
  void PassStdin() {
    const bool has_one_rank = run_.is_whole_job && request_.local_spares == 0 &&
                              run_.spec.nodes_max * run_.spec.nproc_per_node == 1;
    struct stat found {};
    if (!has_one_rank || request_.detach || ::fstat(STDIN_FILENO, &found) != 0) return;
    if (!S_ISFIFO(found.st_mode) && !S_ISREG(found.st_mode)) return;
    run_.launch.stdin_pid = ::getpid();
    run_.launch.stdin_start = agent::StartTimeOf(::getpid());
  }

  RunInput input_;
  const RunRequest& request_;
  PreparedRun run_;
  bool resumes_ = false;
  std::string resumed_dir_;
  bool is_master_ = true;
  bool was_ours_ = false;  // the rendezvous address was this host's when the role was chosen
  std::string address_;
  std::string directory_suffix_;
};

}  // namespace

Result<PreparedRun> PrepareRun(RunInput input) { return Preparation(std::move(input)).Make(); }

}  // namespace paceline::cli

#include "paceline/cli/run/request.h"
#include "paceline/cli/run/policies.h"

#include <algorithm>
#include <utility>

#include "paceline/base/host_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/flags/torchrun_flags.h"
#include "paceline/cli/job/run_dir.h"
#include "paceline/cli/run/check_files.h"
#include "paceline/cli/run/entry.h"
#include "paceline/cli/run/interpreter.h"
#include "paceline/cli/run/memory_limit.h"
#include "paceline/cli/run/rule_files.h"
#include "paceline/cli/run/task_shape.h"
#include "paceline/cli/settings/value.h"
#include "paceline/wire/codec/judge.h"

namespace paceline::cli {
namespace {

constexpr uint16_t kRelayPort = 29401;           // of --relays HOST
constexpr uint16_t kC10dPort = 29400;            // torchrun's default for --rdzv-endpoint HOST
constexpr uint16_t kStaticPort = 29500;          // and for --master-addr HOST
constexpr int64_t kRanksPerNodeMax = 64;         // slots of a progress page
constexpr int64_t kLastCallMax = 1'000'000'000;  // seconds

class RequestMaker {
 public:
  RequestMaker(const ParsedLine& line, const SettingValues& settings,
               const Environment& environment, const HostFacts& facts)
      : line_(line), settings_(settings), environment_(environment), facts_(facts) {}

  Result<RunRequest> Make() {
    using Stage = Check (RequestMaker::*)();
    for (const Stage stage :
         {&RequestMaker::TakeSwitches, &RequestMaker::TakeEntry, &RequestMaker::TakeInterpreter,
          &RequestMaker::TakeShape, &RequestMaker::TakeNetwork, &RequestMaker::TakeStatic,
          &RequestMaker::CheckShape, &RequestMaker::TakeConsole, &RequestMaker::TakeTimers,
          &RequestMaker::TakeRest}) {
      if (Check problem = (this->*stage)()) return *std::move(problem);
    }
    NoteFlagsWithoutEffect();
    return std::move(request_);
  }

 private:
  Problem Bad(std::string_view key, const std::string& expected) const {
    const SettingValue& value = settings_.Get(key);
    return Problem{.code = value.origin.starts_with("-") ? "PL-E003" : "PL-E013",
                   .what = std::string(key) + " cannot be \"" + value.text + "\"",
                   .where = value.origin,
                   .why = "it takes " + expected,
                   .fix = "paceline run --help"};
  }

  static Problem Conflict(const std::string& what, const std::string& why, const std::string& fix) {
    return Problem{
        .code = "PL-E005", .what = what, .where = "the command line", .why = why, .fix = fix};
  }

  bool Switch(const std::string& dest) const {
    const auto found = torchrun_.find(dest);
    return found != torchrun_.end() && found->second == "1";
  }

  Check TakeSwitches() {
    auto torchrun = ResolveTorchrun(line_, environment_);
    if (!torchrun.ok()) return torchrun.problem();
    torchrun_ = *std::move(torchrun);
    request_.resume = line_.Has("resume");
    request_.detach = line_.Has("detach");
    request_.passthrough_exit = settings_.OnOff("output.passthrough_exit");
    request_.run_dir = settings_.Text("job.run_dir");
    return std::nullopt;
  }

  Check TakeEntry() {
    // The run directory has the script, or no rank runs here.
    const bool may_lack = request_.resume || settings_.Integer("job.local_nodes") == 0;
    if (line_.positionals.empty() && may_lack) return std::nullopt;
    const EntrySwitches switches = {.is_module = Switch("module") && !Switch("run_path"),
                                    .is_program = Switch("no_python") && !Switch("run_path")};
    const auto entry = FindEntry(line_.positionals, switches, environment_, facts_);
    if (!entry.ok()) return entry.problem();
    LaunchSpec& launch = request_.launch;
    launch.entry = *entry;
    launch.target = line_.positionals.front();
    launch.args.assign(line_.positionals.begin() + 1, line_.positionals.end());
    launch.cwd = facts_.cwd;
    return std::nullopt;
  }

  // Needed also for a program that is not Python, because the starter, the parent of all ranks, is.
  Check TakeInterpreter() {
    auto found = FindInterpreter(environment_, settings_, facts_);
    if (!found.ok()) return found.problem();
    request_.launch.python = *std::move(found);
    return std::nullopt;
  }

  Check TakeShape() {
    JobSpec& spec = request_.spec;
    request_.local_nodes = static_cast<uint32_t>(settings_.Integer("job.local_nodes"));
    request_.credentials = line_.Text("credentials");
    if (request_.local_nodes == 0 && request_.credentials.empty()) {
      return Bad("job.local_nodes", "at least 1; 0 needs --credentials, which a platform gives");
    }
    spec.is_placed = !request_.credentials.empty();
    spec.nodes_min = spec.nodes_max = std::max(1u, request_.local_nodes);
    if (!settings_.IsDefault("job.nnodes") || settings_.IsDefault("job.local_nodes")) {
      const auto range = ParseNodeRange(settings_.Text("job.nnodes"));
      if (!range) return Bad("job.nnodes", "a number of nodes, or MIN:MAX with 1 <= MIN <= MAX");
      spec.nodes_min = range->min;
      spec.nodes_max = range->max;
    }
    spec.spares = static_cast<uint32_t>(settings_.Integer("job.spares"));
    spec.unit = static_cast<uint32_t>(settings_.Integer("job.unit"));
    if (Check problem = TakeRanks()) return problem;
    if (settings_.IsSet("job.max_restarts")) {
      spec.max_restarts = static_cast<uint32_t>(settings_.Integer("job.max_restarts"));
    }
    spec.grow = GrowPolicyOf(settings_.Text("job.grow"));
    spec.scale = ScaleModeOf(settings_.Text("scale.mode"));
    if (spec.scale == ScaleMode::kAuto && spec.grow == GrowPolicy::kNever) {
      return Bad("scale.mode", "not auto with --grow never, by which the job takes in no node");
    }
    spec.efficiency_least = ParseNumber(settings_.Text("scale.efficiency_least")).value_or(0);
    if (!(spec.efficiency_least > 0 && spec.efficiency_least <= 1)) {
      return Bad("scale.efficiency_least", "a number above 0 and at most 1");
    }
    spec.replace_nodes = settings_.OnOff("job.replace_nodes");
    spec.seed = static_cast<uint64_t>(settings_.Integer("job.seed"));
    spec.only_tells_hangs = settings_.Text("hang.act") == "tell";
    spec.slow_act = settings_.Text("slow.act") == "replace" ? SlowAct::kReplace : SlowAct::kTell;
    spec.slow_act_after = settings_.Time("slow.act_after");
    if (Check problem = TakeMemory(settings_, &spec)) return problem;
    if (settings_.IsSet("hang.act_after")) spec.hang_act_after = settings_.Time("hang.act_after");
    return TakeTasks(line_, settings_, &request_);
  }

  Check TakeRanks() {
    const std::string& text = settings_.Text("job.nproc_per_node");
    int64_t ranks = 0;
    if (text == "cpu") {
      ranks = facts_.cpu_count;
    } else if (text == "gpu" || text == "xpu") {
      ranks = text == "gpu" ? facts_.gpu_count.value_or(0) : facts_.xpu_count;
      if (ranks == 0) return NoDevices(text);
    } else if (text == "auto") {
      ranks = facts_.gpu_count.value_or(0);
      if (ranks == 0) ranks = facts_.xpu_count;
      if (ranks == 0) ranks = facts_.cpu_count;
    } else {
      ranks = ParseInteger(text).value_or(0);
    }
    if (ranks < 1 || ranks > kRanksPerNodeMax) {
      return Bad("job.nproc_per_node",
                 "1 to " + std::to_string(kRanksPerNodeMax) + ", or auto, cpu, gpu, xpu");
    }
    request_.spec.nproc_per_node = request_.launch.nproc_per_node = static_cast<uint32_t>(ranks);
    return std::nullopt;
  }

  Problem NoDevices(const std::string& kind) const {
    return Problem{.code = "PL-E003",
                   .what = "--nproc-per-node " + kind + " finds no device",
                   .where = facts_.host_name,
                   .why = "no driver lists a visible device",
                   .fix = "paceline run --nproc-per-node cpu …"};
  }

  Check TakeNetwork() {
    request_.tls = settings_.OnOff("network.tls");
    request_.insecure = settings_.OnOff("network.insecure");
    request_.http_port = static_cast<uint16_t>(settings_.Integer("network.http_port"));
    request_.token_file = settings_.Text("network.token_file");
    request_.launch.local_addr = settings_.Text("network.local_addr");
    request_.join = line_.Text("join");
    request_.incarnation = static_cast<uint32_t>(line_.Number("incarnation", 0));
    if (!request_.credentials.empty() && request_.local_nodes == 0) {
      request_.term = Counted("PACELINE_MASTER_TERM");
      request_.survivors = static_cast<uint32_t>(Counted("PACELINE_MASTER_SURVIVORS"));
      request_.memo = LookupOr(environment_, "PACELINE_MASTER_MEMO", "");
    }
    if (!request_.credentials.empty()) {
      const auto seconds = static_cast<int64_t>(Counted("PACELINE_GRACE_SECONDS"));
      request_.platform_grace = Duration::Seconds(seconds);
    }
    request_.node_name = settings_.Text("network.node_name");
    if (!request_.node_name.empty() && !wire::IsName(request_.node_name)) {
      return Bad("network.node_name", "1 to 128 of A-Z a-z 0-9 . _ -, no leading dot");
    }
    if (!request_.credentials.empty()) {
      if (Check problem = CheckPlaced()) return problem;
    }
    if (request_.tls && request_.insecure) {
      return Conflict("--tls and --insecure exclude each other",
                      "one asks for encryption, the other to do without", "leave one of them out");
    }
    if (Check problem = TakeRendezvousSettings()) return problem;
    const bool is_here = settings_.OnOff("network.standalone");
    if (!is_here && settings_.IsSet("network.rdzv_endpoint")) {
      auto endpoint = ParseEndpoint(settings_.Text("network.rdzv_endpoint"), kC10dPort);
      if (!endpoint.ok()) return endpoint.problem();
      request_.endpoint = *endpoint;
    } else {  // --rdzv-conf is for that address
      request_.is_master_host.reset();
      join_window_.reset();
    }
    return TakeRelays();
  }

  Check TakeRelays() {
    for (const std::string& text : settings_.List("network.relays")) {
      auto relay = ParseEndpoint(text, kRelayPort, "--relays");
      if (!relay.ok()) return relay.problem();
      if (relay->port == 0) return Bad("network.relays", "HOST:PORT with a port of its own");
      request_.relays.push_back(*relay);
      request_.launch.relays.push_back(ToText(*relay));
    }
    return std::nullopt;
  }

  // Without an address of the master, all of the job is on this host. A settings file may name the
  // relays of other jobs.
  Check CheckAlone() {
    const bool are_relays_typed = settings_.Get("network.relays").origin.starts_with("-");
    request_.relays.clear();
    request_.launch.relays.clear();
    for (const auto& [flag, is_given] :
         {std::pair("--relays", are_relays_typed), std::pair("--join", !request_.join.empty())}) {
      if (!is_given) continue;
      return Conflict(Concat(flag, " needs --rdzv-endpoint"),
                      "it is for hosts that reach the master at that address",
                      Concat("--rdzv-endpoint HOST:PORT, or leave ", flag, " out"));
    }
    return std::nullopt;
  }

  // A number that the platform gives; 0 if it gives none.
  uint64_t Counted(const char* name) const {
    constexpr int64_t kMost = 0xffff;
    const std::optional<int64_t> number = ParseInteger(LookupOr(environment_, name, ""));
    return static_cast<uint64_t>(std::clamp<int64_t>(number.value_or(0), 0, kMost));
  }

  // Under a platform, the master's address and the name of this node have to be given.
  Check CheckPlaced() const {
    if (!request_.join.empty() || !request_.token_file.empty() || request_.tls) {
      return Conflict("--credentials stands for --join, --token-file and --tls",
                      "these are three ways to prove that a host belongs to the job",
                      "leave the others out");
    }
    if (!settings_.IsSet("network.rdzv_endpoint")) {
      return Conflict("--credentials needs --rdzv-endpoint", "it says where the master is",
                      "--rdzv-endpoint HOST:PORT");
    }
    if (request_.local_nodes == 1 && !request_.node_name.empty()) return std::nullopt;
    if (request_.local_nodes == 0) return std::nullopt;
    return Conflict("--credentials needs --node-name", "a platform gives each node its name",
                    "--node-name node0");
  }

  Check TakeRendezvousSettings() {
    if (!settings_.IsSet("network.rdzv_conf")) return std::nullopt;
    std::string unused;
    for (const std::string& item : Split(settings_.Text("network.rdzv_conf"), ',')) {
      const size_t equals = item.find('=');
      const std::string key(Trimmed(item.substr(0, equals)));
      const std::string value(
          equals == std::string::npos ? "" : Trimmed(std::string_view(item).substr(equals + 1)));
      if (key.empty() || value.empty()) {
        return Bad("network.rdzv_conf", "key=value pairs with commas between them");
      }
      if (key == "is_host") {
        request_.is_master_host = ParseTorchBool(value);
        if (!request_.is_master_host.has_value()) {
          return Bad("network.rdzv_conf", "true or false for is_host");
        }
      } else if (key == "last_call_timeout") {
        const int64_t seconds = ParseInteger(value).value_or(-1);
        if (seconds < 0 || seconds > kLastCallMax) {
          return Bad("network.rdzv_conf", "a number of seconds for last_call_timeout");
        }
        join_window_ = Duration::Seconds(seconds);
      } else {
        unused += (unused.empty() ? "" : ", ") + key;
      }
    }
    if (!unused.empty()) {
      request_.notes.push_back("--rdzv-conf: " + unused + " have no effect here");
    }
    return std::nullopt;
  }

  // torchrun's static rendezvous: --master-addr, --master-port and --node-rank.
  Check TakeStatic() {
    const bool local =
        settings_.OnOff("network.standalone") || request_.spec.nodes_max <= request_.local_nodes;
    const bool asked = settings_.IsSet("network.master_port") ||
                       (settings_.IsSet("network.master_addr") && !local);
    if (request_.endpoint.has_value() || (local && !asked)) return std::nullopt;
    if (settings_.OnOff("network.standalone")) return std::nullopt;
    std::string host = settings_.Text("network.master_addr");
    if (host.empty() && !settings_.IsDefault("network.master_addr")) {
      return Bad("network.master_addr", "the address of the first host, the same on all hosts");
    }
    if (host.empty()) host = Bracketed(LoopbackHost());
    auto endpoint = ParseEndpoint(host, kStaticPort, "--master-addr");
    if (!endpoint.ok()) return endpoint.problem();
    if (settings_.IsSet("network.master_port")) {
      endpoint->port = static_cast<uint16_t>(settings_.Integer("network.master_port"));
      // The master listens on that port. The store of each world has another port;
      // python/paceline/_rank/store.py replaces the one by the other.
      request_.launch.master_port = endpoint->port;
    }
    request_.endpoint = *endpoint;
    const int64_t node_rank = settings_.Integer("network.node_rank");
    const int64_t hosts = int64_t{request_.spec.nodes_max} + request_.spec.spares;
    if (node_rank >= hosts) {
      return Bad("network.node_rank", Concat("0 to ", hosts - 1, " in a job of ", hosts,
                                             hosts == 1 ? " node" : " nodes, spares counted"));
    }
    request_.is_master_host = node_rank == 0;
    if (request_.node_name.empty() && request_.spec.nodes_max > request_.local_nodes) {
      request_.node_name = "node" + std::to_string(node_rank);
    }
    return std::nullopt;
  }

  Check CheckShape() {
    JobSpec& spec = request_.spec;
    if (spec.nodes_min % spec.unit != 0) {
      return Conflict(
          "the minimum of nodes is not a multiple of job.unit",
          std::to_string(spec.nodes_min) + " nodes in units of " + std::to_string(spec.unit),
          "set --nnodes to multiples of job.unit");
    }
    if (request_.endpoint.has_value()) return std::nullopt;
    if (Check problem = CheckAlone()) return problem;
    request_.local_spares = spec.spares;
    if (spec.nodes_min > request_.local_nodes) {
      return Conflict(
          "the job needs " + std::to_string(spec.nodes_min) +
              " nodes and this machine "
              "holds " +
              std::to_string(request_.local_nodes),
          "with --standalone all nodes are on this machine",
          "paceline run --standalone --local-nodes " + std::to_string(spec.nodes_min) + " …");
    }
    return std::nullopt;
  }

  // "the local ranks 0 to 3 of a node": by --nproc-per-node.
  std::string LocalRanks() const {
    const uint32_t count = request_.spec.nproc_per_node;
    return count == 1 ? "local rank 0, the only one of a node"
                      : Concat("the local ranks 0 to ", count - 1, " of a node");
  }

  Check TakeConsole() {
    ConsoleSpec& console = request_.launch.console;
    for (const auto& [key, choice] :
         {std::pair<std::string_view, StreamChoice*>{"log.redirects", &console.redirects},
          {"log.tee", &console.tee}}) {
      const auto streams = ParseStreams(settings_.Text(key));
      if (!streams.has_value()) return Bad(key, "0, 1, 2 or 3, or a list such as 0:3,1:2");
      *choice = *streams;
      const auto& by_rank = streams->by_local_rank;
      if (!by_rank.empty() && by_rank.rbegin()->first >= request_.spec.nproc_per_node) {
        return Bad(key, Concat("streams of ", LocalRanks()));
      }
    }
    if (settings_.IsSet("log.local_ranks_filter")) {
      for (const std::string& item : Split(settings_.Text("log.local_ranks_filter"), ',')) {
        const auto rank = ParseInteger(item);
        if (!rank || *rank < 0 || *rank >= request_.spec.nproc_per_node) {
          return Bad("log.local_ranks_filter", LocalRanks());
        }
        console.local_ranks_filter.push_back(static_cast<uint32_t>(*rank));
      }
    }
    console.line_prefix_template = settings_.Text("log.prefix");
    if (console.line_prefix_template.empty()) {
      console.line_prefix_template =
          LookupOr(environment_, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "");
    }
    console.duplicate_stdout_filters = settings_.List("log.duplicate_stdout_filters");
    console.duplicate_stderr_filters = settings_.List("log.duplicate_stderr_filters");
    console.fold = settings_.OnOff("log.fold");
    std::string& log_dir = request_.launch.log_dir;
    log_dir = settings_.Text("log.dir");
    // Made absolute, because agents and starters have other working directories.
    if (!log_dir.empty() && !log_dir.starts_with("/")) log_dir = facts_.cwd + "/" + log_dir;
    request_.launch.log_bytes_max = settings_.Size("log.bytes_max");
    request_.launch.log_total_bytes_max = settings_.Size("log.total_bytes_max");
    return std::nullopt;
  }

  Check TakeTimers() {
    Timers& timers = request_.spec.timers;
    for (const Setting& setting : Settings()) {
      if (setting.timer != nullptr) timers.*setting.timer = settings_.Time(setting.key);
      if (setting.budget != nullptr) {
        request_.spec.budgets.*setting.budget =
            static_cast<uint32_t>(settings_.Integer(setting.key));
      }
    }
    if (join_window_.has_value() && settings_.IsDefault("timers.join_window")) {
      timers.join_window = *join_window_;
    }
    const std::string from_torch = LookupOr(environment_, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "");
    if (settings_.IsDefault("timers.stop_grace") && ParseInteger(from_torch).value_or(-1) >= 0) {
      timers.stop_grace = Duration::Seconds(*ParseInteger(from_torch));
    }
    if (timers.lost_after < timers.heartbeat_interval * 2) {
      return Bad("timers.lost_after", "at least twice timers.heartbeat_interval (" +
                                          FormatDuration(timers.heartbeat_interval) +
                                          "), or one late heartbeat loses a node");
    }
    timers.lost_after_max = std::max(timers.lost_after_max, timers.lost_after);
    return std::nullopt;
  }

  Check TakeRest() {
    if (Check problem = TakeSignals()) return problem;
    LaunchSpec& launch = request_.launch;
    launch.role = settings_.Text("launch.role");
    launch.preload = settings_.List("launch.preload");
    if (!std::ranges::all_of(launch.preload, IsModuleName)) {
      return Bad("launch.preload", "names of modules, with commas between them: torch,numpy");
    }
    launch.notify_command = settings_.List("notify.command");
    launch.notify_timeout = settings_.Time("notify.timeout");
    launch.history_place = HistoryPlace(settings_.Text("history.place"), environment_, facts_.cwd);
    launch.checks = CheckFiles(line_, settings_, facts_.cwd);
    launch.check_timeout = settings_.Time("check.timeout");
    launch.log_rules = RuleFiles(settings_, facts_.cwd);
    launch.keep_warm = settings_.Time("launch.keep_warm");
    // TensorFlow starts threads when it is imported, so none of its tasks is a fork of a process
    // that did.
    const TaskSpec& tasks = request_.spec.tasks;
    launch.warm = settings_.OnOff("launch.warm") && (!tasks.is_on() || tasks.has_tables());
    launch.numa_binding = settings_.Text("launch.numa_binding");
    launch.virtual_local_rank = settings_.OnOff("launch.virtual_local_rank");
    if (settings_.IsSet("launch.omp_threads")) {
      launch.omp_threads = static_cast<uint32_t>(settings_.Integer("launch.omp_threads"));
    }
    const std::string& rdzv_id = settings_.Text("job.rdzv_id");
    if (rdzv_id != "none") launch.run_id = rdzv_id;
    std::string name = settings_.Text("job.name");
    if (name.empty()) name = launch.run_id;
    if (name.empty()) name = NameOfTarget(launch.target);
    request_.spec.name = ToName(name);
    return std::nullopt;
  }

  Check TakeSignals() {
    auto signals = ParseStopSignals(settings_.Text("launch.signals_to_handle"));
    if (!signals.has_value()) {
      return Bad("launch.signals_to_handle", "names such as SIGTERM,SIGUSR1");
    }
    request_.stop_signals = *std::move(signals);
    // The same value as torchrun gives its workers.
    request_.launch.env["TORCHELASTIC_SIGNALS_TO_HANDLE"] =
        settings_.Text("launch.signals_to_handle");
    return std::nullopt;
  }

  void NoteFlagsWithoutEffect() {
    for (const Flag& flag : TorchrunFlags()) {
      if (flag.without_effect.empty()) continue;
      const bool given = line_.Has(flag.dest) ||
                         (flag.from_pet && Lookup(environment_, PetName(flag)).has_value());
      if (!given) continue;
      request_.notes.push_back(std::string(flag.spellings[0]) +
                               " has no effect: " + std::string(flag.without_effect));
    }
  }

  const ParsedLine& line_;
  const SettingValues& settings_;
  const Environment& environment_;
  const HostFacts& facts_;
  TorchrunNamespace torchrun_;
  std::optional<Duration> join_window_;
  RunRequest request_;
};

}  // namespace

Result<RunRequest> MakeRunRequest(const ParsedLine& line, const SettingValues& settings,
                                  const Environment& environment, const HostFacts& facts) {
  return RequestMaker(line, settings, environment, facts).Make();
}

}  // namespace paceline::cli

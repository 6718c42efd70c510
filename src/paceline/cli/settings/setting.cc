#include "paceline/cli/settings/setting.h"

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

using enum FlagKind;

// The rows that are neither timers nor budgets, in the fields of Setting.
struct PlainRow {
  std::string_view key;
  FlagKind kind = FlagKind::kText;
  std::string_view default_text;
  std::string_view help;
  std::string_view choices;
  int64_t minimum = 0;
  int64_t maximum = std::numeric_limits<int64_t>::max();
  bool zero_allowed = true;
};

constexpr PlainRow kPlain[] = {
    {.key = "job.nnodes",
     .default_text = "1",
     .help = "nodes of the job, or MIN:MAX; with job.local_nodes alone it is that number"},
    {.key = "job.nproc_per_node",
     .default_text = "1",
     .help = "ranks on each node: a number, auto, cpu, gpu or xpu"},
    {.key = "job.local_nodes",
     .kind = kInteger,
     .default_text = "1",
     .help = "nodes that this machine holds; 0, with --credentials, for the master alone",
     .minimum = 0,
     .maximum = 1024},
    {.key = "job.spares",
     .kind = kInteger,
     .default_text = "0",
     .help = "nodes that wait to replace a lost one",
     .maximum = 1024},
    {.key = "job.unit",
     .kind = kInteger,
     .default_text = "1",
     .help =
         "the world holds a multiple of this number of nodes, such as the nodes of one replica of "
         "the model",
     .minimum = 1,
     .maximum = 100'000},
    {.key = "job.name", .help = "name of the job, part of its id"},
    {.key = "job.rdzv_id", .help = "name of the job in torchrun's terms; TORCHELASTIC_RUN_ID"},
    {.key = "job.max_restarts",
     .kind = kInteger,
     .help = "hard cap on restarts; unset: only failures without progress count",
     .maximum = 1'000'000'000},
    {.key = "job.run_dir", .help = "journal, logs and token; ./runs/ID when unset"},
    {.key = "job.grow",
     .kind = kChoice,
     .default_text = "checkpoint",
     .help = "when a running world takes in a node that joins: checkpoint (as soon as that costs "
             "no step), now, never",
     .choices = "checkpoint|now|never"},
    {.key = "job.replace_nodes",
     .kind = kOnOff,
     .default_text = "on",
     .help = "start a lost node again, on the host of its launcher"},
    {.key = "job.seed",
     .kind = kInteger,
     .default_text = "0",
     .help = "seed of paceline's own random delays; 0: a random seed"},
    {.key = "launch.python",
     .help = "interpreter of the ranks; the one beside the paceline binary when unset"},
    {.key = "launch.role", .default_text = "default", .help = "ROLE_NAME of the ranks"},
    {.key = "launch.preload",
     .kind = kList,
     .help = "modules that the starter imports in addition to the learned ones"},
    {.key = "launch.keep_warm",
     .kind = FlagKind::kDuration,
     .default_text = "0s",
     .help = "how long the starter stays for the next run"},
    {.key = "launch.warm",
     .kind = kOnOff,
     .default_text = "on",
     .help = "fork ranks from a warm starter; off: a fresh interpreter for each"},
    {.key = "launch.omp_threads",
     .kind = kInteger,
     .help = "threads of a rank; unset: OMP_NUM_THREADS, else 1 when a node holds several ranks",
     .minimum = 1,
     .maximum = 4096},
    {.key = "launch.numa_binding",
     .kind = kChoice,
     .help = "bind ranks to cores",
     .choices = "node|socket|exclusive|core-complex"},
    {.key = "launch.virtual_local_rank",
     .kind = kOnOff,
     .default_text = "off",
     .help = "LOCAL_RANK=0 and one visible device for every rank"},
    {.key = "launch.signals_to_handle",
     .default_text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     .help = "signals that stop the job"},
    {.key = "launch.plan",
     .help = "the script must train by a parallel plan: auto, or a plan's file; not required when "
             "unset"},
    {.key = "checkpoint.every",
     .help = "how often a checkpoint goes to storage: 100 (steps), 30s, 5m, 1h or auto; the "
             "script's when unset"},
    {.key = "checkpoint.keep",
     .kind = kInteger,
     .help = "how many checkpoints stay in storage; the script's when unset",
     .minimum = 1,
     .maximum = 1'000'000},
    {.key = "network.rdzv_endpoint", .help = "HOST:PORT of the master"},
    {.key = "network.rdzv_conf", .help = "torchrun's k=v,… list"},
    {.key = "network.standalone",
     .kind = kOnOff,
     .default_text = "off",
     .help = "everything on this machine"},
    {.key = "network.node_rank",
     .kind = kInteger,
     .help = "number of this host",
     .maximum = 100'000},
    {.key = "network.master_addr", .help = "host of the master when rdzv_endpoint is unset"},
    {.key = "network.master_port",
     .kind = kInteger,
     .help = "its port, 29500 by default",
     .minimum = 1,
     .maximum = 65535},
    {.key = "network.local_addr", .help = "address by which other nodes reach this one"},
    {.key = "network.http_port",
     .kind = kInteger,
     .default_text = "0",
     .help = "port of the master's /metrics and /healthz; 0: any free one",
     .maximum = 65535},
    {.key = "network.node_name", .help = "name of this host in the job; the host name when unset"},
    {.key = "network.tls",
     .kind = kOnOff,
     .default_text = "off",
     .help = "encrypt with certificates of the job's own authority"},
    {.key = "network.insecure",
     .kind = kOnOff,
     .default_text = "off",
     .help = "listen on a non-loopback address without encryption"},
    {.key = "network.token_file", .help = "file with the job's token"},
    {.key = "network.relays",
     .kind = kList,
     .help =
         "HOST:PORT of hosts that forward other hosts' calls to the master; each of these hosts "
         "becomes a relay by itself, and all hosts need the same list"},
    {.key = "log.dir",
     .help = "ranks write to DIR/<job>/<node>/; logs/ of the run directory when unset"},
    {.key = "log.redirects",
     .default_text = "0",
     .help = "streams kept off the console: 0 none, 1 stdout, 2 stderr, 3 both"},
    {.key = "log.tee",
     .default_text = "0",
     .help = "streams shown on the console although redirected"},
    {.key = "log.prefix", .help = "line prefix on the console; 'node:rank| ' when unset"},
    {.key = "log.local_ranks_filter", .help = "local ranks shown on the console; unset: all"},
    {.key = "log.duplicate_stdout_filters",
     .kind = kList,
     .help = "stdout lines with one of these texts are copied to filtered_stdout.log"},
    {.key = "log.duplicate_stderr_filters", .kind = kList, .help = "the same for stderr"},
    {.key = "log.rules",
     .kind = kList,
     .help = "files with your own classes of failures; docs/guides/failure-classes.md"},
    {.key = "log.bytes_max",
     .kind = FlagKind::kSize,
     .default_text = "4GiB",
     .help = "largest size of a rank's log file, whose oldest bytes are freed; 0: no bound"},
    {.key = "log.total_bytes_max",
     .kind = FlagKind::kSize,
     .default_text = "16GiB",
     .help = "largest size of all logs of a job's ranks on a host; logs of the oldest worlds are "
             "removed first, never those of the first or the running one; 0: no bound"},
    {.key = "log.fold",
     .kind = kOnOff,
     .default_text = "on",
     .help = "show equal lines of several ranks once"},
    {.key = "check.run",
     .kind = kList,
     .help = "executables that each host must pass before it is seated, with one JSON line on "
             "standard output; docs/guides/checks.md"},
    {.key = "check.host",
     .kind = kOnOff,
     .default_text = "off",
     .help =
         "measure each host before it is seated (matmul, memory, disk, loopback), and leave out "
         "one that is much slower than the others; docs/guides/checks.md"},
    {.key = "check.timeout",
     .kind = FlagKind::kDuration,
     .default_text = "60s",
     .help = "a check that takes longer has failed",
     .zero_allowed = false},
    {.key = "slow.act",
     .kind = kChoice,
     .default_text = "tell",
     .help = "what to do about the one slow host of a world: tell, or replace (a spare takes its "
             "ranks after a checkpoint); docs/guides/slow.md",
     .choices = "tell|replace"},
    {.key = "slow.act_after",
     .kind = FlagKind::kDuration,
     .default_text = "50s",
     .help = "a host that is slow for a shorter time keeps its ranks"},
    {.key = "hang.act",
     .kind = kChoice,
     .default_text = "restart",
     .help = "what to do when the cause of a hang is certain; docs/guides/hangs.md",
     .choices = "restart|tell"},
    {.key = "hang.act_after",
     .kind = FlagKind::kDuration,
     .help = "when an absent rank is restarted; replaces each time of the last column in "
             "docs/guides/hangs.md, but not \"at once\", \"never\" or a time after an exception; "
             "the time of an unknown phase is never made shorter",
     .zero_allowed = false},
    {.key = "scale.mode",
     .kind = kChoice,
     .default_text = "advise",
     .help = "what to do with the measured speed of the job's sizes: advise (tell the best one), "
             "auto (change to it, too), off; docs/guides/scaling.md",
     .choices = "advise|auto|off"},
    {.key = "scale.efficiency_least",
     .kind = FlagKind::kNumber,
     .default_text = "0.6",
     .help =
         "speed that the last node must add, as a part of the first node's: above 0, at most 1"},
    {.key = "memory.node",
     .kind = kSize,
     .help = "memory that the ranks of a node may use, as 8GiB: the agent makes a cgroup for them "
             "where it may, and else only tells; no limit when unset; docs/guides/scaling.md",
     .minimum = int64_t{16} << 20},
    {.key = "memory.most",
     .kind = kSize,
     .help =
         "the limit of a node's own cgroup is raised up to this, before the kernel kills a rank "
         "there or after it; a kill at this limit ends the job; never raised when unset",
     .minimum = int64_t{16} << 20},
    {.key = "history.place",
     .help = "folder in which the master keeps what it measured of a job's sizes, for later runs "
             "of the same script; unset: $XDG_STATE_HOME/paceline; off: nothing is kept"},
    {.key = "notify.command",
     .kind = kList,
     .help = "program and arguments that the master runs on a failure, a hang, a recovery and the "
             "end of the job, with one JSON line on standard input; docs/guides/observability.md"},
    {.key = "notify.timeout",
     .kind = FlagKind::kDuration,
     .default_text = "10s",
     .help = "the command is killed after this time",
     .zero_allowed = false},
    {.key = "output.color",
     .kind = kChoice,
     .default_text = "auto",
     .help = "colours",
     .choices = "auto|always|never"},
    {.key = "output.no_progress", .kind = kOnOff, .default_text = "off", .help = "no live line"},
    {.key = "output.passthrough_exit",
     .kind = kOnOff,
     .default_text = "off",
     .help = "end with the exit code of the rank that failed first"},
};

struct TimerRow {
  std::string_view key;
  Duration Timers::*member;
  bool zero_allowed;
  std::string_view help;
};

constexpr TimerRow kTimers[] = {
    {"timers.heartbeat_interval", &Timers::heartbeat_interval, false,
     "how often an agent reports; stretched in very large jobs, see "
     "budgets.heartbeats_per_second_max"},
    {"timers.lost_after", &Timers::lost_after, false,
     "shortest silence after which a node counts as lost; the job waits up to lost_after_max if "
     "losing the node costs more; delays of the agent's own timers are added"},
    {"timers.lost_after_max", &Timers::lost_after_max, false,
     "longest silence before a node counts as lost, with the delays of the agent's own timers"},
    {"timers.reattach_window", &Timers::reattach_window, true,
     "how long a new master waits for the nodes of the running world, and a spare that it needs"},
    {"timers.join_window", &Timers::join_window, true,
     "once the minimum of nodes is there, how long the first world waits for more; also how long a "
     "node that was lost waits before the world grows by it, doubled each time"},
    {"timers.shrink_after", &Timers::shrink_after, true,
     "how long a world with too few nodes waits for one before it shrinks"},
    {"timers.start_timeout", &Timers::start_timeout, false,
     "all ranks of a world must run within this time"},
    {"timers.stop_grace", &Timers::stop_grace, true,
     "between SIGTERM and SIGKILL when a user or scheduler stops the job"},
    {"timers.kill_patience", &Timers::kill_patience, false,
     "a rank that still exists this long after SIGKILL is reported as stuck"},
    {"timers.restart_delay", &Timers::restart_delay, true,
     "after two failures without progress: least time between the starts of two worlds; doubles "
     "with each further failure; none with --max-restarts"},
    {"timers.restart_delay_max", &Timers::restart_delay_max, true, "bound of that time"},
    {"timers.restart_window", &Timers::restart_window, false,
     "failures further apart than this are not counted together"},
    {"timers.reconnect_delay", &Timers::reconnect_delay, false,
     "first pause between attempts to reach the master; doubles, with jitter"},
    {"timers.reconnect_delay_max", &Timers::reconnect_delay_max, false, "bound of that pause"},
    {"timers.connect_timeout", &Timers::connect_timeout, false,
     "how long a command or joining host waits for a master that does not answer"},
    {"timers.orphan_after", &Timers::orphan_after, false,
     "ranks are ended after this time without a master, or without their agent"},
    {"timers.finish_linger", &Timers::finish_linger, true,
     "how long the master still answers after the end of the job"},
    {"timers.storage_wait", &Timers::storage_wait, false,
     "how long a job that ends keeps trying to write its last step to storage that refuses it"},
    {"timers.settle", &Timers::settle, true,
     "on one machine: a node counts as gone if its agent and all its ranks die within this time"},
    {"timers.respawn_delay", &Timers::respawn_delay, true,
     "pause before a master or agent that died right after its start is started again; doubles"},
    {"timers.respawn_delay_max", &Timers::respawn_delay_max, true, "bound of that pause"},
};
static_assert(sizeof(kTimers) / sizeof(kTimers[0]) == sizeof(Timers) / sizeof(Duration),
              "every timer has a row");

struct BudgetRow {
  std::string_view key;
  uint32_t Budgets::*member;
  int64_t minimum;
  std::string_view help;
};

constexpr BudgetRow kBudgets[] = {
    {"budgets.no_progress_failures", &Budgets::no_progress_failures, 1,
     "the job stops after so many equal failures in a row without progress, or after two more of "
     "any kind; docs/failure-model.md"},
    {"budgets.node_restarts", &Budgets::node_restarts, 0,
     "restarts of a node's processes without progress before the node is replaced"},
    {"budgets.solo_generations", &Budgets::solo_generations, 0,
     "how often a node that holds the whole job may restart its ranks while no master runs"},
    {"budgets.heartbeats_per_second_max", &Budgets::heartbeats_per_second_max, 1,
     "heartbeats a second that the master accepts from all agents together; heartbeat_interval is "
     "stretched to fit"},
    {"budgets.unproven_connections_max", &Budgets::unproven_connections_max, 0,
     "most connections from one address that have not shown the job's token; one more closes the "
     "oldest. 0: 1,024; on loopback as many as the job may have agents"},
};
static_assert(sizeof(kBudgets) / sizeof(kBudgets[0]) == sizeof(Budgets) / sizeof(uint32_t),
              "every budget has a row");

std::vector<Setting> AllSettings() {
  std::vector<Setting> all;
  for (const PlainRow& row : kPlain) {
    all.push_back({.key = row.key,
                   .kind = row.kind,
                   .default_text = std::string(row.default_text),
                   .help = row.help,
                   .choices = row.choices,
                   .minimum = row.minimum,
                   .maximum = row.maximum,
                   .zero_allowed = row.zero_allowed});
  }
  const Timers timers;
  for (const TimerRow& row : kTimers) {
    all.push_back({.key = row.key,
                   .kind = FlagKind::kDuration,
                   .default_text = FormatDuration(timers.*row.member),
                   .help = row.help,
                   .zero_allowed = row.zero_allowed,
                   .timer = row.member});
  }
  const Budgets budgets;
  for (const BudgetRow& row : kBudgets) {
    all.push_back({.key = row.key,
                   .kind = kInteger,
                   .default_text = std::to_string(budgets.*row.member),
                   .help = row.help,
                   .minimum = row.minimum,
                   .maximum = std::numeric_limits<uint32_t>::max(),
                   .budget = row.member});
  }
  return all;
}

}  // namespace

std::string Setting::EnvironmentName() const {
  std::string name = "PACELINE_";
  for (const char c : key) {
    name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

std::span<const Setting> Settings() {
  static const std::vector<Setting>* const kAll = new std::vector<Setting>(AllSettings());
  return *kAll;
}

const Setting* FindSetting(std::string_view key) {
  const auto all = Settings();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Setting& s) { return s.key == key; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string_view> SettingKeys() {
  std::vector<std::string_view> keys;
  for (const Setting& setting : Settings()) keys.push_back(setting.key);
  return keys;
}

bool IsValueOf(const Setting& setting, std::string_view text, std::string* expected) {
  const Flag flag{.dest = setting.key, .kind = setting.kind, .choices = setting.choices};
  const bool has_form = IsValueOf(flag, text, expected);
  if (setting.kind == FlagKind::kDuration && !setting.zero_allowed) {
    *expected = Concat("a duration above 0, of at most ", kLongestDuration,
                       ", with its unit, such as 250ms, 30s or 5m");
  }
  if (!has_form) return false;
  if (setting.kind == FlagKind::kInteger) {
    const int64_t value = *ParseInteger(text);
    *expected = "a whole number of at least " + std::to_string(setting.minimum);
    if (setting.maximum < std::numeric_limits<int64_t>::max()) {
      *expected += " and at most " + std::to_string(setting.maximum);
    }
    return value >= setting.minimum && value <= setting.maximum;
  }
  if (setting.kind == FlagKind::kDuration && !setting.zero_allowed) {
    return *ParseDuration(text) > Duration();
  }
  return true;
}

}  // namespace paceline::cli

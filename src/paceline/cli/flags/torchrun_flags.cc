#include "paceline/cli/flags/torchrun_flags.h"

#include <utility>

#include "paceline/base/json.h"
#include "paceline/cli/run/flags.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

using enum FlagKind;
constexpr FlagOrigin kTorch = FlagOrigin::kTorchrun;

// In torchrun's order. `from_pet` is set where torchrun itself reads PET_*.
constexpr Flag kTorchrunFlags[] = {
    {.dest = "nnodes",
     .spellings = {"--nnodes"},
     .default_text = "1:1",
     .metavar = "N|MIN:MAX",
     .help = "nodes of the job, or the range within which it may grow and shrink (by multiples of "
             "the setting job.unit)",
     .origin = kTorch,
     .from_pet = true,
     .setting = "job.nnodes"},
    {.dest = "nproc_per_node",
     .spellings = {"--nproc-per-node", "--nproc_per_node"},
     .default_text = "1",
     .metavar = "N|auto|cpu|gpu|xpu",
     .help = "ranks on each node",
     .origin = kTorch,
     .from_pet = true,
     .setting = "job.nproc_per_node"},
    {.dest = "rdzv_backend",
     .spellings = {"--rdzv-backend", "--rdzv_backend"},
     .default_text = "static",
     .metavar = "NAME",
     .help = "accepted; the master forms every world",
     .origin = kTorch,
     .from_pet = true,
     .without_effect = "paceline's master forms every world itself"},
    {.dest = "rdzv_endpoint",
     .spellings = {"--rdzv-endpoint", "--rdzv_endpoint"},
     .default_text = "",
     .metavar = "HOST:PORT",
     .help = "address of the master; the host that owns it runs the master",
     .origin = kTorch,
     .from_pet = true,
     .setting = "network.rdzv_endpoint"},
    {.dest = "rdzv_id",
     .spellings = {"--rdzv-id", "--rdzv_id"},
     .default_text = "none",
     .metavar = "ID",
     .help = "name of the job; TORCHELASTIC_RUN_ID of the ranks",
     .origin = kTorch,
     .from_pet = true,
     .setting = "job.rdzv_id"},
    {.dest = "rdzv_conf",
     .spellings = {"--rdzv-conf", "--rdzv_conf"},
     .default_text = "",
     .metavar = "K=V,…",
     .help = "last_call_timeout sets timers.join_window, is_host says who runs "
             "the master; other keys have no effect",
     .origin = kTorch,
     .from_pet = true,
     .setting = "network.rdzv_conf"},
    {.dest = "standalone",
     .spellings = {"--standalone"},
     .kind = kSwitch,
     .help = "everything on this machine, no address needed",
     .origin = kTorch,
     .from_pet = true,
     .setting = "network.standalone"},
    {.dest = "max_restarts",
     .spellings = {"--max-restarts", "--max_restarts"},
     .kind = kInteger,
     .default_text = "0",
     .metavar = "N",
     .help = "hard cap on restarts; without it only failures without progress count",
     .origin = kTorch,
     .from_pet = true,
     .setting = "job.max_restarts"},
    {.dest = "monitor_interval",
     .spellings = {"--monitor-interval", "--monitor_interval"},
     .kind = kNumber,
     .default_text = "0.1",
     .metavar = "SECONDS",
     .help = "accepted; the end of a rank is seen at once",
     .origin = kTorch,
     .from_pet = true,
     .without_effect = "the end of a rank is an event here, nothing polls"},
    {.dest = "start_method",
     .spellings = {"--start-method", "--start_method"},
     .kind = kChoice,
     .default_text = "spawn",
     .metavar = "METHOD",
     .help = "accepted; the starter forks the ranks",
     .choices = "spawn|fork|forkserver",
     .origin = kTorch,
     .from_pet = true,
     .without_effect = "the warm starter forks the ranks"},
    {.dest = "event_log_handler",
     .spellings = {"--event-log-handler", "--event_log_handler"},
     .default_text = "null",
     .metavar = "NAME",
     .help = "accepted; see `paceline events`",
     .origin = kTorch,
     .from_pet = true,
     .without_effect = "events are in the journal"},
    {.dest = "role",
     .spellings = {"--role"},
     .default_text = "default",
     .metavar = "NAME",
     .help = "ROLE_NAME of the ranks",
     .origin = kTorch,
     .from_pet = true,
     .setting = "launch.role"},
    {.dest = "module",
     .spellings = {"-m", "--module"},
     .kind = kSwitch,
     .help = "the script is a module, as with python -m",
     .origin = kTorch,
     .from_pet = true},
    {.dest = "no_python",
     .spellings = {"--no-python", "--no_python"},
     .kind = kSwitch,
     .help = "the script is a program, run without Python",
     .origin = kTorch,
     .from_pet = true},
    {.dest = "run_path",
     .spellings = {"--run-path", "--run_path"},
     .kind = kSwitch,
     .help = "as a plain script: ranks never share the launcher's interpreter",
     .origin = kTorch,
     .from_pet = true},
    {.dest = "log_dir",
     .spellings = {"--log-dir", "--log_dir"},
     .metavar = "DIR",
     .help = "where the ranks' output goes instead of the run directory's logs/",
     .origin = kTorch,
     .from_pet = true,
     .setting = "log.dir"},
    {.dest = "redirects",
     .spellings = {"-r", "--redirects"},
     .default_text = "0",
     .metavar = "STREAMS",
     .help = "streams kept off the console: 0 none, 1 stdout, 2 stderr, 3 "
             "both, or by local rank 0:3,1:2",
     .origin = kTorch,
     .from_pet = true,
     .setting = "log.redirects"},
    {.dest = "tee",
     .spellings = {"-t", "--tee"},
     .default_text = "0",
     .metavar = "STREAMS",
     .help = "streams shown on the console although redirected",
     .origin = kTorch,
     .from_pet = true,
     .setting = "log.tee"},
    {.dest = "log_line_prefix_template",
     .spellings = {"--log-line-prefix-template", "--log_line_prefix_template"},
     .default_text = "",
     .metavar = "TEXT",
     .help = "instead of 'node:rank| '; macros "
             "${role_name} ${local_rank} ${rank} ${hostname}",
     .origin = kTorch,
     .from_pet = true,
     .setting = "log.prefix"},
    {.dest = "local_ranks_filter",
     .spellings = {"--local-ranks-filter", "--local_ranks_filter"},
     .default_text = "",
     .metavar = "N,…",
     .help = "show only these local ranks on the console",
     .origin = kTorch,
     .from_pet = true,
     .setting = "log.local_ranks_filter"},
    {.dest = "duplicate_stdout_filters",
     .spellings = {"--duplicate-stdout-filters", "--duplicate_stdout_filters"},
     .kind = kList,
     .default_text = "\x01[]",
     .metavar = "TEXT,…",
     .help = "copy stdout lines that contain one of these to filtered_stdout.log",
     .origin = kTorch,
     .from_pet = true,
     .setting = "log.duplicate_stdout_filters"},
    {.dest = "duplicate_stderr_filters",
     .spellings = {"--duplicate-stderr-filters", "--duplicate_stderr_filters"},
     .kind = kList,
     .default_text = "\x01[]",
     .metavar = "TEXT,…",
     .help = "the same for stderr",
     .origin = kTorch,
     .from_pet = true,
     .setting = "log.duplicate_stderr_filters"},
    {.dest = "node_rank",
     .spellings = {"--node-rank", "--node_rank"},
     .kind = kInteger,
     .default_text = "0",
     .metavar = "N",
     .help = "with --master-addr: number of this host, 0 runs the master",
     .origin = kTorch,
     .from_pet = true,
     .setting = "network.node_rank"},
    {.dest = "master_addr",
     .spellings = {"--master-addr", "--master_addr"},
     .default_text = "127.0.0.1",
     .metavar = "HOST",
     .help = "address of the master when there is no --rdzv-endpoint",
     .origin = kTorch,
     .from_pet = true,
     .setting = "network.master_addr"},
    {.dest = "master_port",
     .spellings = {"--master-port", "--master_port"},
     .kind = kInteger,
     .metavar = "PORT",
     .help = "its port, 29500 by default; MASTER_PORT of the ranks when it is given",
     .origin = kTorch,
     .from_pet = true,
     .setting = "network.master_port"},
    {.dest = "local_addr",
     .spellings = {"--local-addr", "--local_addr"},
     .metavar = "ADDRESS",
     .help = "address by which other nodes reach this one",
     .origin = kTorch,
     .from_pet = true,
     .setting = "network.local_addr"},
    {.dest = "logs_specs",
     .spellings = {"--logs-specs", "--logs_specs"},
     .kind = kChoice,
     .metavar = "NAME",
     .help = "only default: paceline writes and shows output itself; see the [log] settings",
     .choices = "default",
     .origin = kTorch},
    {.dest = "numa_binding",
     .spellings = {"--numa-binding", "--numa_binding"},
     .kind = kChoice,
     .metavar = "MODE",
     .help = "bind ranks to the cores near their device",
     .choices = "node|socket|exclusive|core-complex",
     .origin = kTorch,
     .setting = "launch.numa_binding"},
    {.dest = "signals_to_handle",
     .spellings = {"--signals-to-handle", "--signals_to_handle"},
     .default_text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     .metavar = "SIG,…",
     .help = "signals that stop the job; ranks get the one that came",
     .origin = kTorch,
     .from_pet = true,
     .setting = "launch.signals_to_handle"},
    {.dest = "shutdown_timeout",
     .spellings = {"--shutdown-timeout", "--shutdown_timeout"},
     .kind = kInteger,
     .metavar = "SECONDS",
     .help = "the same as --stop-grace, in seconds",
     .origin = kTorch,
     .from_pet = true,
     .setting = "timers.stop_grace"},
    {.dest = "virtual_local_rank",
     .spellings = {"--virtual-local-rank", "--virtual_local_rank"},
     .kind = kSwitch,
     .help = "LOCAL_RANK=0 and one visible device for every rank",
     .origin = kTorch,
     .from_pet = true,
     .setting = "launch.virtual_local_rank"},
    {.dest = "print_completion",
     .spellings = {"--print-completion", "--print_completion"},
     .kind = kChoice,
     .metavar = "SHELL",
     .help = "the same as `paceline completion SHELL`",
     .choices = "bash|zsh|tcsh|fish",
     .origin = kTorch},
};

constexpr Flag kGlobalFlags[] = {
    {.dest = "help", .spellings = {"-h", "--help"}, .kind = kSwitch, .help = "show this and end"},
    {.dest = "json",
     .spellings = {"--json"},
     .kind = kSwitch,
     .help = "data as JSON on stdout, errors too"},
    {.dest = "output",
     .spellings = {"-o", "--output"},
     .kind = kChoice,
     .metavar = "FORMAT",
     .help = "text, json, jsonl (one object a line), wide or plain (tabs)",
     .choices = "text|json|jsonl|wide|plain"},
    {.dest = "quiet",
     .spellings = {"-q", "--quiet"},
     .kind = kSwitch,
     .help = "no narration, only data and errors"},
    {.dest = "verbose",
     .spellings = {"-v", "--verbose"},
     .kind = kSwitch,
     .help = "more narration"},
    {.dest = "color",
     .spellings = {"--color"},
     .kind = kChoice,
     .metavar = "WHEN",
     .help = "auto, always or never",
     .choices = "auto|always|never",
     .setting = "output.color"},
    {.dest = "no_progress",
     .spellings = {"--no-progress"},
     .kind = kSwitch,
     .help = "no live line",
     .setting = "output.no_progress"},
};

nlohmann::json Typed(const Flag& flag, const std::string& text) {
  switch (flag.kind) {
    case FlagKind::kSwitch: return text == "1";
    case FlagKind::kInteger: return ParseInteger(text).value_or(0);
    case FlagKind::kNumber: return ParseNumber(text).value_or(0);
    case FlagKind::kList:
      if (text == "\x01[]") return nlohmann::json::array();
      return ParseCommaList(text);
    default: return text;
  }
}

Result<std::optional<std::string>> FromPet(const Flag& flag, const Environment& environment) {
  const std::string name = PetName(flag);
  const auto text = Lookup(environment, name);
  if (!text.has_value()) return std::optional<std::string>();
  std::string expected = "a whole number, 0 = off";
  if (flag.kind == FlagKind::kSwitch) {
    const auto number = ParseInteger(*text);
    if (number.has_value()) return std::optional<std::string>(*number != 0 ? "1" : "0");
  } else if (flag.kind == FlagKind::kChoice || IsValueOf(flag, *text, &expected)) {
    return text;  // argparse does not check a default against the choices
  }
  return Problem{.code = "PL-E015",
                 .what = name + " cannot be \"" + *text + "\"",
                 .where = "the environment variable " + name,
                 .why = "it takes " + expected,
                 .fix = "unset " + name + ", or give " + std::string(flag.spellings[0])};
}

}  // namespace

std::string PetName(const Flag& flag) {
  std::string name = "PET_";
  for (const char c : flag.dest)
    name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

FlagTable TorchrunFlags() { return kTorchrunFlags; }
FlagTable GlobalFlags() { return kGlobalFlags; }

Result<TorchrunNamespace> ResolveTorchrun(const ParsedLine& line, const Environment& environment) {
  TorchrunNamespace values;
  for (const Flag& flag : TorchrunFlags()) {
    const std::string dest(flag.dest);
    if (flag.default_text != kNoDefault) values[dest] = flag.default_text;
    if (flag.kind == FlagKind::kSwitch) values[dest] = "0";
    if (flag.from_pet) {
      auto text = FromPet(flag, environment);
      if (!text.ok()) return text.problem();
      if (text->has_value()) values[dest] = **text;
    }
    if (const Given* given = line.Find(dest)) {
      values[dest] = flag.kind == FlagKind::kSwitch ? "1" : given->value;
    }
  }
  return values;
}

std::string TorchrunNamespaceJson(const TorchrunNamespace& values,
                                  const std::vector<std::string>& positionals) {
  nlohmann::ordered_json json;
  for (const Flag& flag : TorchrunFlags()) {
    const auto found = values.find(std::string(flag.dest));
    json[std::string(flag.dest)] =
        found == values.end() ? nlohmann::json() : Typed(flag, found->second);
  }
  json["training_script"] =
      positionals.empty() ? nlohmann::json() : nlohmann::json(positionals.front());
  json["training_script_args"] = nlohmann::json::array();
  for (size_t i = 1; i < positionals.size(); ++i) {
    json["training_script_args"].push_back(positionals[i]);
  }
  return PrintJson(json);
}

Result<ParsedLine> ParseRunLine(const std::vector<std::string>& args) {
  const Grammar grammar{.command = "paceline run",
                        .tables = {TorchrunFlags(), RunFlags(), GlobalFlags()},
                        .stops_at_script = true,
                        .drops_separator = true};
  return ParseFlags(grammar, args);
}

}  // namespace paceline::cli

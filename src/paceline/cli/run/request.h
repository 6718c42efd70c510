#pragma once

// The complete, checked request of one `paceline run` on one host: the result of flags, environment
// and settings files. Making it reads only `facts` and two files (the script, the interpreter).
// run.cc carries it out.

#include <optional>
#include <string>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/flags/flag.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/settings/settings.h"
#include "paceline/model/job_spec.h"

namespace paceline::cli {

struct Endpoint {
  std::string host;
  uint16_t port = 0;  // 0: any free port
  bool operator==(const Endpoint&) const = default;
};

struct RunRequest {
  JobSpec spec;  // job_id is empty until the run directory is made
  LaunchSpec launch;

  // How this host takes part.
  uint32_t local_nodes = 1;            // agents to start here, spares not counted
  uint32_t local_spares = 0;           // further agents, if all nodes are on this machine
  std::optional<Endpoint> endpoint;    // unset: everything on this machine, loopback, free port
  std::optional<bool> is_master_host;  // unset: the host that owns the endpoint's address
  std::string node_name;               // "": node0 … on one machine, else the host name
  uint16_t http_port = 0;
  bool tls = false;
  bool insecure = false;
  std::string join;
  std::string token_file;
  std::string credentials;       // directory; a platform starts the nodes
  uint32_t incarnation = 0;      // of this host's node, under a platform
  uint64_t term = 0;             // of the master that is started here, by the platform's count
  uint32_t survivors = 0;        // living nodes of the job when the master starts
  std::string memo;              // kept by the platform, of the masters before
  Duration platform_grace;       // from a platform's SIGTERM to its SIGKILL; 0: it said nothing
  std::vector<Endpoint> relays;  // also in launch, as text

  std::string run_dir;  // "": ./runs/<job-id>
  bool resume = false;
  bool detach = false;
  bool passthrough_exit = false;
  std::vector<int> stop_signals;  // numbers; SIGINT and SIGTERM are always among them

  // Notes for stderr, such as a list of accepted flags that have no effect.
  std::vector<std::string> notes;
};

Result<RunRequest> MakeRunRequest(const ParsedLine& line, const SettingValues& settings,
                                  const Environment& environment, const HostFacts& facts);

// The signals that end a job: SIGINT and SIGTERM always, then those of `names`, with commas between
// them. Nothing if one is unknown.
std::optional<std::vector<int>> ParseStopSignals(std::string_view names);

// "host:29400", "host", "[::1]:29400", "::1". The flag is for the error.
Result<Endpoint> ParseEndpoint(const std::string& text, uint16_t default_port,
                               std::string_view flag = "--rdzv-endpoint");

// "host:29400", "[::1]:29400".
std::string ToText(const Endpoint& endpoint);

// torchrun's Std: "3" or "0:3,1:2".
std::optional<StreamChoice> ParseStreams(std::string_view text);

// As torch reads a yes or no of --rdzv-conf.
std::optional<bool> ParseTorchBool(std::string text);

// "torch", "torch.distributed"; Python itself decides about letters beyond ASCII.
bool IsModuleName(const std::string& text);

// The nearest text that is a name; see wire::IsName.
std::string ToName(std::string_view text);

}  // namespace paceline::cli

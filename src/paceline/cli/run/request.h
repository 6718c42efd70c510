#pragma once

// What one `paceline run` on one host was asked to do, complete and checked: the result of flags,
// environment and settings files. Making it is pure but for `facts` and two looks at the file
// system (the script, the interpreter); carrying it out is run.cc's part.

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
  JobSpec spec;  // job_id is still empty: the one who makes the run directory gives it
  LaunchSpec launch;

  // How this host takes part.
  uint32_t local_nodes = 1;            // agents to start here, spares not counted
  uint32_t local_spares = 0;           // agents more when all nodes are on this machine
  std::optional<Endpoint> endpoint;    // unset: everything on this machine, loopback, free port
  std::optional<bool> is_master_host;  // unset: whoever owns the endpoint's address
  std::string node_name;               // "": node0 … on one machine, else the host name
  uint16_t http_port = 0;
  bool tls = false;
  bool insecure = false;
  std::string join;
  std::string token_file;
  std::string credentials;       // directory; a platform starts the nodes
  uint32_t incarnation = 0;      // of this host's node then
  uint64_t term = 0;             // of the master that is started here, as its platform counts them
  uint32_t survivors = 0;        // nodes of the job that live then
  std::vector<Endpoint> relays;  // also in launch, as text

  std::string run_dir;  // "": ./runs/<job-id>
  bool resume = false;
  bool detach = false;
  bool passthrough_exit = false;
  std::vector<int> stop_signals;  // numbers; SIGINT and SIGTERM are always among them

  // Sentences for stderr, such as the one about flags that were accepted without an effect.
  std::vector<std::string> notes;
};

Result<RunRequest> MakeRunRequest(const ParsedLine& line, const SettingValues& settings,
                                  const Environment& environment, const HostFacts& facts);

// "host:29400", "host", "[::1]:29400", "::1".
Result<Endpoint> ParseEndpoint(const std::string& text, uint16_t default_port);

// "host:29400", "[::1]:29400".
std::string ToText(const Endpoint& endpoint);

// torchrun's Std: "3" or "0:3,1:2".
std::optional<StreamChoice> ParseStreams(std::string_view text);

// The nearest text that is a name; see wire::IsName.
std::string ToName(std::string_view text);

}  // namespace paceline::cli

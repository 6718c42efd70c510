#include "paceline/cli/run/lease_keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "paceline/agent/agent_setup.h"
#include "paceline/agent/leases/lease_relay.h"
#include "paceline/base/fd.h"
#include "paceline/base/host_text.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/master/leases/lease_host.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::cli {
namespace {

// Returns when the process has ended.
void Await(const agent::ProcessId& process) {
  const Fd pidfd = agent::OpenPidfd(process);
  if (!pidfd.is_open()) return;
  pollfd ended{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
}

}  // namespace

absl::StatusOr<int> RunLeaseKeeper(const LeaseKeeperOptions& options) {
  agent::BlockAgentSignals();
  const Fd lock(::open((options.socket + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::AlreadyExistsError(Concat("another keeper holds ", options.socket, ".lock"));
  }
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) return absl::InternalError(Concat(options.folder, ": ", error.message()));
  wire::Credentials own;
  own.token = wire::MakeToken();
  wire::ServerCredentials served;
  served.token = own.token;
  const std::string loopback = Bracketed(LoopbackHost());
  ASSIGN_OR_RETURN(const auto host, master::LeaseHost::Start({.path = options.folder + "/data.db",
                                                              .job = options.job_id,
                                                              .listen = Concat(loopback, ":0"),
                                                              .is_insecure = false,
                                                              .credentials = served}));
  ASSIGN_OR_RETURN(const auto relay, agent::LeaseRelay::Start({options.socket, own}));
  relay->SetMaster(Concat(loopback, ":", host->port()));
  Await(options.launcher);
  LogInfo("launcher_ended", {{"pid", options.launcher.pid}});
  return 0;
}

}  // namespace paceline::cli

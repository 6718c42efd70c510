// `paceline doctor`: finds what on this host would disturb a job, before a job is started. Every
// check is a function that returns a finding or nothing; to add one, write it and add it to the
// list.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/agent/ranks/gloo_interface.h"
#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/doctor/measure.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/run/interpreter.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

constexpr Flag kDoctorFlags[] = {
    {.dest = "measure",
     .spellings = {"--measure"},
     .kind = FlagKind::kSwitch,
     .help = "only measure matmul, memory, disk and loopback, and print one JSON line, as the "
             "check of `run --node-check` does"},
};

struct Host {
  const Environment& environment;
  const SettingValues& settings;
  HostFacts facts;
  Result<std::string> python;
};

using HostCheck = Check (*)(const Host& host);

Check OpenFiles(const Host& host) {
  constexpr rlim_t kEnough = 4096;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnough) return std::nullopt;
  return Problem{.code = "PL-W001",
                 .what = "only " + std::to_string(limit.rlim_cur) + " files may be open",
                 .where = host.facts.host_name,
                 .why = "a rank with DataLoader workers needs hundreds",
                 .fix = "ulimit -n 65536"};
}

Check Processes(const Host& host) {
  rlimit limit{};
  const rlim_t enough = 256 + 64 * static_cast<rlim_t>(host.facts.cpu_count);
  if (getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur >= enough) return std::nullopt;
  return Problem{.code = "PL-W007",
                 .what = "only " + std::to_string(limit.rlim_cur) + " processes may run",
                 .where = host.facts.host_name,
                 .why = "threads count too",
                 .fix = "ulimit -u " + std::to_string(enough)};
}

Check SharedMemory(const Host& host) {
  constexpr uint64_t kEnough = uint64_t{1} << 30;
  struct statvfs status {};
  if (statvfs("/dev/shm", &status) != 0) {
    return Problem{.code = "PL-W002",
                   .what = "/dev/shm is missing",
                   .where = host.facts.host_name,
                   .why = "DataLoader workers pass batches through it",
                   .fix = "mount -t tmpfs tmpfs /dev/shm"};
  }
  const uint64_t bytes = uint64_t{status.f_blocks} * status.f_frsize;
  if (bytes >= kEnough) return std::nullopt;
  return Problem{.code = "PL-W002",
                 .what = "/dev/shm holds only " + std::to_string(bytes >> 20) + " MiB",
                 .where = host.facts.host_name,
                 .why = "a full /dev/shm kills ranks with SIGBUS",
                 .fix = "mount -o remount,size=8G /dev/shm, or docker run --shm-size=8g"};
}

// A job without a Checkpointer is not affected, so this is only a warning.
Check ArenaHome(const Host& host) {
  const std::string home = Concat("/dev/shm/paceline-", ::geteuid());
  const std::string why = agent::WhatIsWrongWithHome(home);
  if (why.empty()) return std::nullopt;
  return Problem{.code = "PL-W010",
                 .what = "checkpoints in memory go to another folder than usual",
                 .where = host.facts.host_name,
                 .why = why,
                 .fix = "have " + home + " removed by its owner or by root"};
}

Check WorkingDirectory(const Host& host) {
  if (host.facts.cwd_writable) return std::nullopt;
  return Problem{.code = "PL-W005",
                 .what = "the current directory is not writable",
                 .where = host.facts.cwd,
                 .why = "run directories are made in ./runs",
                 .fix = "cd elsewhere, or paceline run --run-dir DIR"};
}

Check RuntimeDir(const Host& host) {
  return CheckRuntimeDirectory(RuntimeDirectory(host.environment));
}

Check ClockCheck(const Host& host) {
  timex state{};
  if (adjtimex(&state) != TIME_ERROR || (state.status & STA_UNSYNC) == 0) return std::nullopt;
  return Problem{.code = "PL-W004",
                 .what = "the clock is not synchronised",
                 .where = host.facts.host_name,
                 .why = "the kernel says so; on one host alone it does no harm",
                 .fix = "timedatectl set-ntp true"};
}

// The port of a world's store is bound without listening, below the ephemeral range.
Check Ports(const Host& host) {
  const std::string range = ReadText("/proc/sys/net/ipv4/ip_local_port_range", 64);
  const int lowest = std::atoi(range.c_str());
  const int first = 10'000;
  const int last = lowest > first && lowest <= 65535 ? lowest - 1 : 32'767;
  for (int port = last; port >= first; port -= 97) {
    const Fd socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    if (bind(socket_fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      return std::nullopt;
    }
  }
  return Problem{.code = "PL-W006",
                 .what = "no port is free below the ephemeral range",
                 .where = host.facts.host_name,
                 .why = "ip_local_port_range begins at " + std::to_string(lowest),
                 .fix = "sysctl net.ipv4.ip_local_port_range='32768 60999'"};
}

// Ranks get GLOO_SOCKET_IFNAME from their agent, so this disturbs only what is started otherwise.
Check HostNameCheck(const Host& host) {
  if (!agent::GlooChoice(host.facts.host_name).empty()) return std::nullopt;
  return Problem{.code = "PL-W011",
                 .what = "the host's own name leads to no address of this host",
                 .where = host.facts.host_name,
                 .why =
                     "gloo looks its address up by that name; `paceline run` names it the "
                     "interface instead, other launchers do not",
                 .fix = "add the name to /etc/hosts, with the address that other hosts use"};
}

Check Interpreter(const Host& host) {
  return host.python.ok() ? std::nullopt : Check(host.python.problem());
}

Check Torch(const Host& host) {
  if (!host.python.ok() || HasModule(*host.python, "torch")) return std::nullopt;
  return Problem{.code = "PL-W003",
                 .what = "torch cannot be imported",
                 .where = *host.python,
                 .why = "the interpreter has no such package",
                 .fix = *host.python + " -m pip install torch"};
}

Check Package(const Host& host) {
  if (!host.python.ok() || HasModule(*host.python, "paceline")) return std::nullopt;
  return Problem{.code = "PL-W009",
                 .what = "the paceline package is not in this interpreter",
                 .where = *host.python,
                 .why = "the starter and the rank bootstrap are Python modules",
                 .fix = "install paceline into it, or set launch.python"};
}

struct NamedCheck {
  std::string_view name;
  HostCheck check;
};

constexpr NamedCheck kChecks[] = {
    {"open files", OpenFiles},
    {"processes", Processes},
    {"/dev/shm", SharedMemory},
    {"memory folder", ArenaHome},
    {"current directory", WorkingDirectory},
    {"runtime dir", RuntimeDir},
    {"clock", ClockCheck},
    {"ports", Ports},
    {"host name", HostNameCheck},
    {"python", Interpreter},
    {"torch", Torch},
    {"package", Package},
};

}  // namespace

FlagTable DoctorFlags() { return kDoctorFlags; }

int RunDoctor(Invocation& invocation) {
  if (invocation.line.Has("measure")) return MeasureHost(invocation);
  Output& out = invocation.out;
  const HostFacts facts = ReadHostFacts(invocation.environment);
  const Host host{.environment = invocation.environment,
                  .settings = invocation.settings,
                  .facts = facts,
                  .python = FindInterpreter(invocation.environment, invocation.settings, facts)};
  nlohmann::ordered_json json;
  json["schema"] = "paceline.doctor/1";
  json["findings"] = nlohmann::json::array();
  size_t findings = 0;
  for (const NamedCheck& row : kChecks) {
    const Check problem = row.check(host);
    if (!problem.has_value()) {
      if (!out.is_json()) out.Detail("✓ " + std::string(row.name));
      continue;
    }
    ++findings;
    if (out.is_json()) {
      json["findings"].push_back(ParseOrderedJson(RenderProblemJson(*problem)));
    } else {
      out.Data(RenderProblem(*problem,
                             {.color = out.options().color_stdout,
                              .severity = problem->code.starts_with("PL-W") ? "warn" : "error"}));
    }
  }
  const size_t passed = std::size(kChecks) - findings;
  json["passed"] = passed;
  if (out.is_json()) {
    out.DataLine(PrintJson(json));
  } else {
    out.DataLine(Concat(Counted(findings, "finding"), ", ", Counted(passed, "check"), " passed"));
  }
  return findings == 0 ? kExitDone : kExitFindings;
}

}  // namespace paceline::cli

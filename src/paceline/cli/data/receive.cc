// `paceline receive`: takes records from Spark, Ray and other programs, for training jobs. Arrow
// Flight has no C++ library in the distributions, so the receiver is Python
// (python/paceline/receiver) and runs in the interpreter beside the program.

#include <string>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/tool.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/run/interpreter.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

constexpr Flag kReceiveFlags[] = {
    {.dest = "dir",
     .spellings = {"--dir"},
     .default_text = "inbox",
     .metavar = "DIR",
     .help = "where the records are kept, and the token that clients need"},
    {.dest = "partitions",
     .spellings = {"--partitions"},
     .kind = FlagKind::kInteger,
     .default_text = "16",
     .metavar = "N",
     .help = "partitions of a new stream: as many workers can read it at once",
     .minimum = 1,
     .maximum = 4096},
    {.dest = "cert",
     .spellings = {"--cert"},
     .metavar = "FILE",
     .help = "certificate for TLS, in PEM; needed at an address that is not loopback"},
    {.dest = "key", .spellings = {"--key"}, .metavar = "FILE", .help = "its private key, in PEM"},
    {.dest = "free",
     .spellings = {"--free"},
     .kind = FlagKind::kSize,
     .default_text = "1GiB",
     .metavar = "SIZE",
     .help = "free space on the disk below which writers wait"},
    {.dest = "keep",
     .spellings = {"--keep"},
     .kind = FlagKind::kDuration,
     .default_text = "never",
     .metavar = "TIME",
     .help = "remove rows that were committed longer ago; never by default"},
};

Problem NoAddress() {
  return {.code = "PL-E220",
          .what = "the receiver needs an address",
          .where = "the command line",
          .why = "paceline receive got none, or one without a port",
          .fix = "paceline receive 127.0.0.1:8815 --dir inbox"};
}

bool HasPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const auto port = ParseInteger(address.substr(colon + 1));
  return port.has_value() && *port >= 0 && *port <= 65535;
}

}  // namespace

FlagTable ReceiveFlags() { return kReceiveFlags; }

int RunReceive(Invocation& invocation) {
  Output& out = invocation.out;
  const ParsedLine& line = invocation.line;
  if (line.positionals.empty() || !HasPort(line.positionals.front())) return out.Fail(NoAddress());
  auto python = FindInterpreter(invocation.environment, invocation.settings,
                                ReadHostFacts(invocation.environment));
  if (!python.ok()) return out.Fail(python.problem());
  if (!HasModule(*python, "pyarrow")) {
    return out.Fail({.code = "PL-E220",
                     .what = "the receiver cannot start",
                     .where = *python,
                     .why = "the package pyarrow is not installed: records travel by Arrow Flight",
                     .fix = "pip install 'paceline[flight]'"});
  }
  std::vector<std::string> argv = {*python, "-m", "paceline.receiver", line.positionals.front()};
  argv.insert(argv.end(), {"--dir", line.Text("dir", "inbox")});
  for (const char* flag : {"partitions", "cert", "key"}) {
    const std::string value = line.Text(flag);
    if (!value.empty()) argv.insert(argv.end(), {Concat("--", flag), value});
  }
  const auto free = ParseSize(line.Text("free", "1GiB"));
  argv.insert(argv.end(), {"--free", Concat(free.value_or(0))});
  const Duration keep = ParseDuration(line.Text("keep", "never")).value_or(Duration::Infinite());
  if (keep < Duration::Infinite()) {
    argv.insert(argv.end(), {"--keep", Concat(keep.nanoseconds() / 1'000'000'000)});
  }
  return out.Fail(BecomeTool(argv, invocation.environment));
}

}  // namespace paceline::cli

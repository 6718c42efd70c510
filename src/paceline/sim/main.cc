#include "paceline/sim/main.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>
#include <string_view>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/sim/fault/fault.h"
#include "paceline/sim/lease/lease_swarm.h"
#include "paceline/sim/swarm/bench.h"
#include "paceline/sim/swarm/canary.h"
#include "paceline/sim/swarm/shrink.h"
#include "paceline/sim/table/table_swarm.h"

#ifndef PACELINE_VERSION
#define PACELINE_VERSION "unknown"
#endif
#ifndef PACELINE_COMMIT
#define PACELINE_COMMIT "unknown"
#endif

namespace paceline::sim {
namespace {

constexpr char kHelp[] =
    R"(usage: paceline sim [flags]

Runs the control plane in simulated clusters. The same seed does the same, always.

  --seed S             first seed (default 1)
  --seeds N            how many seeds (default 1)
  --cpu-seconds T      stop drawing new seeds after this much CPU time
  --until T            faults end after T simulated seconds
  --fault A,B          only these kinds of faults
  --without A,B        none of these kinds
  --keep 0,3           of the strikes that are left, only these
  --nodes N            at most N hosts
  --crash-at-record R  the master dies when record R becomes durable
  --saves on|off       scripts with a Checkpointer, or none (default: a third of the seeds)
  --log full           one line an event, on stdout
  --shrink             make a failing run smaller
  --canary NAME|all    plant a bug; it must be found
  --marks              list the situations that no seed reached
  --list               faults, checks and canaries
  --bench              how fast it is
  --leases             worlds of leased data instead; docs/guides/simulator.md has their flags
  --tables             worlds of table servers whose partitions move
)";

struct Flags {
  uint64_t seed = 1;
  uint64_t seeds = 1;
  double cpu_seconds = 0;
  Overrides overrides;
  std::string canary;
  bool logs = false;
  bool shrinks = false;
  bool shows_marks = false;
  bool lists = false;
  bool benches = false;
  bool helps = false;
};

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> words(1);
  for (char c : text) {
    if (c == ',') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// Returns the error, or "".
std::string ReadFaults(const std::string& value, std::vector<std::string>& names) {
  names = SplitAtCommas(value);
  for (const std::string& name : names) {
    if (FaultIndex(name) == AllFaults().size()) return "no fault is called " + name;
  }
  return {};
}

std::string ReadKeep(const std::string& value, Overrides& overrides) {
  overrides.keep.emplace();
  if (value == "none") return {};
  for (const std::string& word : SplitAtCommas(value)) {
    const std::optional<uint64_t> number = ParseWhole<uint64_t>(word);
    if (!number.has_value()) return "--keep wants numbers, not " + word;
    overrides.keep->push_back(static_cast<size_t>(*number));
  }
  return {};
}

std::string ReadNumber(const std::string& flag, const std::string& value, Flags& flags) {
  const std::optional<uint64_t> number = ParseWhole<uint64_t>(value);
  if (!number.has_value()) return flag + " wants a number, not " + value;
  if (flag == "--seed") flags.seed = *number;
  if (flag == "--seeds") flags.seeds = *number;
  if (flag == "--cpu-seconds") flags.cpu_seconds = static_cast<double>(*number);
  if (flag == "--until") flags.overrides.until = Duration::Seconds(static_cast<int64_t>(*number));
  if (flag == "--nodes") flags.overrides.nodes = static_cast<uint32_t>(*number);
  if (flag == "--crash-at-record") flags.overrides.crash_at_record = *number;
  return {};
}

std::string ReadValue(const std::string& flag, const std::string& value, Flags& flags) {
  if (flag == "--fault") return ReadFaults(value, flags.overrides.only);
  if (flag == "--without") return ReadFaults(value, flags.overrides.without);
  if (flag == "--keep") return ReadKeep(value, flags.overrides);
  if (flag == "--log") {
    flags.logs = value == "full";
    return flags.logs || value == "none" ? "" : "--log is full or none";
  }
  if (flag == "--saves") {
    if (value != "on" && value != "off") return "--saves is on or off";
    flags.overrides.saves = value == "on";
    return {};
  }
  if (flag == "--canary") {
    flags.canary = value;
    if (value == "all") return {};
    const std::optional<Canary> canary = CanaryByName(value);
    if (!canary.has_value()) return "no canary is called " + value;
    flags.overrides.canary = *canary;
    return {};
  }
  for (const char* name :
       {"--seed", "--seeds", "--cpu-seconds", "--until", "--nodes", "--crash-at-record"}) {
    if (flag == name) return ReadNumber(flag, value, flags);
  }
  return "there is no flag " + flag;
}

std::string Parse(const std::vector<std::string>& args, Flags& flags) {
  const std::map<std::string, bool Flags::*> switches = {
      {"--shrink", &Flags::shrinks}, {"--marks", &Flags::shows_marks}, {"--list", &Flags::lists},
      {"--bench", &Flags::benches},  {"--help", &Flags::helps},        {"-h", &Flags::helps}};
  for (size_t i = 0; i < args.size(); ++i) {
    std::string flag = args[i];
    const auto it = switches.find(flag);
    if (it != switches.end()) {
      flags.*(it->second) = true;
      continue;
    }
    std::string value;
    const size_t equals = flag.find('=');
    if (equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    } else if (++i < args.size()) {
      value = args[i];
    } else {
      return flag + " wants a value";
    }
    const std::string wrong = ReadValue(flag, value, flags);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

void List() {
  std::printf("faults\n");
  for (const Fault& fault : AllFaults()) {
    std::printf("  %-24s %s\n", std::string(fault.name).c_str(),
                std::string(fault.sentence).c_str());
  }
  std::printf("checks\n");
  for (const CheckEntry& check : AllChecks()) {
    std::printf("  %-24s %s\n", std::string(check.name).c_str(),
                std::string(check.promise).c_str());
  }
  std::printf("  %-24s %s\n", "same_seed_same_trace",
              "1 seed in 20 runs twice, with the same trace");
  std::printf("  %-24s %s\n", "one_state",
              "a restore gives all ranks the exact state of one step, or an error");
  std::printf("  %-24s %s\n", "held_stays",
              "an image that a rank was told in time to keep exists when it is written to storage");
  std::printf("  %-24s %s\n", "end_stores_newest",
              "no memory is freed before its newest complete step is in storage");
  std::printf(
      "  %-24s %s\n", "liveness",
      "after all faults are healed, the job makes steps, or Pending() says what is missing");
  std::printf("canaries\n");
  for (const CanaryEntry& canary : AllCanaries()) {
    std::printf("  %-24s %s\n", std::string(canary.name).c_str(), std::string(canary.bug).c_str());
  }
}

// A mark may be in several places. It counts as reached if each of them was.
void ListMarks() {
  size_t reached = 0;
  std::printf("marks never reached:\n");
  for (const Mark* mark : AllMarks()) {
    if (mark->hits.load() > 0) {
      ++reached;
    } else {
      std::printf("  %-40s %s:%d\n", mark->name, mark->file, mark->line);
    }
  }
  std::printf("%zu of %zu marks were reached\n", reached, AllMarks().size());
}

void Introduce(uint64_t seed, const Overrides& overrides) {
  const Options options = Draw(seed, overrides);
  std::printf("seed %" PRIu64 "  paceline %s, commit %s\n  %s\n", seed, PACELINE_VERSION,
              PACELINE_COMMIT, Describe(options).c_str());
  for (const Strike& strike : options.strikes) {
    std::printf("  %8.3f s  %s\n", static_cast<double>(strike.at.nanoseconds()) / 1e9,
                std::string(AllFaults()[strike.fault].name).c_str());
  }
}

void ReportFailure(uint64_t seed, const Flags& flags, const Violation& violation) {
  std::printf("FAILED %s at %.6f s: %s\n", violation.check.c_str(),
              static_cast<double>(violation.at.nanoseconds()) / 1e9, violation.what.c_str());
  Overrides overrides = flags.overrides;
  if (flags.shrinks) {
    const Shrunk shrunk = Shrink(seed, overrides, violation);
    std::printf("smaller after %u runs:\n", shrunk.run_count);
    overrides = shrunk.overrides;
    Introduce(seed, overrides);
    std::printf("FAILED %s at %.6f s: %s\n", shrunk.violation.check.c_str(),
                static_cast<double>(shrunk.violation.at.nanoseconds()) / 1e9,
                shrunk.violation.what.c_str());
  }
  std::printf("repeat: %s --log full\n", CommandLine(seed, overrides).c_str());
}

int RunOneSeed(const Flags& flags) {
  Introduce(flags.seed, flags.overrides);
  const Outcome outcome = RunSeed(flags.seed, flags.overrides, flags.logs ? stdout : nullptr);
  std::printf("%s after %.3f s: %" PRIu64 " tasks, %" PRIu64 " records, generation %" PRIu64
              ", trace %016" PRIx64 ", random %016" PRIx64 "\n  %s\n",
              outcome.violation.has_value() ? "failed" : "passed",
              static_cast<double>(outcome.end.nanoseconds()) / 1e9, outcome.task_count,
              outcome.record_count, outcome.world_count, outcome.trace_hash, outcome.last_random,
              outcome.end_reason.c_str());
  if (flags.shows_marks) ListMarks();
  if (!outcome.violation.has_value()) return 0;
  ReportFailure(flags.seed, flags, *outcome.violation);
  return kFindings;
}

int RunSwarm(const Flags& flags) {
  const std::clock_t begin = std::clock();
  std::map<std::string, uint64_t> failures;
  uint64_t failed = 0;
  uint64_t seed = flags.seed;
  double simulated = 0;
  for (; seed < flags.seed + flags.seeds; ++seed) {
    const double spent = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (flags.cpu_seconds > 0 && spent > flags.cpu_seconds) break;
    const Outcome outcome = RunSeed(seed, flags.overrides, nullptr);
    simulated += static_cast<double>(outcome.end.nanoseconds()) / 1e9;
    if (!outcome.violation.has_value()) continue;
    ++failures[outcome.violation->check];
    if (++failed > kReportsMax) continue;
    Introduce(seed, flags.overrides);
    ReportFailure(seed, flags, *outcome.violation);
    std::fflush(stdout);
  }
  const double spent = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  if (flags.shows_marks) ListMarks();
  std::printf("paceline %s, commit %s\n", PACELINE_VERSION, PACELINE_COMMIT);
  std::printf("seeds %" PRIu64 " to %" PRIu64 ": %" PRIu64 " failed; %.0f s simulated in %.1f s\n",
              flags.seed, seed == 0 ? 0 : seed - 1, failed, simulated, spent);
  for (const auto& [check, count] : failures) {
    std::printf("  %-24s %" PRIu64 "\n", check.c_str(), count);
  }
  return failed == 0 ? 0 : kFindings;
}

// True if the planted bug is found within a bounded number of seeds.
bool IsCaught(const Flags& flags, const CanaryEntry& entry) {
  Overrides overrides = flags.overrides;
  overrides.canary = entry.canary;
  if (overrides.only.empty()) overrides.only.assign(entry.faults.begin(), entry.faults.end());
  for (uint64_t i = 0; i < kCanarySeedsMax; ++i) {
    const Outcome outcome = RunSeed(flags.seed + i, overrides, nullptr);
    if (!outcome.violation.has_value()) continue;
    std::printf("%-24s found by %-20s after %3" PRIu64 " seeds: %s\n",
                std::string(entry.name).c_str(), outcome.violation->check.c_str(), i + 1,
                CommandLine(flags.seed + i, overrides).c_str());
    return true;
  }
  std::printf("%-24s NOT FOUND in %" PRIu64 " seeds\n", std::string(entry.name).c_str(),
              kCanarySeedsMax);
  return false;
}

int RunCanaries(const Flags& flags) {
  bool all_caught = true;
  for (const CanaryEntry& entry : AllCanaries()) all_caught &= IsCaught(flags, entry);
  return all_caught ? 0 : kFindings;
}

}  // namespace

std::string_view HelpOfSim() { return kHelp; }

int RunSimCommand(const std::vector<std::string>& args, std::string* wrong) {
  const bool is_of_leases = std::find(args.begin(), args.end(), "--leases") != args.end();
  if (is_of_leases) return RunLeaseCommand(args, wrong);
  const bool is_of_tables = std::find(args.begin(), args.end(), "--tables") != args.end();
  if (is_of_tables) return RunTableCommand(args, wrong);
  Flags flags;
  *wrong = Parse(args, flags);
  if (!wrong->empty()) return kUsage;
  if (flags.helps) {
    std::printf("%s", kHelp);
    return 0;
  }
  if (flags.lists) {
    List();
    return 0;
  }
  if (flags.benches) {
    RunSimBench(flags.overrides.nodes.value_or(1'000), flags.seeds > 1 ? flags.seeds : 500);
    return 0;
  }
  if (flags.canary == "all") return RunCanaries(flags);
  return flags.seeds == 1 ? RunOneSeed(flags) : RunSwarm(flags);
}

}  // namespace paceline::sim

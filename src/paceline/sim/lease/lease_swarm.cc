#include "paceline/sim/lease/lease_swarm.h"

#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <optional>
#include <string_view>

#include "paceline/base/text.h"
#include "paceline/sim/lease/stream_world.h"
#include "paceline/sim/main.h"

namespace paceline::sim {
namespace {

constexpr std::string_view kLeaseCanaryNames[] = {"none",        "confirm_early", "lose_facts",
                                                  "count_stale", "no_rewind",     "uneven_shares",
                                                  "other_order"};
static_assert(std::size(kLeaseCanaryNames) == kLeaseCanaries);
constexpr std::string_view kStreamCanaryNames[] = {"none", "held_twice", "read_past_recall"};
static_assert(std::size(kStreamCanaryNames) == kStreamCanaries);

constexpr char kLeaseHelp[] =
    R"(usage: paceline sim --leases [flags]

Runs the ledger of leased data against late disks, broken links and workers that die and freeze.

  --seed S             first seed (default 1)
  --seeds N            how many seeds (default 1)
  --cpu-seconds T      stop drawing new seeds after this much CPU time
  --faulty-steps N     nothing fails any more after N steps (default 3000)
  --without A,B        none of these kinds of faults: crash, link, freeze, die, return
  --canary NAME|all    plant a bug: confirm_early, lose_facts, count_stale, no_rewind,
                       uneven_shares, other_order; with --streams: held_twice,
                       read_past_recall
  --streams            live streams, whose partitions grow, instead of data of a fixed size
  --shrink             make a failing world smaller
)";

struct LeaseFlags {
  uint64_t seed = 1;
  uint64_t seeds = 1;
  uint64_t cpu_seconds = 0;
  LeaseLimits limits;
  LeaseCanary canary = LeaseCanary::kNone;
  StreamCanary stream_canary = StreamCanary::kNone;
  bool streams = false;
  bool is_all_canaries = false;
  bool shrinks = false;
  bool helps = false;
};

template <class Names>
std::optional<size_t> Find(const Names& names, std::string_view name) {
  for (size_t i = 0; i < std::size(names); ++i) {
    if (names[i] == name) return i;
  }
  return std::nullopt;
}

// Returns the error in a flag, or "".
std::string Take(std::string_view flag, std::string_view value, LeaseFlags* flags) {
  const std::string wrong = Concat(flag, " cannot be \"", value, "\"");
  if (flag == "--without") {
    for (const std::string_view name : SplitParts(value, ",")) {
      const auto kind = Find(kLeaseFaults, name);
      if (!kind) return wrong;
      flags->limits.without |= 1u << *kind;
    }
    return "";
  }
  if (flag == "--canary") {
    flags->is_all_canaries = value == "all";
    const auto canary = Find(kLeaseCanaryNames, value);
    const auto of_streams = Find(kStreamCanaryNames, value);
    if (!canary && !of_streams && !flags->is_all_canaries) return wrong;
    flags->canary = static_cast<LeaseCanary>(canary.value_or(0));
    flags->stream_canary = static_cast<StreamCanary>(of_streams.value_or(0));
    return "";
  }
  uint64_t* number = nullptr;
  if (flag == "--seed") number = &flags->seed;
  if (flag == "--seeds") number = &flags->seeds;
  if (flag == "--cpu-seconds") number = &flags->cpu_seconds;
  if (flag == "--faulty-steps") number = &flags->limits.faulty_steps;
  if (number == nullptr) return Concat("--leases does not know ", flag);
  const auto parsed = ParseWhole<uint64_t>(value);
  if (!parsed) return wrong;
  *number = *parsed;
  return "";
}

std::string ParseFlags(const std::vector<std::string>& args, LeaseFlags* flags) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "--leases") continue;
    if (word == "--help" || word == "-h") {
      flags->helps = true;
    } else if (word == "--shrink") {
      flags->shrinks = true;
    } else if (word == "--streams") {
      flags->streams = true;
    } else {
      const size_t equals = word.find('=');
      const bool has_value = equals != std::string::npos;
      if (!has_value && ++i == args.size()) return word + " needs a value";
      const std::string value = has_value ? word.substr(equals + 1) : args[i];
      const std::string wrong = Take(word.substr(0, equals), value, flags);
      if (!wrong.empty()) return wrong;
    }
  }
  const bool is_of_other_world = flags->streams ? flags->canary != LeaseCanary::kNone
                                                : flags->stream_canary != StreamCanary::kNone;
  if (is_of_other_world) return "this --canary belongs to the other kind of world: see --streams";
  if (flags->streams && flags->shrinks) return "--streams does not know --shrink";
  return "";
}

LeaseOutcome RunWorld(uint64_t seed, const LeaseFlags& flags) {
  return flags.streams ? RunStreamWorld(seed, flags.stream_canary, flags.limits)
                       : RunLeaseWorld(seed, flags.canary, flags.limits);
}

void Report(uint64_t seed, const LeaseFlags& flags, const LeaseOutcome& outcome) {
  std::printf("seed %" PRIu64 ": %s (%" PRIu64 " events, %" PRIu64 " faults)\n", seed,
              outcome.wrong.c_str(), outcome.events, outcome.faults);
  LeaseLimits limits = flags.limits;
  if (flags.shrinks) {
    limits = ShrinkLeaseWorld(seed, flags.canary, limits);
    const LeaseOutcome small = RunLeaseWorld(seed, flags.canary, limits);
    std::printf("  shrunk: %s (%" PRIu64 " events, %" PRIu64 " faults)\n", small.wrong.c_str(),
                small.events, small.faults);
  }
  std::string repeat = LeaseCommandLine(seed, flags.canary, limits);
  if (flags.streams) repeat += " --streams";
  if (flags.stream_canary != StreamCanary::kNone) {
    Append(&repeat, " --canary ", kStreamCanaryNames[static_cast<size_t>(flags.stream_canary)]);
  }
  std::printf("  repeat: paceline sim %s\n", repeat.c_str());
}

// Returns the number of failing seeds.
uint64_t RunSeeds(const LeaseFlags& flags) {
  const std::clock_t begin = std::clock();
  uint64_t seeds = 0;
  uint64_t wrong = 0;
  uint64_t events = 0;
  uint64_t faults = 0;
  for (; seeds < flags.seeds; ++seeds) {
    const auto used = static_cast<uint64_t>((std::clock() - begin) / CLOCKS_PER_SEC);
    if (flags.cpu_seconds > 0 && used >= flags.cpu_seconds) break;
    const uint64_t seed = flags.seed + seeds;
    const LeaseOutcome outcome = RunWorld(seed, flags);
    events += outcome.events;
    faults += outcome.faults;
    if (outcome.wrong.empty()) continue;
    if (wrong++ < kReportsMax) Report(seed, flags, outcome);
  }
  std::printf("%s: %" PRIu64 " seeds from %" PRIu64 ", %" PRIu64 " wrong, %" PRIu64
              " events, %" PRIu64 " faults\n",
              flags.streams ? "streams" : "leases", seeds, flags.seed, wrong, events, faults);
  return wrong;
}

// Each planted bug must be found. Returns the exit code.
int RunLeaseCanaries(const LeaseFlags& flags) {
  int code = 0;
  LeaseFlags planted = flags;
  for (int number = 1; number < (flags.streams ? kStreamCanaries : kLeaseCanaries); ++number) {
    planted.canary = flags.streams ? LeaseCanary::kNone : static_cast<LeaseCanary>(number);
    planted.stream_canary = flags.streams ? static_cast<StreamCanary>(number) : StreamCanary::kNone;
    uint64_t seed = flags.seed;
    const uint64_t end = seed + kCanarySeedsMax;
    while (seed < end && RunWorld(seed, planted).wrong.empty()) ++seed;
    const bool is_found = seed < end;
    const std::string_view name =
        flags.streams ? kStreamCanaryNames[number] : kLeaseCanaryNames[number];
    std::printf("%-16s %s\n", std::string(name).c_str(),
                is_found ? Concat("found by seed ", seed).c_str() : "NOT FOUND");
    if (!is_found) code = kFindings;
  }
  return code;
}

}  // namespace

LeaseLimits ShrinkLeaseWorld(uint64_t seed, LeaseCanary canary, LeaseLimits limits) {
  const auto fails = [&](const LeaseLimits& smaller) {
    return !RunLeaseWorld(seed, canary, smaller).wrong.empty();
  };
  // Cutting off the end does not change the steps before it.
  for (uint64_t piece = limits.faulty_steps / 2; piece > 0; piece /= 2) {
    while (limits.faulty_steps >= piece) {
      LeaseLimits smaller = limits;
      smaller.faulty_steps -= piece;
      if (!fails(smaller)) break;
      limits = smaller;
    }
  }
  for (size_t kind = 0; kind < std::size(kLeaseFaults); ++kind) {
    LeaseLimits smaller = limits;
    smaller.without |= 1u << kind;
    if (fails(smaller)) limits = smaller;
  }
  return limits;
}

std::string LeaseCommandLine(uint64_t seed, LeaseCanary canary, const LeaseLimits& limits) {
  std::string text = Concat("--leases --seed ", seed);
  if (limits.faulty_steps != LeaseLimits{}.faulty_steps) {
    Append(&text, " --faulty-steps ", limits.faulty_steps);
  }
  const char* before = " --without ";
  for (size_t kind = 0; kind < std::size(kLeaseFaults); ++kind) {
    if ((limits.without >> kind & 1) == 0) continue;
    Append(&text, before, kLeaseFaults[kind]);
    before = ",";
  }
  if (canary != LeaseCanary::kNone) {
    Append(&text, " --canary ", kLeaseCanaryNames[static_cast<size_t>(canary)]);
  }
  return text;
}

int RunLeaseCommand(const std::vector<std::string>& args, std::string* wrong) {
  LeaseFlags flags;
  *wrong = ParseFlags(args, &flags);
  if (!wrong->empty()) return kUsage;
  if (flags.helps) {
    std::printf("%s", kLeaseHelp);
    return 0;
  }
  if (flags.is_all_canaries) return RunLeaseCanaries(flags);
  const bool is_wrong = RunSeeds(flags) > 0;
  const bool is_planted =
      flags.canary != LeaseCanary::kNone || flags.stream_canary != StreamCanary::kNone;
  return is_wrong == is_planted ? 0 : kFindings;
}

}  // namespace paceline::sim

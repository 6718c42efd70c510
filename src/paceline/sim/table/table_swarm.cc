#include "paceline/sim/table/table_swarm.h"

#include <cinttypes>
#include <cstdio>
#include <optional>
#include <string_view>

#include "paceline/base/text.h"
#include "paceline/sim/main.h"
#include "paceline/sim/table/table_world.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kTableCanarySeedsMax = 400;
constexpr uint64_t kTableReportsMax = 5;

constexpr char kTableHelp[] =
    R"(usage: paceline sim --tables [flags]

Moves partitions between table servers that die, freeze and come back, under the production ledger.

  --seed S             first seed (default 1)
  --seeds N            how many seeds (default 1)
  --canary NAME|all    plant a bug: ack_early, position_later, move_without_sets, no_freeze,
                       any_process
)";

struct TableFlags {
  uint64_t seed = 1;
  uint64_t seeds = 1;
  TableCanary canary = TableCanary::kNone;
  bool is_all_canaries = false;
  bool helps = false;
};

std::string TakeTableFlag(std::string_view flag, std::string_view value, TableFlags* flags) {
  if (flag == "--canary") {
    flags->is_all_canaries = value == "all";
    for (int i = 0; i < kTableCanaries; ++i) {
      if (value != kTableCanaryNames[i]) continue;
      flags->canary = static_cast<TableCanary>(i);
      return "";
    }
    return flags->is_all_canaries ? "" : Concat(flag, " cannot be \"", value, "\"");
  }
  uint64_t* const number = flag == "--seed"    ? &flags->seed
                           : flag == "--seeds" ? &flags->seeds
                                               : nullptr;
  if (number == nullptr) return Concat("--tables does not know ", flag);
  const auto parsed = ParseWhole<uint64_t>(value);
  if (!parsed) return Concat(flag, " cannot be \"", value, "\"");
  *number = *parsed;
  return "";
}

std::string ParseTableFlags(const std::vector<std::string>& args, TableFlags* flags) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "--tables") continue;
    if (word == "--help" || word == "-h") {
      flags->helps = true;
      continue;
    }
    const size_t equals = word.find('=');
    const bool has_value = equals != std::string::npos;
    if (!has_value && ++i == args.size()) return word + " needs a value";
    const std::string value = has_value ? word.substr(equals + 1) : args[i];
    const std::string wrong = TakeTableFlag(word.substr(0, equals), value, flags);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

int RunTableSeeds(const TableFlags& flags) {
  uint64_t wrong = 0;
  TableOutcome sum;
  for (uint64_t i = 0; i < flags.seeds; ++i) {
    const uint64_t seed = flags.seed + i;
    const TableOutcome outcome = RunTableWorld(seed, flags.canary);
    sum.pushes += outcome.pushes;
    sum.moves += outcome.moves;
    sum.losses += outcome.losses;
    if (outcome.wrong.empty() || wrong++ >= kTableReportsMax) continue;
    const auto canary = kTableCanaryNames[static_cast<size_t>(flags.canary)];
    std::printf("seed %" PRIu64 ": %s\n  repeat: paceline sim --tables --seed %" PRIu64
                " --canary %s\n",
                seed, outcome.wrong.c_str(), seed, std::string(canary).c_str());
  }
  std::printf("tables: %" PRIu64 " seeds from %" PRIu64 ", %" PRIu64 " wrong, %" PRIu64
              " pushes, %" PRIu64 " moves, %" PRIu64 " lost servers\n",
              flags.seeds, flags.seed, wrong, sum.pushes, sum.moves, sum.losses);
  return wrong == 0 ? 0 : kFindings;
}

// Each planted bug must be found.
int RunTableCanaries(const TableFlags& flags) {
  int code = 0;
  for (int number = 1; number < kTableCanaries; ++number) {
    const auto canary = static_cast<TableCanary>(number);
    uint64_t seed = flags.seed;
    const uint64_t end = seed + kTableCanarySeedsMax;
    while (seed < end && RunTableWorld(seed, canary).wrong.empty()) ++seed;
    const bool is_found = seed < end;
    std::printf("%-18s %s\n", std::string(kTableCanaryNames[number]).c_str(),
                is_found ? Concat("found by seed ", seed).c_str() : "NOT FOUND");
    if (!is_found) code = kFindings;
  }
  return code;
}

}  // namespace

int RunTableCommand(const std::vector<std::string>& args, std::string* wrong) {
  TableFlags flags;
  *wrong = ParseTableFlags(args, &flags);
  if (!wrong->empty()) return kUsage;
  if (flags.helps) {
    std::printf("%s", kTableHelp);
    return 0;
  }
  return flags.is_all_canaries ? RunTableCanaries(flags) : RunTableSeeds(flags);
}

}  // namespace paceline::sim

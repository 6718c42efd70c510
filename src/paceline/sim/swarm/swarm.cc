#include "paceline/sim/swarm/swarm.h"

#include <algorithm>

#include "paceline/base/prng.h"
#include "paceline/sim/fault/fault.h"
#include "paceline/sim/planned.h"

namespace paceline::sim {
namespace {

constexpr size_t kStrikesMax = 24;

Duration DrawBetween(Prng& prng, Duration low, Duration high) {
  return Duration::Nanoseconds(prng.Between(low.nanoseconds(), high.nanoseconds()));
}

void DrawJob(Prng& prng, JobSpec& spec) {
  spec.job_id = "sim";
  spec.name = "sim";
  spec.nodes_max = static_cast<uint32_t>(prng.Between(1, 6));
  spec.nodes_min = static_cast<uint32_t>(prng.Between(1, spec.nodes_max));
  if (prng.Chance(1, 6) && spec.nodes_max >= 2) {
    spec.unit = 2;
    spec.nodes_max = spec.nodes_max / 2 * 2;
    spec.nodes_min = std::max(2u, spec.nodes_min / 2 * 2);
  }
  spec.nproc_per_node = static_cast<uint32_t>(prng.Between(1, 3));
  spec.spares = static_cast<uint32_t>(prng.Below(3));
  if (prng.Chance(1, 6)) spec.max_restarts = static_cast<uint32_t>(prng.Below(8));
  const GrowPolicy policies[] = {GrowPolicy::kCheckpoint, GrowPolicy::kNow, GrowPolicy::kNever};
  spec.grow = policies[prng.Below(3)];
  spec.seed = prng.Next();
  spec.timers.join_window = DrawBetween(prng, Duration(), Duration::Seconds(3));
  if (prng.Chance(1, 3)) {
    spec.timers.shrink_after = DrawBetween(prng, Duration(), Duration::Seconds(5));
  }
  if (prng.Chance(1, 4)) {
    spec.timers.lost_after = DrawBetween(prng, Duration::Milliseconds(600), Duration::Seconds(5));
  }
  // Else an agent that was cut off at the end of the job would look for its master for ever.
  spec.timers.orphan_after = DrawBetween(prng, Duration::Seconds(30), Duration::Seconds(120));
  spec.timers.stop_grace = DrawBetween(prng, Duration(), Duration::Seconds(10));
  if (prng.Chance(1, 3)) {
    spec.timers.start_timeout = DrawBetween(prng, Duration::Seconds(20), Duration::Seconds(60));
  }
}

void DrawCluster(Prng& prng, Options& options) {
  JobSpec& spec = options.spec;
  options.local_platform = prng.Chance(1, 2);
  spec.replace_nodes = options.local_platform && prng.Chance(1, 3);
  const uint32_t full = spec.nodes_max + spec.spares;
  options.node_count =
      prng.Chance(3, 4) ? full : static_cast<uint32_t>(prng.Between(spec.nodes_min, full));
  options.late_node_count = static_cast<uint32_t>(prng.Below(3));
  options.link.latency_min =
      DrawBetween(prng, Duration::Microseconds(20), Duration::Milliseconds(1));
  options.link.latency_max =
      options.link.latency_min + (prng.Chance(1, 4)
                                      ? DrawBetween(prng, Duration(), Duration::Milliseconds(200))
                                      : DrawBetween(prng, Duration(), Duration::Milliseconds(2)));
  if (prng.Chance(1, 4)) options.link.loss_permille = static_cast<uint32_t>(prng.Below(50));
  if (prng.Chance(1, 4)) options.link.duplicate_permille = static_cast<uint32_t>(prng.Below(100));
  if (prng.Chance(1, 8)) options.link.reorder_permille = static_cast<uint32_t>(prng.Below(100));
  options.fsync_max =
      prng.Chance(1, 4) ? DrawBetween(prng, Duration::Milliseconds(5), Duration::Milliseconds(400))
                        : DrawBetween(prng, Duration::Milliseconds(1), Duration::Milliseconds(10));
  options.heartbeats_each = prng.Chance(3, 4);
  options.power_up = DrawBetween(prng, Duration::Milliseconds(200), Duration::Seconds(10));
}

void DrawScript(Prng& prng, Options& options) {
  options.import_max = prng.Chance(1, 4)
                           ? DrawBetween(prng, Duration::Seconds(1), Duration::Seconds(10))
                           : DrawBetween(prng, Duration::Milliseconds(60), Duration::Seconds(1));
  options.step_time =
      prng.Chance(1, 5)
          ? DrawBetween(prng, Duration::Milliseconds(500), Duration::Seconds(2))
          : DrawBetween(prng, Duration::Milliseconds(10), Duration::Milliseconds(500));
  options.checkpoint_every = prng.Chance(1, 8) ? 0 : prng.Between(1, 50);
  if (prng.Chance(1, 5)) options.total_steps = prng.Between(20, 400);
  options.tells_steps = prng.Chance(3, 4);
  options.tells_saved = options.tells_steps && prng.Chance(2, 3);
  options.peer_hang_permille = static_cast<uint32_t>(prng.Below(1001));
  options.peer_exit_max = DrawBetween(prng, Duration::Milliseconds(2), Duration::Seconds(40));
}

// True for bugs in code that only a Checkpointer uses.
bool NeedsSaves(Canary canary) {
  return canary == Canary::kForgetHold || canary == Canary::kHurriedEnd ||
         canary == Canary::kMixSteps || canary == Canary::kCommitUnchecked ||
         canary == Canary::kPruneNewest || canary == Canary::kTrustCopies ||
         canary == Canary::kHideCopies || canary == Canary::kHideBlindness ||
         canary == Canary::kForgetBranch || canary == Canary::kCallItDone ||
         canary == Canary::kRestartInterval || canary == Canary::kForgetEqual ||
         canary == Canary::kTwiceIsNow || canary == Canary::kForgetImages ||
         canary == Canary::kHideOwnParameters;
}

// A third of the scripts have a Checkpointer.
void DrawSaves(Prng& prng, const Overrides& overrides, Options& options) {
  SaveOptions& saves = options.saves;
  const bool is_drawn = prng.Chance(1, 3);
  saves.is_used = overrides.saves.value_or(is_drawn || NeedsSaves(overrides.canary));
  const int64_t policy = prng.Between(0, 3);
  saves.terms.directory = "/storage";
  saves.terms.keep = static_cast<uint32_t>(prng.Between(1, 3));
  if (policy <= 1 && overrides.canary != Canary::kRestartInterval) {
    saves.terms.policy = {PersistPolicy::Kind::kSteps, prng.Between(1, 40), Duration()};
  } else if (policy == 2 || overrides.canary == Canary::kRestartInterval) {
    saves.terms.policy = {PersistPolicy::Kind::kTime, 0,
                          DrawBetween(prng, Duration::Milliseconds(200), Duration::Seconds(10))};
  }
  saves.every = prng.Chance(2, 3) ? 1 : prng.Between(2, 10);
  if (prng.Chance(1, 3) || overrides.canary == Canary::kForgetBranch)
    saves.recount = saves.every * prng.Between(1, 30);
  saves.slots = prng.Chance(1, 4) ? 2 : prng.Chance(1, 3) ? 3 : 4;
  saves.is_replica = prng.Chance(1, 2);
  saves.says_replica = saves.is_replica && prng.Chance(2, 3);
  saves.save_max = DrawBetween(prng, saves.save_min, Duration::Milliseconds(40));
  saves.write_max = prng.Chance(1, 4)
                        ? DrawBetween(prng, Duration::Milliseconds(100), Duration::Seconds(8))
                        : DrawBetween(prng, Duration::Milliseconds(5), Duration::Milliseconds(400));
  saves.read_max = DrawBetween(prng, Duration::Milliseconds(1), Duration::Seconds(1));
  // Only a few scripts have steps so quick that an unheld image is gone before it is reported,
  // because they take the most CPU time.
  const bool is_quick = prng.Chance(1, 16);
  const Duration step_time =
      is_quick ? DrawBetween(prng, Duration::Milliseconds(15), Duration::Milliseconds(50))
               : DrawBetween(prng, Duration::Milliseconds(80), Duration::Seconds(1));
  saves.copy_max = prng.Chance(1, 4)
                       ? DrawBetween(prng, Duration::Milliseconds(300), Duration::Seconds(5))
                       : DrawBetween(prng, saves.copy_min, Duration::Milliseconds(300));
  if (prng.Chance(1, 2)) saves.terms.replicas = static_cast<uint32_t>(prng.Below(3));
  saves.nodes_per_domain = prng.Chance(1, 4) ? 2 : 1;
  const bool is_pipeline = prng.Chance(1, 4) || overrides.canary == Canary::kHideOwnParameters;
  if (is_pipeline) saves.is_replica = saves.says_replica = false;
  saves.has_own_parameters = is_pipeline;
  if (!saves.is_used) return;
  options.step_time = step_time;
  saves.save_max = std::min(saves.save_max, options.step_time / 2);
}

// Every sixth run tells what its steps take, and half of those have a slow rank.
void DrawPace(Prng& prng, const Overrides& overrides, PaceOptions& pace) {
  const bool is_blamed =
      overrides.canary == Canary::kBlameFast || overrides.canary == Canary::kBlameHost;
  const bool is_drawn = prng.Chance(1, 6) || is_blamed;
  const bool is_slow = prng.Chance(1, 2) || is_blamed;
  const auto rank = static_cast<uint32_t>(prng.Below(8));
  pace.noise_permille = static_cast<uint32_t>(prng.Below(100));
  pace.is_told = is_drawn;
  if (is_drawn && is_slow) pace.slow_rank = rank;
}

// Every fifth run has checks, and half of those test the links.
void DrawChecks(Prng& prng, Prng& links, const Overrides& overrides, CheckOptions& checks) {
  const auto is_asked = [&overrides](std::string_view fault) {
    return std::ranges::find(overrides.only, fault) != overrides.only.end();
  };
  checks.has_links = links.Chance(1, 2) || is_asked("dead_port");
  checks.is_used = prng.Chance(1, 5) || is_asked("bad_node") || is_asked("dead_port");
  checks.has_links = checks.has_links && checks.is_used;
}

// In every third run the rings tell the time by phase.
void DrawPhases(Prng& prng, const Overrides& overrides, PhaseOptions& phases) {
  phases.is_told = prng.Chance(1, 3) || overrides.canary == Canary::kSwapPhases;
  phases.evaluation = static_cast<uint32_t>(prng.Below(400));
  phases.checkpoint = static_cast<uint32_t>(prng.Below(150));
  phases.data = static_cast<uint32_t>(prng.Below(250));
}

// In half of the runs with step times, a spare takes the ranks of a slow host, and a host is slow
// instead of a rank.
void DrawReplacing(Prng& prng, Canary canary, Options& options) {
  const bool is_drawn = prng.Chance(1, 2) || canary == Canary::kBlameHost;
  const auto node = static_cast<uint32_t>(prng.Below(options.node_count));
  options.spec.slow_act_after = DrawBetween(prng, Duration(), Duration::Seconds(20));
  if (!is_drawn || !options.pace.is_told) return;
  options.spec.slow_act = SlowAct::kReplace;
  if (options.pace.slow_rank.has_value()) options.pace.slow_node = node;
  options.pace.slow_rank.reset();
}

// The scripts of every fifth run train by a plan. Nodes have one of two types of devices, and some
// number of the larger ones is needed to hold the model.
void DrawPlan(Prng& prng, const Overrides& overrides, Options& options) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  constexpr int64_t kTypesMax = 4;
  PlanOptions& plan = options.plan;
  plan.is_used = prng.Chance(1, 5) || overrides.canary == Canary::kBoastMemory;
  const int64_t types = prng.Between(1, kTypesMax);
  for (int64_t i = 0; i < types; ++i) plan.memory.push_back((prng.Chance(1, 2) ? 4 : 2) * kGib);
  const auto most = static_cast<int64_t>(options.spec.nodes_max);
  const auto needed = static_cast<uint64_t>(prng.Between(1, most));
  const uint64_t ranks = needed * options.spec.nproc_per_node;
  plan.summary = SummaryThatNeeds(ranks * plan.memory.front() * 3 / 4);
  plan.wishes = R"({"global_batch":1024})";
}

// A rank has 1 GiB, and its node twice what its ranks begin with.
void DrawMemory(Prng& prng, Options& options) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  const uint64_t times = uint64_t{1} << prng.Below(4);
  if (!options.memory.is_used) return;
  options.memory.rank_bytes = kGib;
  options.spec.memory_node = 2 * kGib * options.spec.nproc_per_node;
  options.spec.memory_most = options.spec.memory_node * times;
}

bool IsAsked(const Overrides& overrides, const Fault& fault) {
  return std::find(overrides.only.begin(), overrides.only.end(), fault.name) !=
         overrides.only.end();
}

void SortByTime(std::vector<Strike>& strikes) {
  std::stable_sort(strikes.begin(), strikes.end(),
                   [](const Strike& a, const Strike& b) { return a.at < b.at; });
}

void DrawStrikes(Prng& prng, const Overrides& overrides, Options& options) {
  options.chaos = DrawBetween(prng, Duration::Seconds(10), Duration::Seconds(90));
  const uint64_t share = static_cast<uint64_t>(prng.Between(1, 6));
  std::vector<size_t> kinds;
  for (size_t i = 0; i < AllFaults().size(); ++i) {
    const Fault& fault = AllFaults()[i];
    if (fault.lasts || fault.family != FaultFamily::kUsual) continue;
    const bool is_final = fault.name == "stop_request" || fault.name == "script_bug";
    const bool is_drawn = prng.Chance(share, 8) && (!is_final || prng.Chance(1, 6));
    if (fault.applies != nullptr && !fault.applies(options)) continue;
    if (overrides.only.empty() ? is_drawn : IsAsked(overrides, fault)) kinds.push_back(i);
  }
  const uint64_t count = prng.Below(kStrikesMax + 1);
  for (uint64_t i = 0; i < count && !kinds.empty(); ++i) {
    Strike strike;
    strike.at = Instant() + DrawBetween(prng, Duration::Milliseconds(1), options.chaos);
    strike.fault = kinds[prng.Below(kinds.size())];
    strike.seed = prng.Next();
    options.strikes.push_back(strike);
  }
  SortByTime(options.strikes);
}

// Late enough that there usually is a world. With its own generator, so that a lasting fault
// changes nothing else in a run.
void DrawLasting(Prng& prng, const Overrides& overrides, Options& options) {
  for (size_t i = 0; i < AllFaults().size(); ++i) {
    const Fault& fault = AllFaults()[i];
    if (!fault.lasts) continue;
    const bool is_drawn = prng.Chance(1, 6);
    Strike strike;
    strike.at = Instant() + DrawBetween(prng, options.chaos / 2, options.chaos);
    strike.fault = i;
    strike.seed = prng.Next();
    if (overrides.only.empty() ? is_drawn : IsAsked(overrides, fault))
      options.strikes.push_back(strike);
  }
  SortByTime(options.strikes);
}

// A few strikes of that family, in one run of four. True: there are some.
bool DrawFamily(FaultFamily family, Prng& prng, const Overrides& overrides, Options& options) {
  constexpr int64_t kMost = 4;
  std::vector<size_t> kinds;
  for (size_t i = 0; i < AllFaults().size(); ++i) {
    const Fault& fault = AllFaults()[i];
    if (fault.family != family) continue;
    if (fault.applies != nullptr && !fault.applies(options)) continue;
    if (overrides.only.empty() || IsAsked(overrides, fault)) kinds.push_back(i);
  }
  const bool is_drawn = prng.Chance(1, 4) || !overrides.only.empty();
  if (kinds.empty() || !is_drawn) return false;
  const int64_t count = prng.Between(1, kMost);
  for (int64_t i = 0; i < count; ++i) {
    Strike strike;
    strike.at = Instant() + DrawBetween(prng, Duration::Milliseconds(1), options.chaos);
    strike.fault = kinds[prng.Below(kinds.size())];
    strike.seed = prng.Next();
    options.strikes.push_back(strike);
  }
  SortByTime(options.strikes);
  return true;
}

void Reduce(const Overrides& overrides, Options& options) {
  std::vector<Strike> left;
  for (const Strike& strike : options.strikes) {
    const std::string_view name = AllFaults()[strike.fault].name;
    const bool is_out = std::find(overrides.without.begin(), overrides.without.end(), name) !=
                        overrides.without.end();
    if (!is_out) left.push_back(strike);
  }
  if (overrides.keep.has_value()) {
    std::vector<Strike> kept;
    for (size_t number : *overrides.keep) {
      if (number < left.size()) kept.push_back(left[number]);
    }
    left = std::move(kept);
  }
  if (overrides.until.has_value()) {
    options.chaos = std::min(options.chaos, *overrides.until);
    std::erase_if(
        left, [&options](const Strike& strike) { return strike.at > Instant() + options.chaos; });
  }
  options.strikes = std::move(left);
  if (!overrides.nodes.has_value()) return;
  JobSpec& spec = options.spec;
  options.node_count = std::min(options.node_count, std::max(*overrides.nodes, 1u));
  options.late_node_count =
      std::min(options.late_node_count, std::max(*overrides.nodes, 1u) - options.node_count);
  spec.nodes_max = std::min(spec.nodes_max, options.node_count);
  spec.nodes_min = std::min(spec.nodes_min, spec.nodes_max);
  spec.unit = std::min(spec.unit, spec.nodes_max);
  spec.spares = std::min(spec.spares, options.node_count - spec.nodes_max);
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

}  // namespace

Options Draw(uint64_t seed, const Overrides& overrides) {
  Options options;
  options.seed = seed;
  // Each part has its own generator, so a further draw in one does not change the others.
  Prng prng(seed);
  Prng job = prng.Fork();
  Prng cluster = prng.Fork();
  Prng script = prng.Fork();
  Prng strikes = prng.Fork();
  Prng lasting = prng.Fork();
  Prng saves = prng.Fork();
  Prng far = prng.Fork();
  Prng end = prng.Fork();
  Prng terms = prng.Fork();
  Prng pace = prng.Fork();
  Prng platform = prng.Fork();
  Prng plan = prng.Fork();
  Prng user = prng.Fork();
  Prng checks = prng.Fork();
  Prng replacing = prng.Fork();
  Prng phases = prng.Fork();
  Prng links = prng.Fork();
  Prng memory = prng.Fork();
  DrawJob(job, options.spec);
  DrawCluster(cluster, options);
  DrawScript(script, options);
  DrawSaves(saves, overrides, options);
  DrawPace(pace, overrides, options.pace);
  DrawPhases(phases, overrides, options.phases);
  DrawPlan(plan, overrides, options);
  if (overrides.canary != Canary::kBlameFast) DrawReplacing(replacing, overrides.canary, options);
  DrawChecks(checks, links, overrides, options.checks);
  DrawStrikes(strikes, overrides, options);
  DrawLasting(lasting, overrides, options);
  options.copies_journal = DrawFamily(FaultFamily::kTerms, terms, overrides, options);
  DrawFamily(FaultFamily::kPlatform, platform, overrides, options);
  DrawFamily(FaultFamily::kUser, user, overrides, options);
  options.memory.is_used = DrawFamily(FaultFamily::kMemory, memory, overrides, options);
  DrawMemory(memory, options);
  if (far.Chance(1, 4)) options.saves.terms.directory = "s3://storage/run";
  // Steps shorter or longer than a fault's effect on storage.
  const bool must_end = overrides.canary == Canary::kCallItDone && options.total_steps == 0;
  if (must_end) options.total_steps = end.Between(20, 100);
  options.spec.timers.storage_wait =
      end.Chance(1, 2) ? DrawBetween(end, Duration(), Duration::Seconds(5)) : Duration::Seconds(60);
  options.crash_at_record = overrides.crash_at_record;
  options.canary = overrides.canary;
  Reduce(overrides, options);
  return options;
}

std::string CommandLine(uint64_t seed, const Overrides& overrides) {
  std::string text = "paceline sim --seed " + std::to_string(seed);
  if (!overrides.only.empty()) text += " --fault " + Join(overrides.only);
  if (!overrides.without.empty()) text += " --without " + Join(overrides.without);
  if (overrides.keep.has_value()) {
    std::vector<std::string> numbers;
    for (size_t number : *overrides.keep) numbers.push_back(std::to_string(number));
    text += " --keep " + (numbers.empty() ? "none" : Join(numbers));
  }
  if (overrides.until.has_value()) {
    text += " --until " + std::to_string((overrides.until->milliseconds() + 999) / 1000);
  }
  if (overrides.nodes.has_value()) text += " --nodes " + std::to_string(*overrides.nodes);
  if (overrides.crash_at_record.has_value()) {
    text += " --crash-at-record " + std::to_string(*overrides.crash_at_record);
  }
  if (overrides.saves.has_value()) text += *overrides.saves ? " --saves on" : " --saves off";
  if (overrides.canary != Canary::kNone)
    text += " --canary " + std::string(CanaryName(overrides.canary));
  return text;
}

}  // namespace paceline::sim

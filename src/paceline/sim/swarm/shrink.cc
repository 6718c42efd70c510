#include "paceline/sim/swarm/shrink.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "paceline/sim/fault/fault.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kTwiceEvery = 20;

class Shrinker {
 public:
  Shrinker(uint64_t seed, const Overrides& overrides, const Violation& first)
      : seed_(seed), result_{overrides, first, 0} {}

  Shrunk Run() {
    CutEnd();
    LeaveOutKinds();
    LeaveOutStrikes();
    LeaveOutHosts();
    CutEnd();
    return std::move(result_);
  }

 private:
  // Takes the smaller run if the same check fails in it.
  bool Try(const Overrides& overrides) {
    ++result_.run_count;
    const Outcome outcome = RunSeed(seed_, overrides, nullptr);
    if (!outcome.violation.has_value() || outcome.violation->check != result_.violation.check) {
      return false;
    }
    result_.overrides = overrides;
    result_.violation = *outcome.violation;
    return true;
  }

  void CutEnd() {
    const Options options = Draw(seed_, result_.overrides);
    int64_t high = (options.chaos.milliseconds() + 999) / 1000;
    const int64_t failed_at = result_.violation.at.nanoseconds() / 1'000'000'000 + 1;
    int64_t low = 0;
    high = std::min(high, failed_at);
    while (low < high) {  // not monotonic: finds a small end, not always the smallest
      const int64_t middle = low + (high - low) / 2;
      Overrides overrides = result_.overrides;
      overrides.until = Duration::Seconds(middle);
      if (Try(overrides)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
  }

  void LeaveOutKinds() {
    std::set<std::string> kinds;
    for (const Strike& strike : Draw(seed_, result_.overrides).strikes) {
      kinds.insert(std::string(AllFaults()[strike.fault].name));
    }
    for (const std::string& kind : kinds) {
      Overrides overrides = result_.overrides;
      overrides.without.push_back(kind);
      Try(overrides);
    }
  }

  void LeaveOutStrikes() {
    Overrides start = result_.overrides;
    const size_t count = Draw(seed_, start).strikes.size();
    std::vector<size_t> keep;
    for (size_t i = 0; i < count; ++i) keep.push_back(i);
    for (size_t i = count; i-- > 0;) {
      std::vector<size_t> fewer = keep;
      std::erase(fewer, i);
      Overrides overrides = start;
      overrides.keep = fewer;
      if (Try(overrides)) keep = fewer;
    }
  }

  void LeaveOutHosts() {
    const Options options = Draw(seed_, result_.overrides);
    for (uint32_t nodes = options.node_count + options.late_node_count; nodes > 1; --nodes) {
      Overrides overrides = result_.overrides;
      overrides.nodes = nodes - 1;
      if (!Try(overrides)) break;
    }
  }

  const uint64_t seed_;
  Shrunk result_;
};

}  // namespace

Outcome RunSeed(uint64_t seed, const Overrides& overrides, std::FILE* log) {
  const Options options = Draw(seed, overrides);
  Outcome outcome = SimWorld(options, log).Run();
  const bool runs_twice = seed % kTwiceEvery == 0 || overrides.canary == Canary::kWildClock;
  if (outcome.violation.has_value() || !runs_twice) return outcome;
  Options other = options;
  other.outside = 1;
  const Outcome again = SimWorld(other, nullptr).Run();
  if (again.trace_hash != outcome.trace_hash || again.last_random != outcome.last_random) {
    outcome.violation = Violation{"same_seed_same_trace", "two runs of one seed differ", again.end};
  }
  return outcome;
}

Shrunk Shrink(uint64_t seed, const Overrides& overrides, const Violation& first) {
  return Shrinker(seed, overrides, first).Run();
}

}  // namespace paceline::sim

#include "paceline/agent/hang/idle_watch.h"

#include <algorithm>

namespace paceline::agent {
namespace {

// CPU time that does not count as computing: a share of the time since the last look, and the
// kernel's rounding of user and of system time to units of 10 ms. A rank that sleeps uses 0.3 % of
// a processor over gloo, measured with torch 2.15.
constexpr int kRestingShare = 100;
constexpr Duration kRounding = Duration::Milliseconds(20);
// The same for switches of a main thread: one in this time, and those that py-spy causes.
constexpr int64_t kSwitchNs = 2'000'000'000;
constexpr uint64_t kSwitchesOfLook = 10;

// A process that began or ended in between has worked.
bool AreAwake(const ProcessLook& before, const ProcessLook& now, int64_t passed_ns) {
  const uint64_t resting = kSwitchesOfLook + static_cast<uint64_t>(passed_ns / kSwitchNs);
  const auto rests = [resting](const auto& a, const auto& b) {
    return a.first == b.first && b.second - a.second <= resting;
  };
  return !std::equal(before.switches.begin(), before.switches.end(), now.switches.begin(),
                     now.switches.end(), rests);
}

bool HasWorked(const ProcessLook& before, const ProcessLook& now, int64_t passed_ns) {
  const Duration resting = Duration::Nanoseconds(passed_ns / kRestingShare);
  // Less CPU time than before: a child has ended and took its time along.
  const bool computes = now.cpu < before.cpu || now.cpu - before.cpu > resting + kRounding;
  return computes || now.bytes != before.bytes || !now.is_whole || AreAwake(before, now, passed_ns);
}

}  // namespace

Duration IdleWatch::Note(const ProcessId& process, const ProcessLook& look, int64_t now_ns) {
  const auto [found, is_new] =
      seen_.emplace(process.pid, Seen{process.start_time_ticks, look, now_ns, now_ns});
  if (is_new) return Duration();
  Seen& seen = found->second;
  const bool is_idle = seen.start_time_ticks == process.start_time_ticks &&
                       !HasWorked(seen.look, look, now_ns - seen.at_ns);
  const int64_t since = is_idle ? seen.idle_since_ns : now_ns;
  seen = {process.start_time_ticks, look, now_ns, since};
  return Duration::Nanoseconds(now_ns - since);
}

void IdleWatch::Keep(const std::vector<ProcessId>& processes) {
  std::erase_if(seen_, [&processes](const auto& one) {
    return std::none_of(processes.begin(), processes.end(), [&one](const ProcessId& kept) {
      return kept.pid == one.first && kept.start_time_ticks == one.second.start_time_ticks;
    });
  });
}

}  // namespace paceline::agent

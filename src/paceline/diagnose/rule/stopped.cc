// A signal stopped a rank: SIGSTOP, a terminal's job control, a paused container.
//
// A single stopped rank for which others wait is restarted at once, because the cause is certain.
// If several are stopped at once, a person or a scheduler did it: they are reported, with the
// command that continues them.

#include <algorithm>
#include <map>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/diagnose/deadline.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {
namespace {

std::string SignalText(int signal) {
  switch (signal) {
    case 19: return " (SIGSTOP)";
    case 20: return " (SIGTSTP)";
    case 21: return " (SIGTTIN)";
    case 22: return " (SIGTTOU)";
    default: return "";
  }
}

std::set<uint32_t> StoppedRanks(const Facts& facts) {
  std::set<uint32_t> stopped;
  for (const RankFacts& rank : facts.ranks) {
    if (rank.evidence.state == 'T') stopped.insert(rank.evidence.rank.value());
  }
  return stopped;
}

// Ranks that wait in a collective of a stopped rank, and for no absent rank. The stopped rank has
// entered the collective too, or its records are damaged. It is the cause all the same.
void AddWaitersInside(const Scene& scene, const std::set<uint32_t>& stopped,
                      std::set<uint32_t>* waiters) {
  for (const Group& group : scene.graph.groups) {
    const bool is_its = std::any_of(group.members.begin(), group.members.end(),
                                    [&](uint32_t member) { return stopped.contains(member); });
    if (!is_its) continue;
    for (const auto& [rank, position] : group.positions) {
      const bool waits = position.waits_in != nullptr && !scene.graph.awaits.contains(rank);
      if (waits && !stopped.contains(rank)) waiters->insert(rank);
    }
  }
}

// "On node0: kill -CONT 71 72. On node1: kill -CONT 80."
std::string WayOut(const Scene& scene, const std::set<uint32_t>& stopped) {
  std::map<std::string, std::string> commands;
  for (const uint32_t rank : stopped) {
    const RankFacts& facts = *scene.Find(rank);
    std::string& command = commands[facts.node];
    if (command.empty()) command = Concat("On ", facts.node, ": kill -CONT");
    Append(&command, " ", facts.evidence.pid);
  }
  constexpr size_t kNodesMax = 4;
  std::string text;
  size_t count = 0;
  for (const auto& [node, command] : commands) {
    if (++count > kNodesMax) break;
    Append(&text, " ", command, ".");
  }
  if (commands.size() > kNodesMax) Append(&text, " And on ", commands.size() - kNodesMax, " more.");
  return text;
}

}  // namespace

std::optional<Verdict> JudgeStopped(const Scene& scene) {
  const std::set<uint32_t> stopped = StoppedRanks(scene.facts);
  if (stopped.empty()) return std::nullopt;
  const RankFacts& first = *scene.Find(*stopped.begin());
  std::set<uint32_t> waiters = WaitersFor(scene.graph, stopped);
  AddWaitersInside(scene, stopped, &waiters);
  const bool is_one = stopped.size() == 1;
  std::set<uint32_t> asleep;
  if (is_one && waiters.empty()) asleep = AsleepInBackward(scene, *stopped.begin());
  Duration waited = waiters.empty() ? first.evidence.quiet_for : scene.LongestWait(waiters);
  waited = std::min(waited, ShortestQuiet(scene, asleep));
  const Duration limit = QuietLimit(first.evidence.step_p99);
  Verdict verdict;
  if (waited < limit) return TooEarly(limit - waited);
  const bool is_waited_for = !waiters.empty() || !asleep.empty();
  const std::string how = Concat("stopped", SignalText(first.evidence.stopped_by));
  verdict.hang = HangClass::kStopped;
  verdict.act = is_one && is_waited_for ? HangAct::kRestart : HangAct::kTell;
  verdict.culprits = RanksOf(stopped);
  verdict.sentence =
      is_one ? Concat(Capitalized(RankText(first)), " was ", how, WhereText(first.evidence), ".")
             : Concat(Capitalized(RanksText(stopped)), " were ", how, ".");
  const std::string wait = WaitText(scene, waiters, stopped.size());
  if (!wait.empty()) Append(&verdict.sentence, " ", wait);
  verdict.sentence += AsleepText(asleep, waited);
  if (verdict.act == HangAct::kTell) {
    Append(&verdict.sentence, is_one ? " No rank waits for it yet." : "", WayOut(scene, stopped));
    if (is_one) verdict.later = "paceline restarts the rank as soon as another one waits for it";
    verdict.look_again = Duration::Seconds(5);
  }
  verdict.headline = Concat("was ", how, WhereText(first.evidence));
  verdict.fingerprint = Concat("stopped@", PlaceOf(first.evidence));
  return verdict;
}

}  // namespace paceline::diagnose

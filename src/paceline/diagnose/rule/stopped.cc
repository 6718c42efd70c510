// A signal stopped a rank: SIGSTOP, a terminal's job control, a container that is paused.
//
// One that others wait for is restarted at once: nothing else is in doubt. Several at once are some
// person's or scheduler's doing, so they are told of, with the way out.

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

}  // namespace

std::optional<Verdict> JudgeStopped(const Scene& scene) {
  const std::set<uint32_t> stopped = StoppedRanks(scene.facts);
  if (stopped.empty()) return std::nullopt;
  const RankFacts& first = *scene.Find(*stopped.begin());
  const std::set<uint32_t> waiters = scene.WaitersFor(stopped);
  const Duration waited = waiters.empty() ? first.evidence.quiet_for : scene.LongestWait(waiters);
  const Duration limit = QuietLimit(first.evidence.step_p99);
  Verdict verdict;
  if (waited < limit) return TooEarly(limit - waited);
  const bool is_one = stopped.size() == 1;
  const std::string how = Concat("stopped", SignalText(first.evidence.stopped_by));
  verdict.hang = HangClass::kStopped;
  verdict.act = is_one && !waiters.empty() ? HangAct::kRestart : HangAct::kTell;
  verdict.culprits = RanksOf(stopped);
  verdict.sentence =
      is_one ? Concat(Capitalized(RankText(first)), " was ", how, WhereText(first.evidence), ".")
             : Concat(Capitalized(RanksText(stopped)), " were ", how, ".");
  const std::string wait = WaitText(scene, waiters, stopped.size());
  if (!wait.empty()) Append(&verdict.sentence, " ", wait);
  if (verdict.act == HangAct::kTell) {
    Append(&verdict.sentence, is_one ? " Nobody waits for it yet." : "", " kill -CONT makes ",
           is_one ? "it" : "them", " go on.");
    verdict.look_again = Duration::Seconds(5);
  }
  verdict.headline = Concat("was ", how, WhereText(first.evidence));
  verdict.fingerprint = Concat("stopped@", PlaceOf(first.evidence));
  return verdict;
}

}  // namespace paceline::diagnose

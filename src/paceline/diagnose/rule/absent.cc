// A rank does not reach the collective in which the others wait, and it is not stopped: it computes
// (a loop, C code that holds the GIL) or sleeps (a lock, a file, a name that does not resolve).

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/diagnose/deadline.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {
namespace {

// Until the next look at a rank that moved bytes. Retries come every 5, 10 or 30 s, for example
// those of a name server that does not answer, and read a few bytes. Looks in the same rhythm would
// see the bytes of a retry each time.
constexpr Duration kLookAgainAtBytes = Duration::Seconds(13);

// The awaited ranks, without those in a collective that all its members have entered.
std::set<uint32_t> AbsentOf(const Scene& scene) {
  std::set<uint32_t> absent;
  for (const uint32_t rank : scene.graph.roots) {
    if (!scene.graph.waits_in.contains(rank) && scene.Find(rank) != nullptr) absent.insert(rank);
  }
  return absent;
}

// What several absent ranks wait for together, so that none is to blame; "" if they do not.
std::string SharedCause(const Scene& scene, const std::set<uint32_t>& absent) {
  return absent.size() < 2 ? "" : SharedWait(scene, absent);
}

std::string DoingText(const RankFacts& rank) {
  const RankEvidence& evidence = rank.evidence;
  if (IsBusy(evidence)) return Concat("is busy", WhereText(evidence));
  std::string text = Concat("does not go on", WhereText(evidence));
  if (evidence.stopped_child != 0) return Concat(text, "; ", StoppedChildText(evidence));
  if (!evidence.waits_in.empty()) Append(&text, "; it waits in ", evidence.waits_in);
  return text;
}

void Name(const Scene& scene, const std::set<uint32_t>& absent, Verdict* verdict) {
  const RankFacts& first = *scene.Find(*absent.begin());
  const bool is_one = absent.size() == 1;
  verdict->hang = IsBusy(first.evidence) ? HangClass::kBusy : HangClass::kBlocked;
  const std::string shared = SharedCause(scene, absent);
  if (!shared.empty()) {
    verdict->sentence =
        Concat(Capitalized(RanksText(absent)), " wait in ", shared, ". No rank is to blame.");
  } else {
    verdict->culprits = RanksOf(absent);
    verdict->sentence = is_one ? Concat(Capitalized(RankText(first)), " ", DoingText(first), ".")
                               : Concat(Capitalized(RanksText(absent)), " do not go on.");
  }
  Append(&verdict->sentence, " ", WaitText(scene, WaitersFor(scene.graph, absent), absent.size()));
  verdict->headline = Concat("was hung: it ", DoingText(first));
  verdict->fingerprint = Concat(HangName(verdict->hang), "@", PlaceOf(first.evidence));
}

}  // namespace

std::optional<Verdict> JudgeAbsent(const Scene& scene) {
  const std::set<uint32_t> absent = AbsentOf(scene);
  if (absent.empty()) return std::nullopt;
  Duration waited = scene.LongestWait(WaitersFor(scene.graph, absent));
  // The longest deadlines among them count.
  Deadlines limits{.named = Duration(), .blocked = Duration(), .busy = Duration()};
  bool is_busy = false;
  bool moves = false;
  for (const uint32_t rank : absent) {
    const RankEvidence& evidence = scene.Find(rank)->evidence;
    const Deadlines own = DeadlinesOf(evidence);
    // A rank that goes from batch to batch works, however long the others wait. For example, rank 0
    // alone evaluates.
    waited = std::min(waited, evidence.quiet_for);
    limits.named = std::max(limits.named, own.named);
    limits.blocked = std::max(limits.blocked, own.blocked);
    limits.busy = std::max(limits.busy, own.busy);
    is_busy = is_busy || IsBusy(evidence);
    moves = moves || evidence.moved;
  }
  Verdict verdict;
  if (waited < limits.named) return TooEarly(limits.named - waited);
  Name(scene, absent, &verdict);
  verdict.act = HangAct::kTell;
  Duration limit = is_busy ? limits.busy : limits.blocked;
  if (scene.facts.act_after > Duration() && !limit.is_infinite()) limit = scene.facts.act_after;
  // A rank that transfers bytes is slow, not hung. And if all wait for one resource, a restart does
  // not help.
  if (limit.is_infinite() || verdict.culprits.empty()) {
    verdict.look_again = Duration::Seconds(30);
  } else if (moves) {
    verdict.look_again = std::max(kLookAgainAtBytes, limit - waited);
  } else if (waited < limit) {
    verdict.look_again = limit - waited;
  } else {
    verdict.act = HangAct::kRestart;
  }
  return verdict;
}

}  // namespace paceline::diagnose

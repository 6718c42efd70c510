// A rank does not reach the collective in which the others wait, and it is not stopped: it computes
// (a loop, C code that holds the GIL) or sleeps (a lock, a file, a name that does not resolve).

#include <algorithm>
#include <string_view>
#include <utility>

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

// Ranks of which each is expected by others and has not come.
struct Absence {
  std::set<uint32_t> absent;
  std::set<uint32_t> asleep;  // all others, if they wait without a record
  Duration waited;
  Duration idle;     // none of the absent ranks did anything for so long
  Deadlines limits;  // the longest of each kind
  bool is_busy = false;
  bool moves = false;
};

std::string DoingText(const RankFacts& rank) {
  const RankEvidence& evidence = rank.evidence;
  if (IsBusy(evidence)) return Concat("is busy", WhereText(evidence));
  std::string text = Concat("does not go on", WhereText(evidence));
  if (evidence.stopped_child != 0) return Concat(text, "; ", StoppedChildText(evidence));
  if (!evidence.waits_in.empty()) Append(&text, "; it waits in ", evidence.waits_in);
  return text;
}

// What a rank may do in a phase that paceline does not see: the script's own work.
std::string_view ExcuseOf(const RankEvidence& rank) {
  if (!rank.has_ring) return "";
  switch (rank.phase) {
    case RankPhase::kUnknown: return "; it may be evaluating or saving";
    case RankPhase::kStart: return "; it may be importing or loading";
    default: return "";
  }
}

void Name(const Scene& scene, const Absence& absence, Verdict* verdict) {
  const std::set<uint32_t>& absent = absence.absent;
  const RankFacts& first = *scene.Find(*absent.begin());
  verdict->hang = IsBusy(first.evidence) ? HangClass::kBusy : HangClass::kBlocked;
  verdict->headline = Concat("was hung: it ", DoingText(first));
  verdict->fingerprint = Concat(HangName(verdict->hang), "@", PlaceOf(first.evidence));
  const std::string shared = SharedCause(scene, absent);
  if (!shared.empty()) {
    verdict->sentence =
        Concat(Capitalized(RanksText(absent)), " wait in ", shared, ". No rank is to blame.");
    return;
  }
  verdict->culprits = RanksOf(absent);
  if (absent.size() > 1) {
    verdict->sentence = Concat(Capitalized(RanksText(absent)), " do not go on.");
    return;
  }
  verdict->sentence = Concat(Capitalized(RankText(first)), " ", DoingText(first));
  if (verdict->act == HangAct::kRestart && absence.limits.must_idle) {
    Append(&verdict->sentence, "; for ", SecondsText(absence.idle),
           " its processes have neither computed nor moved bytes");
  } else {
    verdict->sentence += ExcuseOf(first.evidence);
  }
  verdict->sentence += ".";
}

Absence AbsenceOf(const Scene& scene, std::set<uint32_t> absent, Duration waited) {
  Absence absence{.absent = std::move(absent),
                  .asleep = {},
                  .waited = waited,
                  .idle = Duration::Infinite(),
                  .limits = {.named = Duration(), .blocked = Duration(), .busy = Duration()}};
  for (const uint32_t rank : absence.absent) {
    const RankEvidence& evidence = scene.Find(rank)->evidence;
    const Deadlines own = DeadlinesOf(evidence);
    // A rank that goes from batch to batch works, however long the others wait. For example, rank 0
    // alone evaluates.
    absence.waited = std::min(absence.waited, evidence.quiet_for);
    absence.idle = std::min(absence.idle, evidence.idle_for);
    absence.limits.named = std::max(absence.limits.named, own.named);
    absence.limits.blocked = std::max(absence.limits.blocked, own.blocked);
    absence.limits.busy = std::max(absence.limits.busy, own.busy);
    absence.limits.must_idle = absence.limits.must_idle || own.must_idle;
    absence.is_busy = absence.is_busy || IsBusy(evidence);
    absence.moves = absence.moves || evidence.moved;
  }
  return absence;
}

// Returns the only rank outside backward, if all other ranks sleep in backward and no flight ring
// shows a collective that they wait for (torch before 2.15 records none there).
std::optional<Absence> UnseenAbsence(const Scene& scene) {
  if (!scene.graph.waits_in.empty()) return std::nullopt;
  for (const RankFacts& rank : scene.facts.ranks) {
    const uint32_t number = rank.evidence.rank.value();
    const bool is_apart = rank.evidence.has_ring && rank.evidence.phase != RankPhase::kBackward;
    if (!is_apart) continue;
    std::set<uint32_t> asleep = AsleepInBackward(scene, number);
    if (asleep.empty()) return std::nullopt;
    Absence absence = AbsenceOf(scene, {number}, ShortestQuiet(scene, asleep));
    absence.asleep = std::move(asleep);
    // Nobody has recorded that others wait, so this is named late and never acted on.
    absence.limits = {.named = UnseenLimit(rank.evidence)};
    return absence;
  }
  return std::nullopt;
}

// After what time the ranks are restarted. Infinite: never.
Duration ActLimit(const Scene& scene, const Absence& absence) {
  const Duration limit = absence.is_busy ? absence.limits.busy : absence.limits.blocked;
  const Duration given = scene.facts.act_after;
  if (given == Duration() || limit.is_infinite()) return limit;
  // Nobody knows what a script does in an unknown phase, so its time is not made shorter.
  return absence.limits.must_idle ? std::max(limit, given) : given;
}

// What is done about ranks that do not come, once they have not come for `limit`.
std::string LaterText(const Absence& absence, Duration limit) {
  const std::string restart = "paceline restarts the processes if they ";
  if (absence.limits.must_idle) {
    return Concat(restart, "neither compute nor move bytes for ", ToString(limit));
  }
  return Concat(restart, "do not go on within ", ToString(limit));
}

Verdict VerdictOn(const Scene& scene, const Absence& absence) {
  const Duration limit = ActLimit(scene, absence);
  const Duration stood =
      absence.limits.must_idle ? std::min(absence.waited, absence.idle) : absence.waited;
  const bool is_shared = !SharedCause(scene, absence.absent).empty();
  Verdict verdict;
  verdict.act = HangAct::kTell;
  // A rank that transfers bytes is slow, not hung. And if all wait for one resource, a restart does
  // not help.
  if (limit.is_infinite() || is_shared) {
    verdict.look_again = Duration::Seconds(30);
  } else if (absence.moves) {
    verdict.look_again = std::max(kLookAgainAtBytes, limit - stood);
  } else if (stood < limit) {
    verdict.look_again = limit - stood;
  } else {
    verdict.act = HangAct::kRestart;
  }
  const bool may_act = !limit.is_infinite() && !is_shared;
  if (verdict.act == HangAct::kTell && may_act) verdict.later = LaterText(absence, limit);
  Name(scene, absence, &verdict);
  return verdict;
}

}  // namespace

std::optional<Verdict> JudgeAbsent(const Scene& scene) {
  std::set<uint32_t> absent = AbsentOf(scene);
  std::optional<Absence> absence;
  std::set<uint32_t> waiters;
  if (absent.empty()) {
    absence = UnseenAbsence(scene);
  } else {
    waiters = WaitersFor(scene.graph, absent);
    absence = AbsenceOf(scene, std::move(absent), scene.LongestWait(waiters));
  }
  if (!absence.has_value()) return std::nullopt;
  if (absence->waited < absence->limits.named) {
    return TooEarly(absence->limits.named - absence->waited);
  }
  Verdict verdict = VerdictOn(scene, *absence);
  const std::string wait = WaitText(scene, waiters, absence->absent.size());
  if (!wait.empty()) Append(&verdict.sentence, " ", wait);
  verdict.sentence += AsleepText(absence->asleep, absence->waited);
  return verdict;
}

}  // namespace paceline::diagnose

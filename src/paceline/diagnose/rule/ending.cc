// A rank's script ended by an exception, and its process lives on: a handler of `atexit` or a
// thread keeps the interpreter. Such a process has no step any more, so its failure is only late.
//
// A handler may upload what a logger has kept. So a rank that computes or moves bytes gets longer.

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {
namespace {

constexpr Duration kNamed = Duration::Seconds(10);
constexpr Duration kIdleEnd = Duration::Seconds(30);
constexpr Duration kEnd = Duration::Seconds(120);
// So long before kIdleEnd its processes must have done nothing. An agent looks at a rank only when
// it has been quiet for some seconds.
constexpr Duration kIdle = Duration::Seconds(15);

// The rank that raised first. The others may have raised because of it.
const RankFacts* FirstRaised(const Facts& facts) {
  const RankFacts* first = nullptr;
  for (const RankFacts& rank : facts.ranks) {
    const RankEvidence& evidence = rank.evidence;
    const bool is_earlier = first == nullptr || evidence.raised_for > first->evidence.raised_for;
    if (!evidence.raised.empty() && is_earlier) first = &rank;
  }
  return first;
}

// When to end the process, counted from its exception.
Duration EndLimit(const RankEvidence& rank) {
  if (rank.idle_for >= kIdle) return kIdleEnd;
  return std::clamp(rank.raised_for + (kIdle - rank.idle_for), kIdleEnd, kEnd);
}

// "ValueError" of "ValueError: bad batch (train.py:31)", and ": bad batch (train.py:31)".
std::string_view TypeOf(std::string_view raised) {
  return raised.substr(0, raised.find_first_of(": "));
}

}  // namespace

std::optional<Verdict> JudgeEnding(const Scene& scene) {
  const RankFacts* const first = FirstRaised(scene.facts);
  if (first == nullptr) return std::nullopt;
  const RankEvidence& rank = first->evidence;
  if (rank.raised_for < kNamed) return TooEarly(kNamed - rank.raised_for);
  const Duration limit = EndLimit(rank);
  Verdict verdict;
  verdict.hang = HangClass::kEnding;
  verdict.act = rank.raised_for < limit ? HangAct::kTell : HangAct::kRestart;
  if (verdict.act == HangAct::kTell) {
    verdict.look_again = limit - rank.raised_for;
    verdict.later = Concat("paceline ends the rank ", ToString(kIdleEnd),
                           " after its exception if it does nothing by then, at the latest after ",
                           ToString(kEnd));
  }
  verdict.culprits = {rank.rank};
  const bool has_type = rank.raised != kUnknownException;
  const std::string_view type = has_type ? TypeOf(rank.raised) : rank.raised;
  const std::string rest = rank.raised.substr(type.size());
  verdict.sentence =
      Concat(Capitalized(RankText(*first)), " raised ", type, " and does not end", rest, ". ");
  if (rank.waits_in.empty()) {
    Append(&verdict.sentence, "Its process lives ", SecondsText(rank.raised_for), " later.");
  } else {
    Append(&verdict.sentence, "After ", SecondsText(rank.raised_for), " its process waits in ",
           rank.waits_in, ".");
  }
  verdict.headline = Concat("raised ", rank.raised, " and did not end");
  verdict.fingerprint = rank.raised_as;
  verdict.is_final = rank.raised_is_final;
  return verdict;
}

}  // namespace paceline::diagnose

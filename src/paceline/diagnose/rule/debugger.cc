// A debugger holds a rank, so a person causes all waits.

#include "paceline/base/text.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {

std::optional<Verdict> JudgeDebugger(const Scene& scene) {
  std::set<uint32_t> held;
  for (const RankFacts& rank : scene.facts.ranks) {
    if (rank.evidence.state == 't') held.insert(rank.evidence.rank.value());
  }
  if (held.empty()) return std::nullopt;
  Verdict verdict;
  verdict.hang = HangClass::kDebugger;
  verdict.act = HangAct::kTell;
  verdict.culprits = RanksOf(held);
  verdict.fingerprint = "debugger";
  verdict.look_again = Duration::Seconds(30);
  std::string where;
  if (held.size() == 1) where = WhereText(scene.Find(*held.begin())->evidence);
  verdict.sentence = Concat(Capitalized(RanksText(held)), held.size() == 1 ? " is" : " are",
                            " held by a debugger", where, ". Nothing is done about it.");
  return verdict;
}

}  // namespace paceline::diagnose

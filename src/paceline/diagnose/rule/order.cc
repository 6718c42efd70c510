// Ranks wait for each other in a circle: they call two groups' collectives in different orders.

#include "paceline/base/text.h"
#include "paceline/diagnose/deadline.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {

std::optional<Verdict> JudgeOrder(const Scene& scene) {
  const std::set<uint32_t>& circle = scene.graph.circle;
  if (circle.size() < 2) return std::nullopt;
  const uint32_t first = *circle.begin();
  // A rank of the circle that waits in another group than the first one.
  uint32_t other = *circle.rbegin();
  for (const uint32_t rank : circle) {
    if (scene.graph.waits_in.at(rank)->group != scene.graph.waits_in.at(first)->group) {
      other = rank;
      break;
    }
  }
  const Duration waited = scene.LongestWait(circle);
  const RankFacts* facts = scene.Find(first);
  const Duration limit = facts == nullptr ? kQuietMin : QuietLimit(facts->evidence.step_p99);
  Verdict verdict;
  if (waited < limit) return TooEarly(limit - waited);
  const CollectiveSeen& here = *scene.graph.waits_in.at(first);
  const CollectiveSeen& there = *scene.graph.waits_in.at(other);
  const uint32_t size = scene.facts.world_size;
  verdict.hang = HangClass::kOrder;
  verdict.act = HangAct::kRestart;
  verdict.culprits = RanksOf(circle);
  verdict.sentence =
      Concat(Capitalized(RanksText(circle)), " wait for each other: rank ", first, " in ",
             CollectiveText(here, size), ", rank ", other, " in ", CollectiveText(there, size),
             ". Every rank must call collectives in the same order.");
  verdict.headline =
      Concat("called collectives in another order than its peers: ", CollectiveText(here, size),
             " and ", CollectiveText(there, size));
  verdict.fingerprint = Concat("mismatched order@", here.site, "|", there.site);
  return verdict;
}

}  // namespace paceline::diagnose

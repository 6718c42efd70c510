// Ranks wait for each other in a circle: they call two groups' collectives in different orders.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/diagnose/deadline.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {

namespace {

// The only rank of the circle that waits in a group of its own, while the others wait together.
// None if there are two ranks, or several such groups.
std::optional<uint32_t> OddOne(const WaitGraph& graph, const std::set<uint32_t>& circle) {
  std::map<std::string, std::vector<uint32_t>> waits;
  for (const uint32_t rank : circle) waits[graph.waits_in.at(rank)->group].push_back(rank);
  if (circle.size() < 3 || waits.size() != 2) return std::nullopt;
  const std::vector<uint32_t>& one = waits.begin()->second;
  const std::vector<uint32_t>& two = waits.rbegin()->second;
  if (one.size() != 1 && two.size() != 1) return std::nullopt;
  return one.size() == 1 ? one.front() : two.front();
}

}  // namespace

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
  // Which of them is wrong can be known only if all others agree; a failure names its first rank.
  const std::optional<uint32_t> odd = OddOne(scene.graph, circle);
  const std::string calls =
      Concat(": ", CollectiveText(here, size), " and ", CollectiveText(there, size));
  std::set<uint32_t> others = circle;
  others.erase(odd.value_or(first));
  if (odd.has_value()) {
    verdict.culprits = RanksOf(others);
    verdict.culprits.insert(verdict.culprits.begin(), Rank(*odd));
  }
  verdict.headline = odd.has_value() ? "called collectives in another order than its peers" + calls
                                     : Concat("and ", RanksText(others),
                                              " called collectives in opposite orders", calls);
  verdict.fingerprint = Concat("mismatched order@", here.site, "|", there.site);
  return verdict;
}

}  // namespace paceline::diagnose

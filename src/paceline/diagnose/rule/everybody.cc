// No rank stands out: all came to a collective and none leaves it, or all do the same thing. A link
// or storage may be at fault, or nothing. No rank is named, and nothing is done.

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/diagnose/deadline.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {
namespace {

constexpr Duration kToldAfter = Duration::Seconds(600);

// Ranks that stand in a collective to which all of its group have come.
std::set<uint32_t> Together(const Scene& scene) {
  std::set<uint32_t> ranks;
  for (const auto& [rank, seen] : scene.graph.waits_in) {
    if (!scene.graph.awaits.contains(rank)) ranks.insert(rank);
  }
  return ranks;
}

}  // namespace

std::optional<Verdict> JudgeEverybody(const Scene& scene) {
  if (scene.facts.ranks.empty()) return std::nullopt;
  const std::set<uint32_t> together = Together(scene);
  Duration step;
  Duration quiet;
  for (const RankFacts& rank : scene.facts.ranks) {
    step = std::max(step, rank.evidence.step_p99);
    quiet = std::max(quiet, rank.evidence.quiet_for);
  }
  const bool is_link = !together.empty();
  const Duration limit = is_link && step > Duration() ? BlockedLimit(step) : kToldAfter;
  const Duration waited = is_link ? scene.LongestWait(together) : quiet;
  Verdict verdict;
  if (waited < limit) return TooEarly(limit - waited);
  verdict.hang = HangClass::kEverybody;
  verdict.act = HangAct::kTell;
  verdict.look_again = Duration::Seconds(60);
  if (is_link) {
    const CollectiveSeen& seen = *scene.graph.waits_in.at(*together.begin());
    verdict.sentence =
        Concat(Capitalized(RanksText(together)), " entered ",
               CollectiveText(seen, scene.facts.world_size), " ", SecondsText(waited),
               " ago and none has left it. The network between "
               "them is the first suspect; no rank is.");
    verdict.fingerprint = "collective";
  } else {
    verdict.sentence = Concat("No rank has gone on for ", SecondsText(waited),
                              ", and none waits for another one.");
    verdict.fingerprint = "quiet";
  }
  return verdict;
}

}  // namespace paceline::diagnose

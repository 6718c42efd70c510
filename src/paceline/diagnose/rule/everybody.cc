// No rank stands out: all entered a collective and none leaves it, or all do the same thing. A link
// or storage may be at fault, or nothing. No rank is named or restarted.

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/diagnose/deadline.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {
namespace {

constexpr Duration kToldAfter = Duration::Seconds(600);
constexpr Duration kStartToldAfter = Duration::Seconds(60);
// No verdict yet. The next event of any rank may change that.
constexpr Duration kLookOften = Duration::Seconds(5);
constexpr Duration kLookOftenFor = Duration::Seconds(60);

// Ranks in a collective that all its members have entered.
std::set<uint32_t> Together(const Scene& scene) {
  std::set<uint32_t> ranks;
  for (const auto& [rank, seen] : scene.graph.waits_in) {
    if (!scene.graph.awaits.contains(rank)) ranks.insert(rank);
  }
  return ranks;
}

// When to report `seen`, a collective that no rank leaves.
Duration LinkLimit(Duration step, const CollectiveSeen& seen) {
  if (step > Duration()) return BlockedLimit(step);
  return seen.operation == kStartOperation ? kStartToldAfter : kToldAfter;
}

// "none has left it", or "has not left it, though rank 0 has".
std::string LeftText(const Scene& scene, const std::set<uint32_t>& together,
                     const CollectiveSeen& seen) {
  std::set<uint32_t> left;
  for (const Group& group : scene.graph.groups) {
    if (group.name != seen.group) continue;
    for (const auto& [rank, position] : group.positions) {
      if (position.completed >= seen.sequence) left.insert(rank);
    }
  }
  if (left.empty()) return "none has left it";
  return Concat(together.size() == 1 ? "has" : "have", " not left it, though ", RanksText(left),
                left.size() == 1 ? " has" : " have");
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
  const Duration limit =
      is_link ? LinkLimit(step, *scene.graph.waits_in.at(*together.begin())) : kToldAfter;
  const Duration waited = is_link ? scene.LongestWait(together) : quiet;
  Verdict verdict;
  if (waited < limit) {
    const bool is_new = waited < kLookOftenFor;
    return TooEarly(is_new ? std::min(limit - waited, kLookOften) : limit - waited);
  }
  verdict.hang = HangClass::kEverybody;
  verdict.act = HangAct::kTell;
  verdict.look_again = Duration::Seconds(60);
  if (is_link) {
    const CollectiveSeen& seen = *scene.graph.waits_in.at(*together.begin());
    verdict.sentence = Concat(
        Capitalized(RanksText(together)), " entered ", CollectiveText(seen, scene.facts.world_size),
        " ", SecondsText(waited), " ago and ", LeftText(scene, together, seen),
        ". The network between them is the likely cause; no rank is to blame.");
    verdict.fingerprint = "collective";
  } else {
    verdict.sentence = Concat("No rank has made progress for ", SecondsText(waited),
                              ", and none waits for another.");
    verdict.fingerprint = "quiet";
  }
  return verdict;
}

}  // namespace paceline::diagnose

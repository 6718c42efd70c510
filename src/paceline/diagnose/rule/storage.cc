// All ranks wait for one file and none for another rank: names the file or its storage.

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/diagnose/deadline.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {

std::optional<Verdict> JudgeStorage(const Scene& scene) {
  const std::vector<RankFacts>& ranks = scene.facts.ranks;
  if (ranks.size() < 2 || !scene.graph.waits_in.empty()) return std::nullopt;
  const std::string& call = ranks.front().evidence.waits_in;
  const bool is_shared = call.find(" of /") != std::string::npos &&
                         std::all_of(ranks.begin(), ranks.end(), [&call](const RankFacts& rank) {
                           return rank.evidence.waits_in == call;
                         });
  if (!is_shared) return std::nullopt;
  std::set<uint32_t> all;
  Duration waited = Duration::Infinite();
  Duration limit;
  for (const RankFacts& rank : ranks) {
    all.insert(rank.evidence.rank.value());
    waited = std::min(waited, rank.evidence.quiet_for);
    limit = std::max(limit, DeadlinesOf(rank.evidence).named);
  }
  if (waited < limit) return TooEarly(limit - waited);
  Verdict verdict;
  verdict.hang = HangClass::kEverybody;
  verdict.act = HangAct::kTell;
  verdict.look_again = Duration::Seconds(60);
  verdict.sentence = Concat(Capitalized(RanksText(all)), " have waited ", SecondsText(waited),
                            " in ", call, ". No rank is to blame.");
  verdict.fingerprint = "storage";
  return verdict;
}

}  // namespace paceline::diagnose

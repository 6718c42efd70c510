// All ranks wait for one file, one server or one name server, and none for another rank: names what
// they wait for.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/diagnose/deadline.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {
namespace {

// True if the system call names a file or a socket's other end, as agent/hang/process_look does:
// "read of /data/train.bin", "receive from 10.0.0.3:8080", "poll of 10.0.0.2:53, a name server".
bool NamesResource(std::string_view call) {
  if (call.find(" of /") != std::string_view::npos) return true;
  return call.find(" from ") != std::string_view::npos ||
         call.find(" to ") != std::string_view::npos ||
         (call.starts_with("poll of ") && call.find(':') != std::string_view::npos);
}

}  // namespace

std::optional<Verdict> JudgeStorage(const Scene& scene) {
  const std::vector<RankFacts>& ranks = scene.facts.ranks;
  if (ranks.size() < 2 || !scene.graph.waits_in.empty()) return std::nullopt;
  std::set<uint32_t> all;
  for (const RankFacts& rank : ranks) all.insert(rank.evidence.rank.value());
  const std::string call = SharedWait(scene, all);
  if (!NamesResource(call)) return std::nullopt;
  Duration waited = Duration::Infinite();
  Duration limit;
  for (const RankFacts& rank : ranks) {
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

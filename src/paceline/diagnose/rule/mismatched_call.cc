// Ranks of a group made different calls: one skipped a collective, or used another shape.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/diagnose/deadline.h"
#include "paceline/diagnose/judge.h"
#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {
namespace {

// Sizes are compared only for operations that require equal ones.
constexpr std::array<std::string_view, 5> kEqualSizes = {"all_reduce", "broadcast", "reduce",
                                                         "all_gather", "reduce_scatter"};

bool NeedsEqualSizes(const CollectiveSeen& seen) {
  return std::find(kEqualSizes.begin(), kEqualSizes.end(), seen.operation) != kEqualSizes.end();
}

bool AreAlike(const CollectiveSeen& a, const CollectiveSeen& b) {
  if (a.operation != b.operation) return false;
  return !NeedsEqualSizes(a) || (a.bytes == b.bytes && a.dtype == b.dtype);
}

// "all_reduce of 4096 bytes of float32 at train.py:44"
std::string CallText(const CollectiveSeen& seen) {
  std::string text = seen.operation;
  if (seen.bytes > 0) Append(&text, " of ", seen.bytes, " bytes");
  if (!seen.dtype.empty()) Append(&text, " of ", seen.dtype);
  if (!seen.site.empty()) Append(&text, " at ", seen.site);
  return text;
}

// The ranks whose call differs from that of most ranks. Of two groups of equal size, the one with
// the higher ranks.
std::vector<Call> Minority(const std::vector<Call>& calls) {
  std::vector<std::vector<Call>> camps;
  for (const Call& call : calls) {
    const auto camp = std::find_if(camps.begin(), camps.end(), [&call](const auto& known) {
      return AreAlike(*known.front().seen, *call.seen);
    });
    if (camp == camps.end()) {
      camps.push_back({call});
    } else {
      camp->push_back(call);
    }
  }
  if (camps.size() < 2) return {};
  const auto largest = std::max_element(
      camps.begin(), camps.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::vector<Call> others;
  for (auto camp = camps.begin(); camp != camps.end(); ++camp) {
    if (camp != largest) others.insert(others.end(), camp->begin(), camp->end());
  }
  return others;
}

// A group's first sequence number at which a rank waits and the calls differ.
std::vector<Call> FirstMismatch(const Group& group, std::vector<Call>* others) {
  std::map<uint64_t, std::vector<Call>> by_sequence;
  for (const Call& call : group.calls) by_sequence[call.seen->sequence].push_back(call);
  for (const auto& [sequence, calls] : by_sequence) {
    const bool is_waited_in = std::any_of(calls.begin(), calls.end(),
                                          [](const Call& call) { return !call.seen->is_complete; });
    if (!is_waited_in) continue;
    *others = Minority(calls);
    if (!others->empty()) return calls;
  }
  return {};
}

std::string Fingerprint(const CollectiveSeen& call, const CollectiveSeen& most) {
  return Concat("mismatched call@", call.site, "|", most.site);
}

Verdict VerdictOn(const Scene& scene, const std::vector<Call>& calls,
                  const std::vector<Call>& others) {
  Verdict verdict;
  std::set<uint32_t> culprits;
  for (const Call& call : others) culprits.insert(call.rank);
  std::set<uint32_t> rest;
  const CollectiveSeen* most = nullptr;
  Duration waited;
  for (const Call& call : calls) {
    waited = std::max(waited, call.seen->age);
    if (culprits.contains(call.rank)) continue;
    rest.insert(call.rank);
    most = call.seen;
  }
  const RankFacts& first = *scene.Find(*culprits.begin());
  const CollectiveSeen& call = *others.front().seen;
  const Duration limit = QuietLimit(first.evidence.step_p99);
  if (waited < limit) return TooEarly(limit - waited);
  verdict.hang = HangClass::kMismatch;
  verdict.act = HangAct::kRestart;
  verdict.culprits = RanksOf(culprits);
  verdict.sentence =
      Concat(Capitalized(RanksText(culprits)), " made another call than ", RanksText(rest), ": ",
             CallText(call), ", not ", CallText(*most), ". It was call ", call.sequence, " of ",
             GroupText(call.group, scene.facts.world_size), ".");
  verdict.headline =
      Concat("made another call than its peers: ", CallText(call), ", not ", CallText(*most));
  verdict.fingerprint = Fingerprint(call, *most);
  return verdict;
}

}  // namespace

std::optional<OtherCall> FindOtherCall(const std::vector<RankEvidence>& ranks, Rank failed) {
  const auto own = std::find_if(ranks.begin(), ranks.end(),
                                [failed](const RankEvidence& rank) { return rank.rank == failed; });
  if (own == ranks.end() || own->collectives.empty()) return std::nullopt;
  const CollectiveSeen& last = own->collectives.back();
  std::vector<Call> calls;
  for (const RankEvidence& rank : ranks) {
    for (const CollectiveSeen& seen : rank.collectives) {
      const bool is_same = seen.group == last.group && seen.sequence == last.sequence;
      if (is_same) calls.push_back({rank.rank.value(), &seen});
    }
  }
  const std::vector<Call> others = Minority(calls);
  if (others.empty()) return std::nullopt;
  std::set<uint32_t> culprits;
  for (const Call& call : others) culprits.insert(call.rank);
  std::set<uint32_t> rest;
  const CollectiveSeen* most = nullptr;
  for (const Call& call : calls) {
    if (culprits.contains(call.rank)) continue;
    rest.insert(call.rank);
    most = call.seen;
  }
  const CollectiveSeen& call = *others.front().seen;
  return OtherCall{
      .sentence = Concat(RanksText(culprits), " made another call than ", RanksText(rest), ": ",
                         CallText(call), ", not ", CallText(*most)),
      .fingerprint = Fingerprint(call, *most)};
}

std::optional<Verdict> JudgeMismatchedCall(const Scene& scene) {
  for (const Group& group : scene.graph.groups) {
    std::vector<Call> others;
    const std::vector<Call> calls = FirstMismatch(group, &others);
    if (!calls.empty()) return VerdictOn(scene, calls, others);
  }
  return std::nullopt;
}

}  // namespace paceline::diagnose

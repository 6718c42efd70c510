#include "paceline/sim/lease/lease_verdict.h"

#include "paceline/base/text.h"

namespace paceline::sim {
namespace {

// Ranks that save the same steps must end at a common step, and all ranks must read one order.
std::string JudgeRanks(const LeaseEnd& end) {
  const uint64_t granted = end.workers.front().granted;
  for (const LeaseWorker& worker : end.workers) {
    if (worker.is_told) return Concat("rank ", worker.rank, " was told that orders differ");
    if (end.is_even && worker.granted != granted) {
      return Concat("rank ", worker.rank, " was granted ", worker.granted, " ordinals, rank 0 ",
                    granted);
    }
  }
  return "";
}

// How often each ordinal was acknowledged in the surviving lineage, and the quarantined ordinals.
std::vector<uint64_t> CountFacts(const LeaseEnd& end, IntervalSet* out) {
  std::vector<uint64_t> facts(end.ordinals);
  LeaseBook fold;
  for (const LeaseFact& fact : end.journal) {
    fold.Restore(fact);
    if (fact.kind == LeaseFact::Kind::kAcked) {
      for (uint64_t i = fact.begin; i < fact.end; ++i) ++facts[i];
    } else if (fact.kind == LeaseFact::Kind::kRewound) {
      for (uint64_t i = 0; i < end.ordinals; ++i) facts[i] = fold.IsDone(fact.set, i) ? 1 : 0;
    }
  }
  for (const DataSetView& view : fold.Views()) {  // deaths often take innocent samples along
    for (const OrdinalRange& range : view.quarantined) out->Add(range);
  }
  return facts;
}

}  // namespace

std::string JudgeLeases(const LeaseEnd& end) {
  if (std::string wrong = JudgeRanks(end); !wrong.empty()) return wrong;
  IntervalSet out;
  const std::vector<uint64_t> facts = CountFacts(end, &out);
  std::vector<uint64_t> model(end.ordinals);
  for (const LeaseWorker& worker : end.workers) {
    for (const auto& [ordinal, count] : worker.counts) model[ordinal] += count;
  }
  uint64_t left = 0;  // goes to no rank
  for (uint64_t i = 0; i < end.ordinals; ++i) {
    const bool is_out = out.Covers({i, i + 1});
    if (i == end.poisoned && !is_out) return "the poisoned one is not in quarantine";
    const bool is_left = end.is_even && facts[i] == 0 && !is_out;
    if (is_left && ++left >= end.workers.size()) return "the ranks could have shared what is left";
    const uint64_t wanted = is_left || is_out ? 0 : 1;
    if (facts[i] != wanted) {
      return Concat("ordinal ", i, " was acknowledged ", facts[i], " times");
    }
    // Without checkpoints, confirmations of dead workers are lost.
    const bool is_wrong = end.follows ? model[i] != wanted : model[i] > wanted;
    if (is_wrong) return Concat("ordinal ", i, " counts ", model[i]);
  }
  return "";
}

}  // namespace paceline::sim

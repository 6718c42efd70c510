#include "paceline/sim/lease/stream_verdict.h"

#include <algorithm>
#include <map>

#include "paceline/base/text.h"

namespace paceline::sim {
namespace {

// Of the newest rewind; 0: there was none.
uint64_t GenerationOf(const std::vector<LeaseFact>& journal) {
  const auto rewound = std::find_if(journal.rbegin(), journal.rend(), [](const LeaseFact& fact) {
    return fact.kind == LeaseFact::Kind::kRewound;
  });
  return rewound == journal.rend() ? 0 : rewound->begin;
}

}  // namespace

std::string WhyNotOver(const StreamEnd& end, const LeaseBook& book) {
  uint64_t most = 0;
  uint64_t least = UINT64_MAX;
  uint64_t generation = 0;
  for (const LeaseWorker& worker : end.workers) {
    if (!worker.is_alive) return Concat("rank ", worker.rank);
    most = std::max<uint64_t>(most, worker.held.size());
    least = std::min<uint64_t>(least, worker.held.size());
    generation = std::max(generation, worker.generation);
  }
  if (most > least + 1) return Concat("a worker has ", most, " partitions, another ", least);
  if (end.follows && GenerationOf(end.journal) < generation) {
    return Concat("the ledger of generation ", generation);
  }
  const std::vector<DataSetView> views = book.Views();
  if (views.empty() || views[0].partitions.size() < end.topics.size()) return "partitions";
  for (const PartitionView& one : views[0].partitions) {
    const StreamTopic& topic = end.topics[ParseWhole<uint64_t>(one.name).value_or(0)];
    if (one.offset < topic.end) return Concat("partition ", one.name);
  }
  return "";
}

std::string JudgeStream(const StreamEnd& end) {
  std::map<uint64_t, uint64_t> model;
  for (const LeaseWorker& worker : end.workers) {
    for (const auto& [key, count] : worker.counts) model[key] += count;
  }
  LeaseStream stream;
  std::map<uint64_t, uint64_t> facts;  // acknowledgements in the surviving lineage, by ordinal
  LeaseBook fold;
  for (const LeaseFact& fact : end.journal) {
    fold.Restore(fact);
    if (fact.kind == LeaseFact::Kind::kFound) {
      stream.Add({fact.text, fact.lease, {fact.begin, fact.end}});
    } else if (fact.kind == LeaseFact::Kind::kAcked) {
      for (uint64_t i = fact.begin; i < fact.end; ++i) ++facts[i];
    } else if (fact.kind == LeaseFact::Kind::kRewound) {
      for (auto& [ordinal, count] : facts) count = fold.IsDone(fact.set, ordinal) ? 1 : 0;
    }
  }
  IntervalSet gaps;
  for (const LeaseFact& fact : fold.Summary()) {
    if (fact.kind == LeaseFact::Kind::kGap) gaps.Add({fact.begin, fact.end});
  }
  for (const Partition& one : stream.partitions()) {
    const uint64_t number = ParseWhole<uint64_t>(one.name).value_or(0);
    const StreamTopic& topic = end.topics[number];
    for (uint64_t offset = one.base; offset < topic.end; ++offset) {
      const uint64_t ordinal = one.range.begin + offset - one.base;
      const std::string which = Concat("partition ", number, " offset ", offset);
      if (facts[ordinal] != 1) return Concat(which, " was acknowledged ", facts[ordinal], " times");
      const uint64_t count = model[StreamKey(number, offset)];
      const bool is_eaten = gaps.Covers({ordinal, ordinal + 1});
      if (is_eaten && offset >= topic.oldest) return which + " is in a gap, and there";
      // Without checkpoints, confirmations of dead workers are lost.
      const uint64_t most = is_eaten && end.follows ? 0 : 1;
      const bool is_short = end.follows && !is_eaten && count == 0;
      if (count > most || is_short) return Concat(which, " counts ", count);
    }
  }
  return "";
}

}  // namespace paceline::sim

#include "paceline/sim/lease/stream_verdict.h"

#include <gtest/gtest.h>

namespace paceline::sim {
namespace {

using Kind = LeaseFact::Kind;

std::string WhyNotOverAfter(const std::vector<LeaseFact>& journal, const LeaseWorker& worker) {
  LeaseBook book;
  for (const LeaseFact& fact : journal) book.Restore(fact);
  const std::vector<LeaseWorker> workers = {worker};
  const std::vector<StreamTopic> topics = {{.base = 0, .oldest = 0, .end = 10}};
  return WhyNotOver({.journal = journal, .workers = workers, .topics = topics, .follows = true},
                    book);
}

TEST(StreamVerdictTest, AWorldThatRestartsIsOverOnlyAfterTheLedgerIsRewound) {
  std::vector<LeaseFact> journal = {
      {.kind = Kind::kOpened, .set = 1, .begin = 3, .end = kSamplesMax, .text = "train\n{}"},
      {.kind = Kind::kRewound, .set = 1, .begin = 1},
      {.kind = Kind::kFound, .set = 1, .begin = 0, .end = kPartitionOrdinals, .text = "0"},
      {.kind = Kind::kAcked, .set = 1, .begin = 0, .end = 10},
  };
  LeaseWorker worker;
  EXPECT_EQ(WhyNotOverAfter(journal, worker), "");
  worker.generation = 2;  // its model is that of a save, and the ledger has not heard of it yet
  EXPECT_EQ(WhyNotOverAfter(journal, worker), "the ledger of generation 2");
  journal.push_back({.kind = Kind::kRewound, .set = 1, .begin = 2});
  EXPECT_EQ(WhyNotOverAfter(journal, worker), "partition 0");
  journal.push_back({.kind = Kind::kAcked, .set = 1, .begin = 0, .end = 10});
  EXPECT_EQ(WhyNotOverAfter(journal, worker), "");
}

}  // namespace
}  // namespace paceline::sim

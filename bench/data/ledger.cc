// The ledger of a data set, as a checkpoint of it: how large, and how long to write and to read.
// bench/data/ledger.py says what is asked.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/base/prng.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/data/lease/shard_ledger.h"

namespace paceline {
namespace {

constexpr uint64_t kShards = 50'000, kSamplesAShard = 100, kOpen = 1'000;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Half of the data set was given out, a shard a lease; of that kOpen shards are not done, anywhere.
ShardLedger HalfDone(const LedgerSpec& spec, uint64_t seed) {
  ShardLedger ledger(spec);
  Prng prng(seed);
  constexpr uint64_t kTaken = kShards / 2 + kOpen;
  std::vector<LeaseGrant> grants;
  for (uint64_t i = 0; i < kTaken; ++i) {
    const TakeResult taken = ledger.Take(Instant(), {i % kOpen, 1});
    CHECK(taken.answer == TakeAnswer::kGranted);
    grants.push_back(taken.grant);
  }
  std::vector<uint64_t> order(kTaken);
  for (uint64_t i = 0; i < kTaken; ++i) order[i] = i;
  for (uint64_t i = kTaken - 1; i > 0; --i) std::swap(order[i], order[prng.Below(i + 1)]);
  for (uint64_t i = kOpen; i < kTaken; ++i) {
    const LeaseGrant& grant = grants[order[i]];
    CHECK(ledger.Ack(Instant(), {order[i] % kOpen, 1}, grant.lease, grant.range.end));
  }
  CHECK(ledger.open_leases() == kOpen);
  return ledger;
}

void Run(uint64_t seed) {
  const LedgerSpec spec{.samples = kShards * kSamplesAShard,
                        .lease_min = kSamplesAShard,
                        .lease_max = kSamplesAShard,
                        .lease_first = kSamplesAShard};
  const ShardLedger ledger = HalfDone(spec, seed);
  const double began = Now();
  const std::string text = RangesToText(ledger.Snapshot().done);
  const double written = Now();
  LedgerSnapshot read{.samples = spec.samples, .done = {}, .quarantined = {}, .blamed = {}};
  read.done = RangesFromText(text).value();
  const ShardLedger again = ShardLedger::Restore(spec, read, ledger.next_lease());
  const double restored = Now();
  CHECK(again.Snapshot().done == ledger.Snapshot().done);
  std::printf("{\"bytes\": %zu, \"write\": %.9f, \"read\": %.9f}\n", text.size(), written - began,
              restored - written);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  for (int i = 0; i < rounds; ++i) paceline::Run(static_cast<uint64_t>(i + 1));
  return 0;
}

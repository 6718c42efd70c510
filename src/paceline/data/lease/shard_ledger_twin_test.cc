// Compares the ledger with a slow, simple twin, under workers that die, return, freeze and ack
// late, and restarts of the ledger. Every accepted result is counted: at the end each ordinal has
// exactly one, or is quarantined. Each canary breaks one rule and must be detected.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/data/lease/shard_ledger.h"

namespace paceline {
namespace {

enum class Canary {
  kNone,
  kCountStale,    // a worker counts a refused result: no fence
  kLoseAck,       // a restart forgets answered acks
  kForgetDead,    // a dead worker's leases are never returned
  kDropPoisoned,  // a failed lease is counted as done
  kDivide,        // the ledger does not know what a batch is
};

// The reference: one state for each ordinal.
class Twin {
 public:
  Twin(uint64_t samples, const Units& units)
      : holder_(samples), is_done_(samples), is_border_(samples + 1) {
    // By walking over the batches, instead of computing their borders.
    is_border_[0] = is_border_[samples] = true;
    uint64_t in_batch = 0;
    for (uint64_t i = 0; i < samples; ++i) {
      const bool is_last_of_epoch = units.epoch > 0 && (i + 1) % units.epoch == 0;
      in_batch = is_last_of_epoch || in_batch + 1 >= units.unit ? 0 : in_batch + 1;
      if (in_batch == 0) is_border_[i + 1] = true;
    }
  }

  void Lease(const LeaseGrant& grant) {
    if (!IsBorder(grant.range.begin) || !IsBorder(grant.range.end)) {
      wrong_ = "lease " + std::to_string(grant.lease) + " divides a batch";
    }
    for (uint64_t i = grant.range.begin; i < grant.range.end; ++i) {
      if (is_done_[i] || holder_[i] != 0) wrong_ = "ordinal " + std::to_string(i) + " leased twice";
      holder_[i] = grant.lease;
    }
  }
  void Free(uint64_t lease) { std::replace(holder_.begin(), holder_.end(), lease, uint64_t{0}); }
  void Done(uint64_t lease, uint64_t until) {
    for (uint64_t i = 0; i < until; ++i) {
      if (holder_[i] != lease) continue;
      holder_[i] = 0;
      is_done_[i] = true;
    }
  }
  void Restart() { std::fill(holder_.begin(), holder_.end(), uint64_t{0}); }

  bool IsBorder(uint64_t ordinal) const { return is_border_[ordinal]; }
  // The first border at or above `ordinal`.
  uint64_t UpToBorder(uint64_t ordinal) const {
    while (!IsBorder(ordinal)) ++ordinal;
    return ordinal;
  }

  std::string Compare(const ShardLedger& ledger) const {
    for (const OrdinalRange& bad : ledger.quarantined().Ranges()) {
      if (!IsBorder(bad.begin) || !IsBorder(bad.end)) return "a part of a batch is in quarantine";
    }
    for (const Blamed& blamed : ledger.Snapshot().blamed) {
      if (!IsBorder(blamed.range.begin) || !IsBorder(blamed.range.end)) {
        return "a part of a batch is blamed";
      }
    }
    if (!wrong_.empty()) return wrong_;
    const auto done = static_cast<uint64_t>(std::count(is_done_.begin(), is_done_.end(), true));
    if (done != ledger.done().total()) return "the twin has other numbers done";
    for (uint64_t i = 0; i < is_done_.size(); ++i) {
      if (is_done_[i] != ledger.done().Covers({i, i + 1})) {
        return "ordinal " + std::to_string(i) + " is done in one of the two only";
      }
    }
    return "";
  }

 private:
  std::vector<uint64_t> holder_;
  std::vector<bool> is_done_;
  std::vector<bool> is_border_;
  std::string wrong_;
};

struct Worker {
  WorkerKey key;
  std::optional<LeaseGrant> lease;
  uint64_t next = 0;  // acknowledged up to here
};

class Schedule {
 public:
  Schedule(uint64_t seed, Canary canary, const Units& units = {})
      : prng_(seed),
        canary_(canary),
        spec_{.samples = 20 + prng_.Below(200),
              .lease_first = 1 + prng_.Below(40),
              .deadline_min = Duration::Seconds(5),
              .failures_max = 1 + prng_.Below(3),
              .units = canary == Canary::kDivide ? Units{} : units},
        ledger_(spec_),
        twin_(spec_.samples, units),
        counts_(spec_.samples),
        poisoned_(prng_.Chance(1, 3) ? prng_.Below(spec_.samples) : UINT64_MAX) {
    for (uint64_t i = 0; i < 1 + prng_.Below(5); ++i) {
      workers_.push_back({.key = {.worker = i, .incarnation = 1}});
    }
  }

  // Returns the first error, or "".
  std::string Run() {
    constexpr int kFaultyTurns = 400;
    constexpr int kTurnsMax = 3'000;
    for (int turn = 0; turn < kTurnsMax; ++turn) {
      is_calm_ = turn >= kFaultyTurns;
      Step();
      if (const std::string broken = ledger_.Broken(); !broken.empty()) return broken;
      if (const std::string other = twin_.Compare(ledger_); !other.empty()) return other;
      if (is_calm_ && ledger_.IsComplete()) return CheckCounts();
    }
    return "did not end: " + ledger_.Describe();
  }

 private:
  void Step() {
    now_ += Duration::Milliseconds(static_cast<int64_t>(prng_.Below(700)));
    ExpireDue();
    const uint64_t choice = prng_.Below(100);
    Worker& worker = workers_[prng_.Below(workers_.size())];
    if (!is_calm_ && choice < 4) {
      Die(worker, /*is_noticed=*/prng_.Chance(1, 2));
    } else if (!is_calm_ && choice < 6) {
      RestartLedger();
    } else if (!is_calm_ && choice < 10) {
      ZombieAcks();
    } else {
      Work(worker);
    }
  }

  void ExpireDue() {
    // The twin learns it by asking which leases are gone.
    if (canary_ == Canary::kForgetDead) return;
    ledger_.ExpireDue(now_);
    Resync();
  }

  // A lease that the ledger does not have any more is free in the twin.
  void Resync() {
    for (auto it = open_.begin(); it != open_.end();) {
      if (ledger_.Ack(now_, it->first, it->second, 0)) {  // an ack that changes nothing
        ++it;
      } else {
        twin_.Free(it->second);
        it = open_.erase(it);
      }
    }
  }

  void Work(Worker& worker) {
    if (!worker.lease) {
      const TakeResult taken = ledger_.Take(now_, worker.key);
      Resync();
      if (taken.answer != TakeAnswer::kGranted) return;
      twin_.Lease(taken.grant);
      open_.emplace_back(worker.key, taken.grant.lease);
      worker.lease = taken.grant;
      worker.next = taken.grant.range.begin;
      return;
    }
    const OrdinalRange range = worker.lease->range;
    const uint64_t until = twin_.UpToBorder(std::min(range.end, worker.next + 1 + prng_.Below(20)));
    if (worker.next <= poisoned_ && poisoned_ < until) {
      if (canary_ == Canary::kDropPoisoned) {
        ledger_.Ack(now_, worker.key, worker.lease->lease, until);
        twin_.Done(worker.lease->lease, until);
        worker.lease.reset();
        return;
      }
      if (prng_.Chance(1, 2)) return Die(worker, /*is_noticed=*/true);
      ledger_.Fail(worker.key, worker.lease->lease);
      worker.lease.reset();
      return Resync();
    }
    Acknowledge(worker, until);
  }

  void Acknowledge(Worker& worker, uint64_t until) {
    const uint64_t lease = worker.lease->lease;
    const bool is_accepted = ledger_.Ack(now_, worker.key, lease, until);
    if (is_accepted) twin_.Done(lease, until);
    if (is_accepted || canary_ == Canary::kCountStale) {
      for (uint64_t i = worker.next; i < until; ++i) ++counts_[i];
    }
    worker.next = until;
    if (!is_accepted || until == worker.lease->range.end) worker.lease.reset();
    Resync();
  }

  void Die(Worker& worker, bool is_noticed) {
    if (worker.lease) zombies_.push_back(worker);
    if (is_noticed && canary_ != Canary::kForgetDead) {
      ledger_.Expire(worker.key, prng_.Chance(1, 2));
    }
    Resync();
    if (canary_ == Canary::kForgetDead) {
      worker.key.worker += 100;  // the old process is gone without notice
    } else {
      ++worker.key.incarnation;
    }
    worker.lease.reset();
  }

  // A worker that was thought dead continues.
  void ZombieAcks() {
    if (zombies_.empty()) return;
    Worker& zombie = zombies_[prng_.Below(zombies_.size())];
    if (zombie.lease && zombie.next < zombie.lease->range.end) {
      const uint64_t until = twin_.UpToBorder(zombie.next + 1);
      const bool has_bad = zombie.next <= poisoned_ && poisoned_ < until;
      if (!has_bad) Acknowledge(zombie, until);
    }
  }

  void RestartLedger() {
    LedgerSnapshot durable = ledger_.Snapshot();
    if (canary_ == Canary::kLoseAck && !durable.done.empty()) {
      durable.done.back().end -= 1;
      if (durable.done.back().size() == 0) durable.done.pop_back();
    }
    const uint64_t first_lease = durable.next_lease + prng_.Below(50);
    ledger_ = ShardLedger::Restore(spec_, durable, first_lease);
    twin_.Restart();
    open_.clear();
    for (Worker& worker : workers_) {
      if (!worker.lease || prng_.Chance(1, 4)) continue;  // a quarter is late
      if (ledger_.Present(now_, worker.key, *worker.lease, worker.next)) {
        twin_.Lease(
            {.lease = worker.lease->lease, .range = {worker.next, worker.lease->range.end}});
        open_.emplace_back(worker.key, worker.lease->lease);
      }
    }
    // Late or refused workers learn it from their next ack. Zombies present their leases, too.
    for (const Worker& zombie : zombies_) {
      const bool has_more = zombie.lease && zombie.next < zombie.lease->range.end;
      if (!has_more || prng_.Chance(1, 2)) continue;
      if (ledger_.Present(now_, zombie.key, *zombie.lease, zombie.next)) {
        Resync();
        twin_.Lease(
            {.lease = zombie.lease->lease, .range = {zombie.next, zombie.lease->range.end}});
        open_.emplace_back(zombie.key, zombie.lease->lease);
      }
    }
  }

  std::string CheckCounts() const {
    for (uint64_t i = 0; i < counts_.size(); ++i) {
      const bool is_out = ledger_.quarantined().Covers({i, i + 1});
      if (counts_[i] != (is_out ? 0u : 1u)) {
        return "ordinal " + std::to_string(i) + " counts " + std::to_string(counts_[i]);
      }
    }
    return "";
  }

  Prng prng_;
  Canary canary_;
  LedgerSpec spec_;
  ShardLedger ledger_;
  Twin twin_;
  std::vector<uint64_t> counts_;
  uint64_t poisoned_;
  std::vector<Worker> workers_;
  std::vector<Worker> zombies_;
  std::vector<std::pair<WorkerKey, uint64_t>> open_;
  Instant now_;
  bool is_calm_ = false;
};

TEST(ShardLedgerTwinTest, EveryOrdinalCountsOnceUnderEveryScheduleOfFaults) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    ASSERT_EQ(Schedule(seed, Canary::kNone).Run(), "") << "seed " << seed;
  }
}

// Batches of one to nine samples, in one epoch or several, whose last batch is shorter in most.
TEST(ShardLedgerTwinTest, NoFaultDividesABatch) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Units units{.unit = 1 + seed % 9, .epoch = seed % 4 == 0 ? 0 : 7 + seed % 41};
    ASSERT_EQ(Schedule(seed, Canary::kNone, units).Run(), "") << "seed " << seed;
  }
}

TEST(ShardLedgerTwinTest, EachCanaryIsSeen) {
  for (const Canary canary :
       {Canary::kCountStale, Canary::kLoseAck, Canary::kForgetDead, Canary::kDropPoisoned}) {
    int seen = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed)
      seen += Schedule(seed, canary).Run().empty() ? 0 : 1;
    EXPECT_GT(seen, 0) << "canary " << static_cast<int>(canary);
  }
}

TEST(ShardLedgerTwinTest, ALedgerThatDividesBatchesIsSeen) {
  const Units units{.unit = 7, .epoch = 30};
  int seen = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    seen += Schedule(seed, Canary::kDivide, units).Run().empty() ? 0 : 1;
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace paceline

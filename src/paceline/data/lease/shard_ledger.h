#pragma once

// Asynchronous work: workers lease ordinals of an epoch, faster ones get more, and what a dead one
// had comes back. One epoch of one data set; pure, the time is an argument.
//
// Every ordinal is in exactly one state:
//
//        Take               Ack
//   free ────▶ leased ──────────────▶ done
//     ▲          │ not its holder's fault
//     ├──────────┤
//     │          │ expiry, Fail
//     │          ▼
//   (Take)   blamed ── failed on several workers ──▶ suspect, halved ──▶ quarantined
//
// - What is free is handed out lowest first, so what came back goes before what is new.
// - An ack is about a lease and fenced by it: who lost the lease, by a deadline, by its death or to
//   a newer incarnation of itself, is told `stale` and throws its result away. An ordinal is done
//   once. A parameter server that applies gradients exactly once refuses by the same two numbers,
//   (lease, incarnation), and skips what it has applied of an ordinal already.
// - Nothing is dropped: a range that failed is leased as it is, to somebody else where there is
//   one. After failures on `failures_max` workers, or twice as many on fewer, it is suspect: halved
//   now and at each further failure, until single samples are left. One that fails as often again
//   is quarantined and named; completion then says "except".
// - Done ordinals, quarantined ones and blame are the durable state. Leases are not: after a
// restart their
//   holders present them again, and get new ones when somebody else has the range. Ids of leases
//   begin above all that may have been given out (`first_lease` of a restore).
//
// Its size, and that of a snapshot, is the number of open ranges, not of ordinals.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/data/lease/blame.h"
#include "paceline/data/lease/interval_set.h"

namespace paceline {

struct LedgerSpec {
  uint64_t samples = 0;
  uint64_t lease_min = 1;                         // ordinals of a lease, where so many are left
  uint64_t lease_max = 1'000'000;                 // never more
  uint64_t lease_first = 64;                      // to a worker whose speed is not known yet
  Duration lease_length = Duration::Seconds(3);   // how long a worker should be busy with one
  Duration deadline_min = Duration::Seconds(10);  // without an ack, from the last one
  int deadline_lengths = 4;                       // and at least so many expected lengths
  uint64_t failures_max = 3;                      // on so many workers before suspicion
};

struct LeaseGrant {
  uint64_t lease = 0;
  OrdinalRange range;
  bool operator==(const LeaseGrant&) const = default;
};

// Why a Take gave nothing.
enum class TakeAnswer {
  kGranted,
  kWait,      // all that is left is leased to others; ask again when told or after a while
  kComplete,  // nothing is left
  kFenced,    // a newer incarnation of this worker has spoken
};

struct TakeResult {
  TakeAnswer answer = TakeAnswer::kGranted;
  LeaseGrant grant;  // kGranted
};

// The durable state. Whatever it does not name is free.
struct LedgerSnapshot {
  uint64_t samples = 0;
  std::vector<OrdinalRange> done;
  std::vector<OrdinalRange> quarantined;
  std::vector<Blamed> blamed;  // on its way to quarantine
  uint64_t next_lease = 1;
  bool operator==(const LedgerSnapshot&) const = default;
};

class ShardLedger {
 public:
  explicit ShardLedger(const LedgerSpec& spec);

  // From a snapshot: what was leased is free again until its holders present it. `first_lease` is
  // above every id that was ever given out.
  static ShardLedger Restore(const LedgerSpec& spec, const LedgerSnapshot& snapshot,
                             uint64_t first_lease);

  // Other sizes and patience from now on; the number of samples stays.
  void Tune(const LedgerSpec& spec);

  // A lease for this worker, of a size that its speed asks for.
  // `most`: ordinals of it, never more; what was blamed is cut there, and both parts keep the
  // blame.
  TakeResult Take(Instant now, const WorkerKey& worker, uint64_t most = UINT64_MAX);

  // What is left of a lease; nothing when this worker does not have it.
  std::optional<OrdinalRange> LeftOf(const WorkerKey& worker, uint64_t lease) const;

  // Everything of the lease below `until` is done. False: stale, the caller's work does not count.
  // An ack that says less than an earlier one changes nothing. The last one ends the lease.
  bool Ack(Instant now, const WorkerKey& worker, uint64_t lease, uint64_t until);

  // The worker cannot do what is left of the lease. False: stale.
  bool Fail(const WorkerKey& worker, uint64_t lease);
  // It cannot do that part of it and gives back the rest, without blame. False: stale, or no part.
  bool FailPart(const WorkerKey& worker, uint64_t lease, OrdinalRange bad);

  // The process is known to be dead: its leases come back at once; the oldest, on which it worked,
  // as failed where `is_suspicious` (it died by itself). Those that it had ahead, and all when its
  // node was taken away, come back without blame.
  void Expire(const WorkerKey& worker, bool is_suspicious);

  // The worker knows of these leases alone: what was granted besides was lost on the way to it, and
  // comes back without blame.
  void KeepOnly(const WorkerKey& worker, const std::set<uint64_t>& known);

  // The worker does not have that lease: it comes back without blame. False: it is not its own.
  bool Return(const WorkerKey& worker, uint64_t lease);

  // Leases of workers that acknowledged nothing until their deadline come back; the deadline is
  // that of the oldest one, as others wait for it. NextDeadline: when to ask; Max() for never.
  void ExpireDue(Instant now);
  Instant NextDeadline() const;

  // After a restore: a lease that its holder still works on, done below `next`. True: it goes on
  // under its old id. False: somebody else has some of it, or it is done; throw the rest away.
  bool Present(Instant now, const WorkerKey& worker, const LeaseGrant& grant, uint64_t next);

  // The data set has grown; never shrinks.
  void Grow(uint64_t samples);

  // What was blamed since the last call, in order; each in the place of all that it overlaps.
  std::vector<Blamed> TakeBlamed() { return std::exchange(newly_blamed_, {}); }

  // Nothing is free, leased or blamed. Not for ever when the data set may grow.
  bool IsComplete() const;

  uint64_t samples() const { return spec_.samples; }
  const IntervalSet& done() const { return done_; }
  const IntervalSet& quarantined() const { return quarantined_; }
  uint64_t open_leases() const { return leases_.size(); }
  uint64_t next_lease() const { return next_lease_; }
  uint64_t leased() const;    // ordinals
  uint64_t unleased() const;  // ordinals that wait for a Take
  LedgerSnapshot Snapshot() const;

  // "done" or "incomplete: …" in one sentence, with what was quarantined.
  std::string Describe() const;

  // Every ordinal is in exactly one state; for tests and simulators. Empty when it is so.
  std::string Broken() const;

 private:
  struct Lease {
    OrdinalRange range;  // what is left of it
    WorkerKey worker;
    std::optional<Blamed> blamed;  // as it was taken
  };
  struct Pace {
    uint64_t incarnation = 0;
    Instant since;            // from when `finished` are counted
    uint64_t finished = 0;    // since then, not yet in the rate
    uint64_t per_1000_s = 0;  // ordinals; 0 before the first measurement
    std::set<uint64_t> open;  // leases, the oldest first
    Instant deadline;         // of the oldest
  };
  using Leases = std::map<uint64_t, Lease>;

  // Notes the incarnation; a new one takes the leases of the ones before. False: it is an old one.
  bool Admit(Instant now, const WorkerKey& worker);
  uint64_t SizeFor(const WorkerKey& worker) const;
  Instant DeadlineFor(Instant now, const WorkerKey& worker, uint64_t size) const;
  std::optional<Blamed> BlamedFor(const WorkerKey& worker) const;
  Blamed CutBlamed(Blamed blamed, uint64_t most);
  Leases::iterator Find(const WorkerKey& worker, uint64_t lease);
  void Measure(Instant now, uint64_t finished, Pace* pace);
  // The worker took its first lease, made progress, or presents one.
  void Extend(Instant now, const WorkerKey& worker);
  bool GiveBackOwn(const WorkerKey& worker, uint64_t lease, bool is_suspicious);
  void GiveBackAll(uint64_t worker, bool is_suspicious);
  void GiveBack(Leases::iterator lease, bool is_suspicious);
  void Blame(Blamed blamed, const WorkerKey& worker);
  void KeepBlamed(Blamed blamed);

  LedgerSpec spec_;
  IntervalSet free_;
  IntervalSet done_;
  IntervalSet quarantined_;
  Leases leases_;
  std::map<uint64_t, Pace> pace_;      // by worker
  std::map<uint64_t, Blamed> blamed_;  // by begin; one that is leased is not here
  std::vector<Blamed> newly_blamed_;
  uint64_t next_lease_ = 1;
};

}  // namespace paceline

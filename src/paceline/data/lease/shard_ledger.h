#pragma once

// Asynchronous work: workers lease ordinals of an epoch. Faster workers get more, and a dead
// worker's leases are given to others. One epoch of one data set; pure, with the time as an
// argument.
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
// - Free ordinals are leased lowest first, so returned ones come before new ones.
// - An ack is fenced by its lease. A worker loses its lease by a deadline, by its death or to a
//   newer incarnation of itself. It is then told `stale` and discards its result, so an ordinal is
//   done once. A parameter server that applies gradients exactly once refuses by the same two
//   numbers, (lease, incarnation), and skips ordinals of a lease that it has applied.
// - No ordinal is dropped. A failed range is leased in one piece, if possible to another worker.
//   After failures on `failures_max` workers, or twice as many on fewer, it is suspect: halved now
//   and at each further failure, down to single samples, or to whole batches (`units`). One that
//   fails as often again is quarantined and named; completion then says "except".
// - Done and quarantined ordinals and blame are durable. Leases are not: after a restart their
//   holders present them again, and get new ones if others have the range. New lease ids are above
//   all ids that may have been used (`first_lease` of Restore).
//
// Memory and snapshots grow with the number of open ranges, not of ordinals.

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
#include "paceline/data/lease/units.h"

namespace paceline {

struct LedgerSpec {
  uint64_t samples = 0;
  uint64_t lease_min = 1;                         // ordinals of a lease, unless fewer are left
  uint64_t lease_max = 1'000'000;                 // of a lease
  uint64_t lease_first = 64;                      // for a worker of unknown speed
  Duration lease_length = Duration::Seconds(3);   // how long a lease should keep a worker busy
  Duration deadline_min = Duration::Seconds(10);  // without an ack, from the last one
  int deadline_lengths = 4;                       // and at least this many expected lease lengths
  uint64_t failures_max = 3;  // workers on which a range fails before it is suspect
  // A live stream (partition.h): nothing is free before Grow. A lease is the rest of one partition,
  // a dead worker's leases get no blame, and each ack extends the deadline, which is deadline_min.
  bool by_partition = false;
  // Batches that nobody divides (units.h). A lease is one batch or more, an ack covers whole ones,
  // and blame and quarantine are of whole ones. By partition at most one ordinal.
  Units units = {};
};

struct LeaseGrant {
  uint64_t lease = 0;
  OrdinalRange range;
  bool operator==(const LeaseGrant&) const = default;
};

// The outcome of a Take.
enum class TakeAnswer {
  kGranted,
  kWait,      // all the rest is leased to others; ask again later
  kComplete,  // nothing is left
  kFenced,    // a newer incarnation of this worker has called
};

struct TakeResult {
  TakeAnswer answer = TakeAnswer::kGranted;
  LeaseGrant grant;  // if kGranted
};

// The durable state. Ordinals that it does not name are free.
struct LedgerSnapshot {
  uint64_t samples = 0;
  std::vector<OrdinalRange> grown;  // by_partition: the ordinals that exist
  std::vector<OrdinalRange> done;
  std::vector<OrdinalRange> quarantined;
  std::vector<Blamed> blamed;  // not quarantined yet
  uint64_t next_lease = 1;
  bool operator==(const LedgerSnapshot&) const = default;
};

class ShardLedger {
 public:
  explicit ShardLedger(const LedgerSpec& spec);

  // Restores a snapshot: leased ordinals are free until their holders present them. `first_lease`
  // must be above every id ever used.
  static ShardLedger Restore(const LedgerSpec& spec, const LedgerSnapshot& snapshot,
                             uint64_t first_lease);

  // The data set has these ordinals as well; they are new. Only by_partition.
  void Grow(OrdinalRange range);

  // Changes sizes and deadlines. The number of samples stays.
  void Tune(const LedgerSpec& spec);

  // A lease for this worker, sized by its speed, of at most `most` ordinals. A blamed range that is
  // cut there keeps its blame in both parts. `most` is not for a ledger of batches.
  TakeResult Take(Instant now, const WorkerKey& worker, uint64_t most = UINT64_MAX);

  // The rest of a lease; none if this worker does not hold it.
  std::optional<OrdinalRange> LeftOf(const WorkerKey& worker, uint64_t lease) const;

  // Marks the lease's ordinals below `until` done. False: stale, so the caller's work does not
  // count. An ack below an earlier one changes nothing, and so does a stale one or one within a
  // batch. Acking the last ordinal ends the lease.
  bool Ack(Instant now, const WorkerKey& worker, uint64_t lease, uint64_t until);

  // The worker cannot do the rest of the lease. False: stale.
  bool Fail(const WorkerKey& worker, uint64_t lease);
  // The worker cannot do that part, and returns the rest without blame. False: stale, or not a
  // part.
  bool FailPart(const WorkerKey& worker, uint64_t lease, OrdinalRange bad);

  // Returns all leases of a dead process at once. If `is_suspicious` (the process died by itself),
  // its oldest lease, on which it worked, counts as failed. The other leases get no blame. If its
  // node was taken away, no lease gets blame.
  void Expire(const WorkerKey& worker, bool is_suspicious);

  // The worker knows only these leases. Other grants were lost on their way and are returned
  // without blame.
  void KeepOnly(const WorkerKey& worker, const std::set<uint64_t>& known);

  // Returns a lease, which never reached its worker, without blame. False: the lease is another
  // worker's, or of none.
  bool Return(const WorkerKey& worker, uint64_t lease);

  // Returns the leases of workers without an ack until their deadline. That is the deadline of the
  // oldest lease, because the others wait for it. NextDeadline: when to call; Max(): never.
  void ExpireDue(Instant now);
  Instant NextDeadline() const;

  // After a restore: the holder presents a lease, done below `next`. True: the lease continues
  // under its id. False: another worker has a part of it, or it is done; discard the rest.
  bool Present(Instant now, const WorkerKey& worker, const LeaseGrant& grant, uint64_t next);

  // Ranges blamed since the last call, in order. Each replaces all that it overlaps.
  std::vector<Blamed> TakeBlamed() { return std::exchange(newly_blamed_, {}); }

  // Nothing is free, leased or blamed. May become false again if the data set grows.
  bool IsComplete() const;

  // Whether an ack may end here: not within a batch.
  bool IsBorder(const OrdinalRange& lease, uint64_t ordinal) const {
    return ordinal == lease.end || spec_.units.IsBorder(ordinal);
  }

  uint64_t samples() const { return spec_.samples; }
  const IntervalSet& done() const { return done_; }
  const IntervalSet& quarantined() const { return quarantined_; }
  uint64_t open_leases() const { return leases_.size(); }
  std::vector<uint64_t> LeasesOf(const WorkerKey& worker) const;  // the oldest first
  // The holder of the ordinal; none if it is not leased.
  std::optional<WorkerKey> HolderOf(uint64_t ordinal) const;
  // By partition: how many leases there would be if all free ordinals were leased.
  uint64_t pieces() const;
  uint64_t next_lease() const { return next_lease_; }
  uint64_t leased() const;    // ordinals
  uint64_t unleased() const;  // ordinals that could be taken
  LedgerSnapshot Snapshot() const;

  // "done" or "incomplete: …" as one sentence, with the quarantined samples.
  std::string Describe() const;

  // A violated invariant, or "": every ordinal is in exactly one state. For tests and simulators.
  std::string Broken() const;

 private:
  struct Lease {
    OrdinalRange range;  // not acknowledged yet
    WorkerKey worker;
    std::optional<Blamed> blamed;  // if it was blamed when it was taken
  };
  struct Pace {
    uint64_t incarnation = 0;
    Instant since;            // `finished` counts from then
    uint64_t finished = 0;    // since then; not in the rate yet
    uint64_t per_1000_s = 0;  // ordinals; 0 before the first measurement
    std::set<uint64_t> open;  // leases, the oldest first
    Instant deadline;         // of the oldest lease
  };
  using Leases = std::map<uint64_t, Lease>;

  // Notes the incarnation. A new one replaces older ones and their leases. False: it is outdated.
  bool Admit(Instant now, const WorkerKey& worker);
  uint64_t SizeFor(const WorkerKey& worker) const;
  OrdinalRange FreeFor(const WorkerKey& worker, uint64_t most) const;
  Instant DeadlineFor(Instant now, const WorkerKey& worker, uint64_t size) const;
  std::optional<Blamed> BlamedFor(const WorkerKey& worker) const;
  Blamed CutBlamed(Blamed blamed, uint64_t most);
  Leases::iterator Find(const WorkerKey& worker, uint64_t lease);
  void Measure(Instant now, uint64_t finished, Pace* pace);
  // Sets a new deadline: the worker took its first lease, made progress, or presents one.
  void Extend(Instant now, const WorkerKey& worker);
  bool GiveBackOwn(const WorkerKey& worker, uint64_t lease, bool is_suspicious);
  void GiveBackAll(uint64_t worker, bool is_suspicious);
  void GiveBack(Leases::iterator lease, bool is_suspicious);
  void Blame(Blamed blamed, const WorkerKey& worker);
  void KeepBlamed(Blamed blamed);

  LedgerSpec spec_;
  IntervalSet all_;  // the ordinals that exist
  IntervalSet free_;
  IntervalSet done_;
  IntervalSet quarantined_;
  Leases leases_;
  std::map<uint64_t, Pace> pace_;      // by worker
  std::map<uint64_t, Blamed> blamed_;  // by begin; leased ones are not here
  std::vector<Blamed> newly_blamed_;
  uint64_t next_lease_ = 1;
};

}  // namespace paceline

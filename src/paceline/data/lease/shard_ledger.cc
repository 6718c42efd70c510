#include "paceline/data/lease/shard_ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/data/lease/partition.h"

namespace paceline {
namespace {

constexpr uint64_t kNanosecondsIn1000s = 1'000'000'000'000;
// Acks come in bursts, so a speed is measured over at least this long.
constexpr Duration kPaceWindow = Duration::Milliseconds(20);

uint64_t Scale(uint64_t a, uint64_t b, uint64_t divisor) {
  const auto product = static_cast<unsigned __int128>(a) * b / divisor;
  return static_cast<uint64_t>(std::min<unsigned __int128>(product, UINT64_MAX));
}

std::string RangesText(const std::vector<OrdinalRange>& ranges) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(ranges.size(), kShown); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ranges[i].begin);
    if (ranges[i].size() > 1) text += "…" + std::to_string(ranges[i].end - 1);
  }
  if (ranges.size() > kShown) text += ", …";
  return text;
}

}  // namespace

ShardLedger::ShardLedger(const LedgerSpec& spec) : spec_(spec) {
  CHECK(spec.lease_min >= 1, "a lease has at least one ordinal");
  CHECK(spec.lease_max >= spec.lease_min, "lease_max is at least lease_min");
  CHECK(spec.failures_max >= 1, "something must have failed before it is suspect");
  CHECK(spec.samples <= kSamplesMax, "at most 2^53 samples");
  if (spec.by_partition) return;
  all_.Add({0, spec.samples});
  free_.Add({0, spec.samples});
}

ShardLedger ShardLedger::Restore(const LedgerSpec& spec, const LedgerSnapshot& snapshot,
                                 uint64_t first_lease) {
  LedgerSpec grown = spec;
  grown.samples = std::max(spec.samples, snapshot.samples);
  ShardLedger ledger(grown);
  for (const OrdinalRange& range : snapshot.grown) ledger.Grow(range);
  for (const OrdinalRange& range : snapshot.done) ledger.done_.Add(range);
  for (const OrdinalRange& range : snapshot.quarantined) ledger.quarantined_.Add(range);
  for (const Blamed& blamed : snapshot.blamed) {
    ledger.blamed_[blamed.range.begin] = blamed;
    ledger.free_.Remove(blamed.range);
  }
  for (const OrdinalRange& range : snapshot.done) ledger.free_.Remove(range);
  for (const OrdinalRange& range : snapshot.quarantined) ledger.free_.Remove(range);
  ledger.next_lease_ = std::max(first_lease, snapshot.next_lease);
  return ledger;
}

void ShardLedger::Grow(OrdinalRange range) {
  CHECK(spec_.by_partition && range.end <= spec_.samples, "only a stream grows");
  CHECK(!all_.Overlaps(range), "a partition is found once");
  all_.Add(range);
  free_.Add(range);
}

void ShardLedger::Tune(const LedgerSpec& spec) {
  const uint64_t samples = spec_.samples;
  spec_ = spec;
  spec_.samples = samples;
}

bool ShardLedger::Admit(Instant now, const WorkerKey& worker) {
  const auto [known, is_new] =
      pace_.try_emplace(worker.worker, Pace{.incarnation = worker.incarnation, .since = now});
  if (is_new || known->second.incarnation == worker.incarnation) return true;
  if (known->second.incarnation > worker.incarnation) return false;
  Expire({worker.worker, known->second.incarnation}, /*is_suspicious=*/true);
  pace_[worker.worker] = {.incarnation = worker.incarnation, .since = now};
  return true;
}

uint64_t ShardLedger::SizeFor(const WorkerKey& worker) const {
  const uint64_t rate = pace_.at(worker.worker).per_1000_s;
  const auto length = static_cast<uint64_t>(spec_.lease_length.nanoseconds());
  const uint64_t wanted = rate == 0 ? spec_.lease_first : Scale(rate, length, kNanosecondsIn1000s);
  // Guided self-scheduling (Polychronopoulos and Kuck, 1987): leases shrink towards the end, so
  // that no worker waits long for the last one.
  const uint64_t fair = free_.total() / (2 * pace_.size());
  return std::max(spec_.lease_min, std::min({wanted, fair, spec_.lease_max}));
}

// The lowest free ordinals, as many as this worker should have.
OrdinalRange ShardLedger::FreeFor(const WorkerKey& worker, uint64_t most) const {
  const OrdinalRange lowest = free_.front();
  if (spec_.by_partition) {
    return {lowest.begin, std::min(lowest.end, EndOfPartition(lowest.begin))};
  }
  const uint64_t wanted = spec_.units.Floor(lowest.begin + std::min(SizeFor(worker), most));
  const uint64_t end = wanted > lowest.begin ? wanted : spec_.units.Next(lowest.begin);
  return {lowest.begin, std::min(lowest.end, end)};
}

Instant ShardLedger::DeadlineFor(Instant now, const WorkerKey& worker, uint64_t size) const {
  const uint64_t rate = pace_.at(worker.worker).per_1000_s;
  Duration expected;
  // The rest of a partition has no expected length.
  if (rate > 0 && !spec_.by_partition) {
    const uint64_t length = Scale(size, kNanosecondsIn1000s, rate);
    expected = Duration::Nanoseconds(
        static_cast<int64_t>(std::min<uint64_t>(length, static_cast<uint64_t>(INT64_MAX))));
  }
  return now + std::max(spec_.deadline_min, expected * spec_.deadline_lengths);
}

// A failed range goes to another worker; to the same one only if there is nothing else to do.
std::optional<Blamed> ShardLedger::BlamedFor(const WorkerKey& worker) const {
  for (const auto& [begin, blamed] : blamed_) {
    const bool is_its_own =
        std::any_of(blamed.failed_on.begin(), blamed.failed_on.end(),
                    [&worker](const WorkerKey& key) { return key.worker == worker.worker; });
    if (!is_its_own) return blamed;
  }
  if (free_.empty() && !blamed_.empty()) return blamed_.begin()->second;
  return std::nullopt;
}

Blamed ShardLedger::CutBlamed(Blamed blamed, uint64_t most) {
  blamed_.erase(blamed.range.begin);
  if (blamed.range.size() <= most) return blamed;
  Blamed rest = blamed;
  blamed.range.end = rest.range.begin = blamed.range.begin + most;
  newly_blamed_.push_back(blamed);
  newly_blamed_.push_back(rest);
  blamed_.emplace(rest.range.begin, std::move(rest));
  return blamed;
}

uint64_t ShardLedger::unleased() const {
  uint64_t total = free_.total();
  for (const auto& [begin, blamed] : blamed_) total += blamed.range.size();
  return total;
}

TakeResult ShardLedger::Take(Instant now, const WorkerKey& worker, uint64_t most) {
  if (!Admit(now, worker)) return {.answer = TakeAnswer::kFenced};
  Lease lease{.worker = worker};
  if (std::optional<Blamed> blamed = BlamedFor(worker)) {
    lease.blamed = CutBlamed(*std::move(blamed), most);
    lease.range = lease.blamed->range;
  } else if (!free_.empty()) {
    lease.range = FreeFor(worker, most);
    free_.Remove(lease.range);
  } else {
    const bool is_over = IsComplete() && !spec_.by_partition;
    return {.answer = is_over ? TakeAnswer::kComplete : TakeAnswer::kWait};
  }
  const LeaseGrant grant{.lease = next_lease_++, .range = lease.range};
  leases_.emplace(grant.lease, std::move(lease));
  Pace& pace = pace_[worker.worker];
  pace.open.insert(grant.lease);
  if (pace.open.size() == 1) {
    pace.since = now;  // a wait says nothing about its speed
    pace.finished = 0;
    Extend(now, worker);
  }
  return {.answer = TakeAnswer::kGranted, .grant = grant};
}

ShardLedger::Leases::iterator ShardLedger::Find(const WorkerKey& worker, uint64_t lease) {
  const auto found = leases_.find(lease);
  return found != leases_.end() && found->second.worker == worker ? found : leases_.end();
}

std::optional<OrdinalRange> ShardLedger::LeftOf(const WorkerKey& worker, uint64_t lease) const {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || found->second.worker != worker) return std::nullopt;
  return found->second.range;
}

std::vector<uint64_t> ShardLedger::LeasesOf(const WorkerKey& worker) const {
  const auto pace = pace_.find(worker.worker);
  if (pace == pace_.end() || pace->second.incarnation != worker.incarnation) return {};
  return {pace->second.open.begin(), pace->second.open.end()};
}

std::optional<WorkerKey> ShardLedger::HolderOf(uint64_t ordinal) const {
  for (const auto& [id, lease] : leases_) {
    if (lease.range.begin <= ordinal && ordinal < lease.range.end) return lease.worker;
  }
  return std::nullopt;
}

uint64_t ShardLedger::pieces() const {
  uint64_t count = leases_.size();
  for (const OrdinalRange& range : free_.Ranges()) {
    count += PartitionOf(range.end - 1) - PartitionOf(range.begin) + 1;
  }
  return count;
}

uint64_t ShardLedger::leased() const {
  uint64_t total = 0;
  for (const auto& [id, lease] : leases_) total += lease.range.size();
  return total;
}

bool ShardLedger::Ack(Instant now, const WorkerKey& worker, uint64_t lease, uint64_t until) {
  const auto found = Find(worker, lease);
  if (found == leases_.end() || until > found->second.range.end) return false;
  Lease& held = found->second;
  if (!IsBorder(held.range, until)) return false;
  if (until <= held.range.begin) {
    if (spec_.by_partition) Extend(now, worker);  // the stream may have no new records
    return true;
  }
  const OrdinalRange finished{held.range.begin, until};
  CHECK(!done_.Overlaps(finished), "an ordinal is done once");
  done_.Add(finished);
  held.range.begin = until;

  Pace& pace = pace_[worker.worker];
  Measure(now, finished.size(), &pace);
  if (held.range.size() == 0) {
    leases_.erase(found);
    pace.open.erase(lease);
  }
  Extend(now, worker);
  return true;
}

void ShardLedger::Measure(Instant now, uint64_t finished, Pace* pace) {
  pace->finished += finished;
  const Duration took = now - pace->since;
  if (took < kPaceWindow) return;
  const uint64_t rate = std::max<uint64_t>(
      Scale(pace->finished, kNanosecondsIn1000s, static_cast<uint64_t>(took.nanoseconds())), 1);
  pace->per_1000_s = pace->per_1000_s == 0 ? rate : pace->per_1000_s / 4 * 3 + rate / 4;
  pace->since = now;
  pace->finished = 0;
}

void ShardLedger::Extend(Instant now, const WorkerKey& worker) {
  Pace& pace = pace_[worker.worker];
  if (pace.open.empty()) return;
  pace.deadline = DeadlineFor(now, worker, leases_.at(*pace.open.begin()).range.size());
}

bool ShardLedger::Fail(const WorkerKey& worker, uint64_t lease) {
  return GiveBackOwn(worker, lease, /*is_suspicious=*/true);
}

bool ShardLedger::Return(const WorkerKey& worker, uint64_t lease) {
  return GiveBackOwn(worker, lease, /*is_suspicious=*/false);
}

bool ShardLedger::GiveBackOwn(const WorkerKey& worker, uint64_t lease, bool is_suspicious) {
  const auto found = Find(worker, lease);
  if (found == leases_.end()) return false;
  GiveBack(found, is_suspicious);
  return true;
}

bool ShardLedger::FailPart(const WorkerKey& worker, uint64_t lease, OrdinalRange bad) {
  const auto found = Find(worker, lease);
  if (found == leases_.end()) return false;
  const OrdinalRange held = found->second.range;
  if (bad.begin >= bad.end || bad.begin < held.begin || bad.end > held.end) return false;
  // A reader skips the records of a stream that it cannot decode; it does not fail a lease.
  if (spec_.by_partition) return Return(worker, lease);
  bad = spec_.units.Around(bad, held);
  if (bad == held) return Fail(worker, lease);
  Blamed blamed =
      found->second.blamed && found->second.blamed->range == bad ? *found->second.blamed : Blamed{};
  pace_[worker.worker].open.erase(lease);
  leases_.erase(found);
  free_.Add({held.begin, bad.begin});
  free_.Add({bad.end, held.end});
  blamed.range = bad;
  Blame(std::move(blamed), worker);
  return true;
}

// The worker worked on its oldest lease; it had taken the others ahead.
void ShardLedger::GiveBackAll(uint64_t worker, bool is_suspicious) {
  const auto pace = pace_.find(worker);
  if (pace == pace_.end()) return;
  const std::set<uint64_t> open = pace->second.open;
  for (const uint64_t lease : open) {
    GiveBack(leases_.find(lease), is_suspicious && lease == *open.begin());
  }
}

void ShardLedger::Expire(const WorkerKey& worker, bool is_suspicious) {
  const auto pace = pace_.find(worker.worker);
  // Kept, so that older incarnations stay fenced, but it no longer counts as a fast worker.
  if (pace == pace_.end() || pace->second.incarnation != worker.incarnation) return;
  GiveBackAll(worker.worker, is_suspicious);
  pace->second.per_1000_s = 0;
}

void ShardLedger::KeepOnly(const WorkerKey& worker, const std::set<uint64_t>& known) {
  const auto pace = pace_.find(worker.worker);
  if (pace == pace_.end() || pace->second.incarnation != worker.incarnation) return;
  const std::set<uint64_t> open = pace->second.open;
  for (const uint64_t lease : open) {
    if (!known.contains(lease)) GiveBack(leases_.find(lease), /*is_suspicious=*/false);
  }
}

void ShardLedger::ExpireDue(Instant now) {
  for (const auto& [worker, pace] : pace_) {
    if (!pace.open.empty() && pace.deadline <= now) GiveBackAll(worker, /*is_suspicious=*/true);
  }
}

Instant ShardLedger::NextDeadline() const {
  Instant soonest = Instant::Max();
  for (const auto& [worker, pace] : pace_) {
    if (!pace.open.empty()) soonest = std::min(soonest, pace.deadline);
  }
  return soonest;
}

void ShardLedger::GiveBack(Leases::iterator lease, bool is_suspicious) {
  is_suspicious = is_suspicious && !spec_.by_partition;
  Lease held = std::move(lease->second);
  pace_[held.worker.worker].open.erase(lease->first);
  leases_.erase(lease);
  if (!held.blamed && !is_suspicious) {
    free_.Add(held.range);
    return;
  }
  Blamed blamed = held.blamed ? *std::move(held.blamed) : Blamed{};
  if (held.range != blamed.range) blamed.Forgive();
  blamed.range = held.range;
  if (is_suspicious) {
    Blame(std::move(blamed), held.worker);
  } else if (blamed.is_clear()) {
    free_.Add(blamed.range);
  } else {
    blamed_[blamed.range.begin] = std::move(blamed);
  }
}

void ShardLedger::Blame(Blamed blamed, const WorkerKey& worker) {
  blamed.failed_on.insert(worker);
  ++blamed.failures;
  const bool is_often =
      blamed.failed_on.size() >= spec_.failures_max || blamed.failures >= 2 * spec_.failures_max;
  const bool is_one = spec_.units.Next(blamed.range.begin) >= blamed.range.end;
  if (is_one && is_often) {
    quarantined_.Add(blamed.range);
    return;
  }
  if (is_one || !(is_often || blamed.is_suspect)) return KeepBlamed(std::move(blamed));
  // The border above the middle, so that the first half has an ordinal at least.
  const uint64_t half_size = (blamed.range.size() + 1) / 2;
  const uint64_t above = spec_.units.Next(blamed.range.begin + half_size - 1);
  const uint64_t middle =
      above < blamed.range.end ? above : spec_.units.Floor(blamed.range.end - 1);
  for (const uint64_t number : {0, 1}) {
    const OrdinalRange half = number == 0 ? OrdinalRange{blamed.range.begin, middle}
                                          : OrdinalRange{middle, blamed.range.end};
    KeepBlamed({.range = half, .is_suspect = true});
  }
}

void ShardLedger::KeepBlamed(Blamed blamed) {
  newly_blamed_.push_back(blamed);
  blamed_[blamed.range.begin] = std::move(blamed);
}

bool ShardLedger::Present(Instant now, const WorkerKey& worker, const LeaseGrant& grant,
                          uint64_t next) {
  const bool is_ours = grant.lease < next_lease_ && grant.range.begin <= next &&
                       next < grant.range.end && grant.range.end <= spec_.samples &&
                       spec_.units.IsBorder(next);
  if (!is_ours || !Admit(now, worker)) return false;
  if (const auto held = leases_.find(grant.lease); held != leases_.end()) {
    return held->second.worker == worker && held->second.range.begin == next;
  }
  const OrdinalRange left{next, grant.range.end};
  const auto blamed = blamed_.find(next);
  const bool is_blamed = blamed != blamed_.end() && blamed->second.range == left;
  if (!is_blamed && !free_.Covers(left)) return false;
  if (!done_.Covers({grant.range.begin, next})) return false;
  Lease& lease = leases_[grant.lease];
  lease = {.range = left, .worker = worker};
  if (is_blamed) {
    lease.blamed = std::move(blamed->second);
    blamed_.erase(blamed);
  } else {
    free_.Remove(left);
  }
  pace_[worker.worker].open.insert(grant.lease);
  Extend(now, worker);
  return true;
}

bool ShardLedger::IsComplete() const { return free_.empty() && leases_.empty() && blamed_.empty(); }

LedgerSnapshot ShardLedger::Snapshot() const {
  LedgerSnapshot snapshot{.samples = spec_.samples,
                          .done = done_.Ranges(),
                          .quarantined = quarantined_.Ranges(),
                          .next_lease = next_lease_};
  for (const auto& [begin, blamed] : blamed_) snapshot.blamed.push_back(blamed);
  for (const auto& [id, lease] : leases_) {
    if (!lease.blamed) continue;
    Blamed blamed = *lease.blamed;
    if (blamed.range != lease.range) blamed.Forgive();
    blamed.range = lease.range;
    if (!blamed.is_clear()) snapshot.blamed.push_back(std::move(blamed));
  }
  std::sort(snapshot.blamed.begin(), snapshot.blamed.end(),
            [](const Blamed& a, const Blamed& b) { return a.range.begin < b.range.begin; });
  return snapshot;
}

std::string ShardLedger::Describe() const {
  std::string text = IsComplete() ? "complete"
                                  : "incomplete: " + std::to_string(done_.total()) + " of " +
                                        std::to_string(spec_.samples) + " done";
  if (!quarantined_.empty()) {
    text += ", except " + std::to_string(quarantined_.total()) + " in quarantine (ordinals " +
            RangesText(quarantined_.Ranges()) + ")";
  }
  return text;
}

std::string ShardLedger::Broken() const {
  IntervalSet all;
  uint64_t total = 0;
  const auto add = [&all, &total](OrdinalRange range) {
    all.Add(range);
    total += range.size();
  };
  for (const IntervalSet* set : {&free_, &done_, &quarantined_}) {
    for (const OrdinalRange& range : set->Ranges()) add(range);
  }
  for (const auto& [id, lease] : leases_) {
    if (lease.range.size() == 0) return "lease " + std::to_string(id) + " is empty";
    add(lease.range);
  }
  for (const auto& [begin, blamed] : blamed_) add(blamed.range);
  if (total != all_.total()) return std::to_string(total) + " ordinals have a state";
  if (!(all == all_)) return "some ordinal has no state";
  return "";
}

}  // namespace paceline

#include "paceline/data/lease/lease_turn.h"

#include <algorithm>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/base/utf8.h"

namespace paceline {

using Kind = LeaseFact::Kind;

void LeaseBook::Turn::Note(LeaseFact fact) {
  book_.Apply(fact);
  actions_.facts.push_back(std::move(fact));
  ++book_.facts_;
}

void LeaseBook::Turn::Answer(const LeasePeer& to, LeaseFrame frame) {
  actions_.answers.push_back({.to = to, .frame = std::move(frame), .after = 0});
}

void LeaseBook::Turn::Promise(const LeasePeer& to, LeaseFrame frame) {
  actions_.answers.push_back({.to = to, .frame = std::move(frame), .after = book_.facts_});
}

void LeaseBook::Turn::Refuse(const LeasePeer& to, const std::string& what, const std::string& why,
                             const std::string& fix) {
  // `why` may repeat the terms of two orders, which nearly fill a frame each.
  Answer(to, {.op = LeaseOp::kRefused, .text = what + "\n" + CleanText(why) + "\n" + fix});
}

void LeaseBook::Turn::Take(const LeasePeer& from, const LeaseFrame& frame) {
  if (frame.op == LeaseOp::kOpen) return Open(from, frame);
  if (frame.op == LeaseOp::kAgree) {
    return book_.agreements_.Take(from, frame, &actions_.answers);
  }
  if (frame.op == LeaseOp::kTablesHave) return TablesHave(from, frame);
  const auto found = book_.sessions_.find(from);
  if (found == book_.sessions_.end()) {
    // The process was given up as dead, or it means another master.
    if (frame.op != LeaseOp::kClose) Answer(from, {.op = LeaseOp::kReset});
    return;
  }
  const Place at{from, found->second, book_.sets_.at(found->second.set)};
  at.session.lost_until.reset();
  switch (frame.op) {
    case LeaseOp::kTake: return TakeRequest(at, frame);
    case LeaseOp::kAck: return Ack(at, frame);
    case LeaseOp::kFail: return Fail(at, frame);
    case LeaseOp::kPresent: return Present(at, frame);
    case LeaseOp::kMark: return Mark(at, frame);
    case LeaseOp::kRewind: return Rewind(at, frame);
    case LeaseOp::kClose: return End(from, /*is_blamed=*/false);
    case LeaseOp::kReturn: return Return(at, frame);
    case LeaseOp::kFound: return Found(at, frame);
    case LeaseOp::kGap: return Gap(at, frame);
    case LeaseOp::kWhere: return Where(at, frame);
    default: return;  // not meant for a ledger
  }
}

// ---- identity ----

LeaseBook::DataSet* LeaseBook::Turn::FindSet(const LeasePeer& from, const LeaseOpen& open) {
  auto known = book_.by_name_.find(open.name);
  if (known == book_.by_name_.end()) {
    if (book_.sets_.size() >= kDataSetsMax) {
      Refuse(from, "too many data sets", Concat("a job has at most ", kDataSetsMax),
             "name= of one that is there");
      return nullptr;
    }
    const uint32_t number = book_.sets_.empty() ? 1 : book_.sets_.rbegin()->first + 1;
    Note({.kind = Kind::kOpened,
          .set = number,
          .begin = (open.follows_checkpoints ? 1u : 0u) + (open.is_stream ? 2u : 0u) +
                   (open.unit > 0 ? 4u : 0u),
          .end = open.ordinals,
          .text = open.name + "\n" + open.terms});
    DataSet& made = book_.sets_.at(number);
    book_.Open(&made);
    made.is_fresh = true;
    known = book_.by_name_.find(open.name);
  }
  DataSet& set = book_.sets_.at(known->second);
  const bool is_same = set.terms == open.terms && set.spec.samples == open.ordinals &&
                       set.is_stream == open.is_stream;
  if (!is_same) {
    Refuse(from, Concat("the data set ", open.name, " is another one in this job"),
           Concat("it is ", set.terms, ", and ", set.spec.samples, " ordinals; asked for is ",
                  open.terms, ", and ", open.ordinals),
           "another name= for another data set; or the data and the order as they were");
    return nullptr;
  }
  if (set.follows_checkpoints != open.follows_checkpoints) {
    Refuse(from, Concat("resume= of the data set ", open.name, " changed"),
           "the job began it with the other one", "resume= as it was, or another name=");
    return nullptr;
  }
  return &set;
}

// Removes older sessions of the same worker and of older generations. False: it is the outdated
// one.
bool LeaseBook::Turn::Displace(const LeasePeer& from, const LeaseOpen& open, DataSet* set) {
  if (open.generation < set->generation) return false;
  set->generation = open.generation;
  const std::set<LeasePeer> others = set->sessions;
  for (const LeasePeer& peer : others) {
    const Session& other = book_.sessions_.at(peer);
    const bool is_same_worker = other.worker.worker == open.rank;
    if (is_same_worker && other.worker.incarnation > open.incarnation) return false;
    if (is_same_worker && other.worker.incarnation == open.incarnation) {
      // The same process over another link. It keeps its leases.
      set->sessions.erase(peer);
      set->waiting.erase(peer);
      book_.sessions_.erase(peer);
    } else if (is_same_worker || other.lineage.generation < open.generation) {
      MARK("a lease holder of an older generation is fenced");
      if (peer != from) Answer(peer, {.op = LeaseOp::kFenced});
      Leave(peer, /*is_blamed=*/false);
    }
  }
  return true;
}

void LeaseBook::Turn::Open(const LeasePeer& from, const LeaseFrame& frame) {
  const std::optional<LeaseOpen> open = ParseOpen(frame.text);
  if (!open || book_.sessions_.size() >= kSessionsMax) {
    return Refuse(from, "this is no worker on a data set", "its first frame cannot be read",
                  "the same version of paceline everywhere");
  }
  DataSet* const set = FindSet(from, *open);
  if (set == nullptr) return;
  const bool is_joined = !set->sessions.empty() && set->generation == open->generation;
  if (is_joined && set->is_even != open->is_even) {
    return Refuse(from, Concat("uneven= of the data set ", open->name, " differs by rank"),
                  "another rank of this world has opened it with the other one",
                  "the same uneven= on all ranks");
  }
  if (!Displace(from, *open, set)) return Answer(from, {.op = LeaseOp::kFenced});
  set->spec.units = {open->unit, open->epoch};
  set->is_even = open->is_even;
  if (set->is_even) set->granted[open->rank] = frame.begin;
  const auto milliseconds = [](uint64_t count) {
    return Duration::Milliseconds(static_cast<int64_t>(count));
  };
  set->spec.lease_min = open->lease_min;
  set->spec.lease_max = open->lease_max;
  set->spec.lease_first = open->lease_first;
  set->spec.lease_length = milliseconds(open->lease_ms);
  set->spec.deadline_min = milliseconds(open->deadline_ms);
  set->spec.failures_max = open->failures_max;
  set->ledger->Tune(set->spec);
  Session session;
  session.set = set->number;
  session.worker = {.worker = open->rank, .incarnation = open->incarnation};
  session.rank = open->rank;
  session.world_size = open->world_size;
  session.lineage = {open->generation, 0};
  session.presented.emplace();
  book_.sessions_.insert_or_assign(from, std::move(session));
  set->sessions.insert(from);
  Promise(from, {.op = LeaseOp::kOpened,
                 .begin = set->quarantined.total(),
                 .end = set->stream.partitions().size()});
  if (set->is_even) Settle(set);
}

void LeaseBook::Turn::End(const LeasePeer& peer, bool is_blamed) {
  const auto found = book_.sessions_.find(peer);
  if (found == book_.sessions_.end()) return;
  DataSet& set = book_.sets_.at(found->second.set);
  Leave(peer, is_blamed);
  Settle(&set);
}

void LeaseBook::Turn::Leave(const LeasePeer& peer, bool is_blamed) {
  const auto found = book_.sessions_.find(peer);
  DataSet& set = book_.sets_.at(found->second.set);
  set.ledger->Expire(found->second.worker, is_blamed);
  NoteFailures(&set);
  set.sessions.erase(peer);
  set.waiting.erase(peer);
  book_.sessions_.erase(found);
}

void LeaseBook::Turn::Pass() {
  std::vector<LeasePeer> lost;
  for (const auto& [peer, session] : book_.sessions_) {
    if (session.lost_until && *session.lost_until <= now_) lost.push_back(peer);
  }
  for (const LeasePeer& peer : lost) {
    MARK("the leases of a silent node come back");
    End(peer, /*is_blamed=*/false);
  }
  for (auto& [number, set] : book_.sets_) {
    if (!set.ledger || set.ledger->NextDeadline() > now_) continue;
    set.ledger->ExpireDue(now_);
    NoteFailures(&set);
    Settle(&set);
  }
}

// ---- leases ----

bool LeaseBook::Turn::IsCurrent(const Place& at) const {
  return !at.set.follows_checkpoints || at.session.lineage == at.set.lineage;
}

void LeaseBook::Turn::BeginGeneration(const Place& at) {
  const bool is_new = at.session.lineage.generation > at.set.lineage.generation;
  if (!at.set.follows_checkpoints || !is_new) return;
  Note({.kind = Kind::kRewound,
        .set = at.set.number,
        .begin = at.session.lineage.generation,
        .end = 0});
}

void LeaseBook::Turn::TakeRequest(const Place& at, const LeaseFrame& frame) {
  if (at.session.requests.size() >= kRequestsMax) {
    return Refuse(at.from, "too many requests at once", "a process may have 1,024",
                  "fewer leases ahead");
  }
  BeginGeneration(at);
  if (const auto presented = std::exchange(at.session.presented, std::nullopt)) {
    at.set.ledger->KeepOnly(at.session.worker, *presented);
    Settle(&at.set);
  }
  at.session.requests.push_back({.number = frame.number});
  Serve(at.from, &at.session, &at.set);
}

std::optional<uint64_t> LeaseBook::Turn::RoomOf(const Session& session, DataSet* set) const {
  uint64_t total = set->ledger->unleased();
  uint64_t most = 0;
  for (const auto& [rank, granted] : set->granted) {
    total += granted;
    most = std::max(most, granted);
  }
  const uint64_t own = set->granted[session.rank];
  // Before all ranks have opened, this share may be too small, but never too large.
  const uint64_t share = set->share.value_or(total / session.world_size);
  if (share > own) return share - own;
  if (!set->is_fresh && set->granted.size() < session.world_size) return std::nullopt;
  // Samples were quarantined since, so other ranks may have got more before.
  if (most > own) return most - own;
  set->share = most;
  return 0;
}

void LeaseBook::Turn::Grant(const LeasePeer& peer, uint64_t number, const LeaseGrant& grant,
                            DataSet* set) {
  if (set->is_even) set->granted[book_.sessions_.at(peer).rank] += grant.range.size();
  LeaseFrame granted{.op = LeaseOp::kGranted,
                     .number = number,
                     .lease = grant.lease,
                     .begin = grant.range.begin,
                     .end = grant.range.end};
  if (!set->is_stream) return Answer(peer, std::move(granted));
  // Not before the partition is durable, because the next master could give its number to another.
  const Partition& partition = *set->stream.At(grant.range.begin);
  granted.text = Concat(partition.base, "\n", partition.name);
  Promise(peer, std::move(granted));
}

void LeaseBook::Turn::Complete(const LeasePeer& peer, uint64_t number, const DataSet& set) {
  uint64_t left = 0;  // goes to no rank
  if (set.is_even) {
    const uint64_t ranks = book_.sessions_.at(peer).world_size;
    uint64_t wanted = ranks * set.share.value_or(0);
    for (const auto& [rank, granted] : set.granted) wanted -= std::min(wanted, granted);
    left = set.ledger->unleased() - std::min(set.ledger->unleased(), wanted);
  }
  Promise(peer, {.op = LeaseOp::kComplete,
                 .number = number,
                 .begin = set.quarantined.total(),
                 .end = left,
                 .text = RangesToText(set.quarantined.Ranges(), kLeaseFrameTextMax)});
}

void LeaseBook::Turn::RefuseShare(const LeasePeer& peer, const DataSet& set) {
  MARK("a sample that failed was of the last step of an even data set");
  Refuse(peer, Concat("the ranks have no common last step in the data set ", set.name),
         "samples that cannot be read were of this rank's share, and others have theirs",
         "nothing to do under paceline run: the world goes on from its checkpoint and shares what "
         "can be read");
}

void LeaseBook::Turn::Serve(const LeasePeer& peer, Session* session, DataSet* set) {
  if (set->is_stream) {
    set->waiting.insert(peer);
    return ServeStream(set);
  }
  const Place at{peer, *session, *set};
  while (!session->requests.empty() && IsCurrent(at)) {
    const uint64_t number = session->requests.front().number;
    const std::optional<uint64_t> room = set->is_even ? RoomOf(*session, set) : UINT64_MAX;
    if (!room) break;
    if (*room == 0) {
      MARK("a rank of an even data set has its whole share");
      session->requests.pop_front();
      Complete(peer, number, *set);
      continue;
    }
    const TakeResult taken = set->ledger->Take(now_, session->worker, *room);
    NoteFailures(set);  // a newer incarnation ends the older one's leases
    const bool is_empty =
        taken.answer == TakeAnswer::kWait || taken.answer == TakeAnswer::kComplete;
    if (set->is_even && is_empty) {
      // Samples of its share were quarantined.
      const uint64_t own = set->granted[session->rank];
      const bool is_short = std::any_of(set->granted.begin(), set->granted.end(),
                                        [own](const auto& one) { return one.second > own; });
      if (is_short) return RefuseShare(peer, *set);
      session->requests.pop_front();
      Complete(peer, number, *set);
      continue;
    }
    if (taken.answer == TakeAnswer::kWait) break;
    session->requests.pop_front();
    if (taken.answer == TakeAnswer::kFenced) {
      Answer(peer, {.op = LeaseOp::kFenced});
    } else if (taken.answer == TakeAnswer::kComplete) {
      Complete(peer, number, *set);
    } else {
      Grant(peer, number, taken.grant, set);
    }
  }
  for (Session::Request& request : session->requests) {
    if (!request.is_told) Answer(peer, {.op = LeaseOp::kWait, .number = request.number});
    request.is_told = true;
  }
  if (session->requests.empty()) {
    set->waiting.erase(peer);
  } else {
    set->waiting.insert(peer);
  }
}

void LeaseBook::Turn::Settle(DataSet* set) {
  if (set->waiting.empty()) return;
  if (set->is_stream) return ServeStream(set);
  const std::set<LeasePeer> waiting = set->waiting;
  for (const LeasePeer& peer : waiting) Serve(peer, &book_.sessions_.at(peer), set);
}

void LeaseBook::Turn::Ack(const Place& at, const LeaseFrame& frame) {
  ShardLedger& ledger = *at.set.ledger;
  const WorkerKey worker = at.session.worker;
  const std::optional<OrdinalRange> left = ledger.LeftOf(worker, frame.lease);
  if (!left && IsCurrent(at) && at.set.DoneOf(worker, frame.lease) >= frame.end) {
    // Repeated after a reset, but it arrived the first time. Or this is a reader that waits for new
    // records, and its lease ran out: no later ack would tell it as long as none come.
    if (at.set.is_stream) Answer(at.from, {.op = LeaseOp::kRecall, .lease = frame.lease});
    return Promise(at.from, {.op = LeaseOp::kConfirmed, .number = frame.number});
  }
  if (left && !ledger.IsBorder(*left, frame.end)) {
    return Refuse(at.from, Concat("a part of a batch of the data set ", at.set.name, " is done"),
                  "its batches are not divided, because tables apply each batch once",
                  "acknowledge whole batches");
  }
  if (!left || !IsCurrent(at) || !ledger.Ack(now_, worker, frame.lease, frame.end)) {
    MARK("an ack is stale");
    at.session.has_lost = true;
    return Answer(at.from, {.op = LeaseOp::kStale, .number = frame.number, .lease = frame.lease});
  }
  at.set.stream.SetEnd(frame.begin);
  if (frame.end > left->begin) {
    ++at.session.acked;
    Note({.kind = Kind::kAcked,
          .set = at.set.number,
          .worker = worker,
          .lease = frame.lease,
          .begin = left->begin,
          .end = frame.end});
  }
  Promise(at.from, {.op = LeaseOp::kConfirmed, .number = frame.number});
  if (frame.end >= left->end) Settle(&at.set);
}

void LeaseBook::Turn::Fail(const Place& at, const LeaseFrame& frame) {
  if (!IsCurrent(at)) return;
  const auto left = at.set.ledger->LeftOf(at.session.worker, frame.lease);
  const bool is_back =
      at.set.ledger->FailPart(at.session.worker, frame.lease, {frame.begin, frame.end});
  if (is_back && at.set.is_even) at.set.granted[at.session.rank] -= left->size();
  NoteFailures(&at.set);
  Settle(&at.set);
}

void LeaseBook::Turn::NoteFailures(DataSet* set) {
  for (const Blamed& blamed : set->ledger->TakeBlamed()) {
    LeaseFact fact = FactOf(blamed);
    fact.set = set->number;
    Note(std::move(fact));
  }
  const IntervalSet& now = set->ledger->quarantined();
  if (now.total() == set->quarantined.total()) return;
  MARK("samples are put into quarantine");
  for (const OrdinalRange& range : now.Ranges()) {
    if (set->quarantined.Covers(range)) continue;
    Note({.kind = Kind::kQuarantined, .set = set->number, .begin = range.begin, .end = range.end});
  }
}

void LeaseBook::Turn::Present(const Place& at, const LeaseFrame& frame) {
  ShardLedger& ledger = *at.set.ledger;
  const WorkerKey worker = at.session.worker;
  const auto stale = [&] {
    at.session.has_lost = true;
    Answer(at.from, {.op = LeaseOp::kStale, .lease = frame.lease});
  };
  if (!IsCurrent(at) || frame.begin >= frame.end || frame.end > ledger.samples()) return stale();
  if (frame.lease < at.set.ended_leases) return stale();
  uint64_t next = std::max(frame.begin, std::min(frame.number, frame.end));
  next = std::max(next, std::min(at.set.DoneOf(worker, frame.lease), frame.end));
  if (const auto left = ledger.LeftOf(worker, frame.lease)) next = left->begin;
  const LeaseGrant grant{.lease = frame.lease, .range = {frame.begin, frame.end}};
  const bool is_presented = next >= frame.end || ledger.Present(now_, worker, grant, next);
  NoteFailures(&at.set);
  if (!is_presented) return stale();
  MARK("a lease is presented to another master");
  if (at.session.presented) at.session.presented->insert(frame.lease);
  // The answer tells what is done, which may not be on this master's disk yet.
  Promise(at.from,
          {.op = LeaseOp::kPresented, .lease = frame.lease, .begin = next, .end = frame.end});
  if (at.set.is_stream) Settle(&at.set);
}

// A worker that must open twice in a row presents a lease twice. If another worker held it only the
// first time, the worker has dropped the lease in between. It returns it, because otherwise no
// worker would get it before its deadline. It also answers a recall.
void LeaseBook::Turn::Return(const Place& at, const LeaseFrame& frame) {
  if (!at.set.ledger->Return(at.session.worker, frame.lease)) return;
  MARK("a presented lease is returned");
  Settle(&at.set);
}

}  // namespace paceline

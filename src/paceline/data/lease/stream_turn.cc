// What a turn of the lease book does for live streams: partitions are found, and move between
// workers.

#include <algorithm>
#include <map>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/data/lease/lease_turn.h"

namespace paceline {

using Kind = LeaseFact::Kind;

void LeaseBook::Turn::Found(const Place& at, const LeaseFrame& frame) {
  if (!at.set.is_stream) return;
  const std::string& name = frame.text;
  const bool is_name = !name.empty() && name.find('\n') == std::string::npos;
  const bool has_end = frame.end != 0;
  const uint64_t length = has_end ? frame.end - frame.begin : 0;
  if (!is_name || (has_end && (frame.end < frame.begin || length > kPartitionOrdinals))) {
    return Refuse(at.from, Concat("a partition of ", at.set.name, " cannot be counted"),
                  "its name is empty or has several lines, or it has more than 2^36 records",
                  "smaller files, with names of one line");
  }
  if (const Partition* known = at.set.stream.Find(name); known != nullptr) {
    const OrdinalRange was = known->range;
    const bool had_end = was.end != EndOfPartition(was.begin);
    if (had_end && known->base + was.size() != frame.end) {
      Refuse(at.from, Concat("the partition ", name, " of ", at.set.name, " has changed"),
             Concat("it had ", known->base + was.size(), " records when it was found, and has ",
                    frame.end),
             "write new records into new files; a file that was found stays as it is");
    }
    return;
  }
  if (at.set.stream.partitions().size() >= kPartitionsMax) {
    return Refuse(at.from, Concat("too many partitions of ", at.set.name),
                  Concat("a stream has at most ", kPartitionsMax, " partitions or files"),
                  "fewer and larger files");
  }
  const OrdinalRange range =
      at.set.stream.NextRange(has_end ? std::optional(length) : std::nullopt);
  Note({.kind = Kind::kFound,
        .set = at.set.number,
        .lease = frame.begin,
        .begin = range.begin,
        .end = range.end,
        .text = name});
  Settle(&at.set);
}

// Told before the ack that covers these records, so a position that has them has the gap as well.
void LeaseBook::Turn::Gap(const Place& at, const LeaseFrame& frame) {
  const auto left = at.set.ledger->LeftOf(at.session.worker, frame.lease);
  const bool is_its = at.set.is_stream && IsCurrent(at) && left && left->begin <= frame.begin &&
                      frame.begin < frame.end && frame.end <= left->end;
  if (!is_its) return;
  const bool is_refused = (frame.flags & LeaseFrame::kBlamed) != 0;
  if (is_refused) {
    MARK("decode refuses a record of a stream");
  } else {
    MARK("retention has eaten records of a stream");
  }
  Note({.kind = Kind::kGap,
        .set = at.set.number,
        .worker = at.session.worker,
        .lease = is_refused ? 1u : 0u,
        .begin = frame.begin,
        .end = frame.end,
        .text = frame.text});
}

// The waiting process with the fewest leases, if it may have one more: at most its equal share of
// the partitions, rounded up.
const LeasePeer* LeaseBook::Turn::Poorest(const DataSet& set) const {
  const uint64_t workers = std::max<uint64_t>(set.sessions.size(), 1);
  const uint64_t most = (set.ledger->pieces() + workers - 1) / workers;
  const LeasePeer* poorest = nullptr;
  uint64_t least = most;
  for (const LeasePeer& peer : set.waiting) {
    const Session& session = book_.sessions_.at(peer);
    if (set.follows_checkpoints && !(session.lineage == set.lineage)) continue;
    const uint64_t count = set.ledger->LeasesOf(session.worker).size();
    if (count >= least) continue;
    least = count;
    poorest = &peer;
  }
  return poorest;
}

void LeaseBook::Turn::ServeStream(DataSet* set) {
  while (const LeasePeer* const poorest = Poorest(*set)) {
    const LeasePeer peer = *poorest;
    Session& session = book_.sessions_.at(peer);
    const TakeResult taken = set->ledger->Take(now_, session.worker);
    if (taken.answer == TakeAnswer::kWait) break;
    const uint64_t number = session.requests.front().number;
    session.requests.pop_front();
    if (session.requests.empty()) set->waiting.erase(peer);
    if (taken.answer == TakeAnswer::kGranted) {
      Grant(peer, number, taken.grant, set);
    } else {
      Answer(peer, {.op = LeaseOp::kFenced});
      session.requests.clear();
      set->waiting.erase(peer);
    }
  }
  for (const LeasePeer& peer : set->waiting) {
    for (Session::Request& request : book_.sessions_.at(peer).requests) {
      if (!request.is_told) Answer(peer, {.op = LeaseOp::kWait, .number = request.number});
      request.is_told = true;
    }
  }
  Recall(set);
}

// Moves a partition from a process that has two more than a waiting one. Each move makes the
// difference smaller, so partitions come to rest. A recalled lease goes on until its holder returns
// it, and until then it is counted for the process that will get it.
void LeaseBook::Turn::Recall(DataSet* set) {
  std::map<LeasePeer, uint64_t> counts;
  std::map<LeasePeer, std::vector<uint64_t>> own;  // not recalled yet
  uint64_t coming = 0;
  for (const LeasePeer& peer : set->sessions) {
    Session& session = book_.sessions_.at(peer);
    std::vector<uint64_t> leases = set->ledger->LeasesOf(session.worker);
    std::erase_if(session.recalled, [&leases](uint64_t lease) {
      return std::find(leases.begin(), leases.end(), lease) == leases.end();
    });
    std::erase_if(leases, [&session](uint64_t one) { return session.recalled.contains(one); });
    counts[peer] = leases.size();
    coming += session.recalled.size();
    own[peer] = std::move(leases);
  }
  const auto poorest = [&] {
    return std::min_element(
        set->waiting.begin(), set->waiting.end(),
        [&counts](const LeasePeer& a, const LeasePeer& b) { return counts[a] < counts[b]; });
  };
  if (set->waiting.empty()) return;
  for (; coming > 0; --coming) ++counts[*poorest()];
  while (true) {
    const LeasePeer poor = *poorest();
    const auto rich = std::max_element(own.begin(), own.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
    if (rich->second.size() < counts[poor] + 2) return;
    MARK("a partition is recalled for a worker that has fewer");
    const uint64_t lease = rich->second.back();
    rich->second.pop_back();
    --counts[rich->first];
    ++counts[poor];
    book_.sessions_.at(rich->first).recalled.insert(lease);
    Answer(rich->first, {.op = LeaseOp::kRecall, .lease = lease});
  }
}

}  // namespace paceline

// What the ledger does when a table server has started, from a snapshot or from nothing. Samples
// that its tables lack no longer count as done: they are leased and pushed again, and the other
// servers skip them. All leases of these data sets end, because an ack on its way may be of a push
// that only the server's earlier process has answered.
//
// What is done when all servers serve is applied on all of them. So `Where` gives a position that
// the rows of all servers have, unless a server is lost between the answer and the reading of rows.

#include <algorithm>
#include <map>
#include <optional>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/data/lease/lease_turn.h"
#include "paceline/data/lease/set_key.h"

namespace paceline {
namespace {

using HaveOf = std::map<uint64_t, IntervalSet>;

// None: it is malformed. A data set may have several lines.
std::optional<HaveOf> ParseHave(std::string_view text) {
  HaveOf have;
  for (const std::string_view line : SplitParts(text, "\n")) {
    const size_t space = std::min(line.find(' '), line.size());
    const auto set = ParseWhole<uint64_t>(line.substr(0, space));
    const auto ranges = RangesFromText(line.substr(std::min(space + 1, line.size())));
    if (!set || !ranges) return std::nullopt;
    for (const OrdinalRange& range : *ranges) have[*set].Add(range);
  }
  return have;
}

// Which parts of `done` are in `have`, and which are not.
struct Division {
  IntervalSet kept;
  IntervalSet freed;
};
Division Divide(const IntervalSet& done, const IntervalSet& have) {
  Division division{.kept = {}, .freed = done};
  const std::vector<OrdinalRange> theirs = have.Ranges();
  auto at = theirs.begin();
  for (const OrdinalRange& one : done.Ranges()) {
    while (at != theirs.end() && at->end <= one.begin) ++at;
    for (auto next = at; next != theirs.end() && next->begin < one.end; ++next) {
      const OrdinalRange both{std::max(next->begin, one.begin), std::min(next->end, one.end)};
      division.kept.Add(both);
      division.freed.Remove(both);
    }
  }
  return division;
}

}  // namespace

void LeaseBook::ApplyUndone(const LeaseFact& fact, DataSet* set) {
  set->done = {};
  for (const OrdinalRange& range : RangesFromText(fact.text).value_or(Ranges{})) {
    if (range.end <= set->spec.samples) set->done.Add(range);
  }
  for (const OrdinalRange& range : set->quarantined.Ranges()) set->done.Remove(range);
  set->stream.Rewind(set->done);
  set->ended_leases = std::max(set->ended_leases, fact.lease);
  first_lease_ = std::max(first_lease_, fact.lease);
  set->granted.clear();
  set->share.reset();
  set->cuts.clear();
  set->progress.clear();
  if (set->ledger) Open(set);
}

void LeaseBook::Turn::TablesHave(const LeasePeer& from, const LeaseFrame& frame) {
  std::string& told = book_.having_[from];
  if (frame.lease == 0) told.clear();
  told += frame.text;
  if ((frame.flags & LeaseFrame::kMore) != 0 && told.size() <= kHaveBytesMax) return;
  const std::optional<HaveOf> have = ParseHave(told);
  book_.having_.erase(from);
  if (!have) {
    return Refuse(from, "what a table server has is malformed", "a line is no data set with ranges",
                  "the same version of paceline on all hosts");
  }
  uint64_t freed = 0;
  uint64_t counted = 0;
  std::string text;
  for (auto& [number, set] : book_.sets_) {
    counted += set.ledger->done().total();
    const uint64_t key = DataSetKey(set.name);
    const auto its = have->find(key);
    if (!set.trains_tables && its == have->end()) continue;
    const Division division =
        Divide(set.ledger->done(), its == have->end() ? IntervalSet{} : its->second);
    // At the server's first start, no push can have been answered.
    if (frame.begin == 0 && division.freed.empty()) continue;
    for (const LeasePeer& peer : set.sessions) {
      for (const uint64_t lease : set.ledger->LeasesOf(book_.sessions_.at(peer).worker)) {
        Answer(peer, {.op = LeaseOp::kStale, .lease = lease});
      }
    }
    if (!division.freed.empty()) MARK("batches are undone after the loss of a table server");
    Note({.kind = Kind::kUndone,
          .set = number,
          .lease = std::max(set.ledger->next_lease(), set.ended_leases + 1),
          .end = division.freed.total(),
          .text = RangesToText(division.kept.Ranges())});
    freed += division.freed.total();
    const size_t room = kLeaseFrameTextMax - std::min(kLeaseFrameTextMax, text.size() + 64);
    // The end of a job leaves records of a stream unread, so its servers wait for none of them.
    if (division.freed.total() > 0 && room > 64 && !set.is_stream) {
      Append(&text, key, " ", RangesToText(division.freed.Ranges(), room), "\n");
    }
  }
  Promise(from, {.op = LeaseOp::kUndone,
                 .number = frame.number,
                 .begin = freed,
                 .end = counted,
                 .text = text});
  for (auto& [number, set] : book_.sets_) Settle(&set);
}

void LeaseBook::Turn::Where(const Place& at, const LeaseFrame& frame) {
  const DataSet& set = at.set;
  const IntervalSet& done = set.ledger->done();
  LeaseFrame answer{
      .op = LeaseOp::kStands, .number = frame.number, .lease = 0, .begin = set.ended_leases};
  if (!set.is_stream) {
    answer.text = RangesToText(done.Ranges(), kLeaseFrameTextMax);
    return Promise(at.from, std::move(answer));
  }
  for (const Partition& one : set.stream.partitions()) {
    const PartitionView view = set.stream.ViewOf(one, done);
    if (view.is_over) ++answer.end;
    const size_t size = view.name.size() + 24;
    if (view.is_over || answer.text.size() + size > kLeaseFrameTextMax) continue;
    Append(&answer.text, view.offset, " ", view.name, "\n");
  }
  Promise(at.from, std::move(answer));
}

}  // namespace paceline

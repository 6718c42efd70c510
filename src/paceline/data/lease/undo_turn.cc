// A table server has started, from a snapshot or from nothing. Batches that its tables lack are
// done no more: they are leased and pushed again, and every other server skips them. All leases of
// these data sets end, because an ack on its way may be of a push that only the server's earlier
// process has answered.

#include <algorithm>
#include <map>
#include <optional>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/data/lease/lease_turn.h"
#include "paceline/data/lease/set_key.h"

namespace paceline {
namespace {

using HaveOf = std::map<uint64_t, std::vector<OrdinalRange>>;

// None: it is malformed.
std::optional<HaveOf> ParseHave(std::string_view text) {
  HaveOf have;
  for (const std::string_view line : SplitParts(text, "\n")) {
    const size_t space = std::min(line.find(' '), line.size());
    const auto set = ParseWhole<uint64_t>(line.substr(0, space));
    const auto ranges = RangesFromText(line.substr(std::min(space + 1, line.size())));
    if (!set || !ranges) return std::nullopt;
    have[*set] = *ranges;
  }
  return have;
}

// Which parts of `ranges` are in the set, and which parts of the set are not in `ranges`.
struct Division {
  IntervalSet kept;
  IntervalSet freed;
};
Division Divide(const IntervalSet& done, const std::vector<OrdinalRange>& ranges) {
  Division division{.kept = {}, .freed = done};
  const std::vector<OrdinalRange> all = done.Ranges();
  for (const OrdinalRange& range : ranges) {
    for (const OrdinalRange& one : all) {
      const OrdinalRange both{std::max(range.begin, one.begin), std::min(range.end, one.end)};
      if (both.begin >= both.end) continue;
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
  set->ended_leases = std::max(set->ended_leases, fact.lease);
  first_lease_ = std::max(first_lease_, fact.lease);
  set->granted.clear();
  set->share.reset();
  set->cuts.clear();
  set->progress.clear();
  if (set->ledger) Open(set);
}

void LeaseBook::Turn::TablesHave(const LeasePeer& from, const LeaseFrame& frame) {
  const std::optional<HaveOf> have = ParseHave(frame.text);
  if (!have) {
    return Refuse(from, "what a table server has is malformed", "a line is no data set with ranges",
                  "the same version of paceline on all hosts");
  }
  uint64_t freed = 0;
  std::string text;
  for (auto& [number, set] : book_.sets_) {
    const uint64_t key = DataSetKey(set.name);
    const auto told = have->find(key);
    if (!set.has_batches && told == have->end()) continue;
    const Division division =
        Divide(set.ledger->done(), told == have->end() ? Ranges{} : told->second);
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
          .lease = set.ledger->next_lease(),
          .end = division.freed.total(),
          .text = RangesToText(division.kept.Ranges())});
    freed += division.freed.total();
    const size_t room = kLeaseFrameTextMax - std::min(kLeaseFrameTextMax, text.size() + 64);
    if (division.freed.total() > 0 && room > 64) {
      Append(&text, key, " ", RangesToText(division.freed.Ranges(), room), "\n");
    }
  }
  Promise(from, {.op = LeaseOp::kUndone, .number = frame.number, .begin = freed, .text = text});
  for (auto& [number, set] : book_.sets_) Settle(&set);
}

}  // namespace paceline

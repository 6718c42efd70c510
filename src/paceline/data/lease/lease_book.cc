#include "paceline/data/lease/lease_book.h"

#include <algorithm>

#include "paceline/base/check.h"
#include "paceline/base/text.h"
#include "paceline/data/lease/lease_turn.h"

namespace paceline {
namespace {

IntervalSet SetOf(const std::vector<OrdinalRange>& ranges) {
  IntervalSet set;
  for (const OrdinalRange& range : ranges) set.Add(range);
  return set;
}

// "name\nrest"
std::pair<std::string, std::string> SplitLine(std::string_view text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return {std::string(text), ""};
  return {std::string(text.substr(0, end)), std::string(text.substr(end + 1))};
}

}  // namespace

std::string RangesToText(const std::vector<OrdinalRange>& ranges, size_t bytes_max) {
  std::string text;
  size_t whole = 0;  // bytes of the ranges that fit
  for (const OrdinalRange& range : ranges) {
    if (!text.empty()) text += ",";
    Append(&text, range.begin);
    if (range.size() > 1) Append(&text, "-", range.end - 1);
    if (text.size() > bytes_max) break;
    whole = text.size();
  }
  text.resize(whole);
  return text;
}

std::optional<std::vector<OrdinalRange>> RangesFromText(std::string_view text) {
  std::vector<OrdinalRange> ranges;
  for (const std::string_view part : SplitParts(text, ",")) {
    const size_t dash = part.find('-');
    const auto first = ParseWhole<uint64_t>(part.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : ParseWhole<uint64_t>(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= kSamplesMax) return std::nullopt;
    ranges.push_back({*first, *last + 1});
  }
  return ranges;
}

LeaseFact FactOf(const Blamed& blamed) {
  return {.kind = LeaseFact::Kind::kBlamed,
          .lease = blamed.failures,
          .begin = blamed.range.begin,
          .end = blamed.range.end,
          .text = BlameToText(blamed)};
}

// ---- facts ----

void LeaseBook::Restore(const LeaseFact& fact) { Apply(fact); }

void LeaseBook::RestoreProgress(const LeaseFact& fact) {
  const auto set = sets_.find(fact.set);
  if (set == sets_.end()) return;
  const bool is_anew =
      fact.kind == LeaseFact::Kind::kRewound || fact.kind == LeaseFact::Kind::kUndone;
  if (is_anew) set->second.progress.clear();
  if (fact.kind == LeaseFact::Kind::kAcked) set->second.Note(fact);
}

void LeaseBook::Boot(uint64_t first_lease, LeaseActions* actions) {
  CHECK(first_lease >= first_lease_, "ids of leases only rise");
  first_lease_ = first_lease;
  for (auto& [number, set] : sets_) Open(&set);
  actions->facts.push_back({.kind = LeaseFact::Kind::kBooted, .lease = first_lease});
  ++facts_;
}

// Builds the data set's ledger from its durable facts: the done, quarantined and blamed ranges.
void LeaseBook::Open(DataSet* set) const {
  LedgerSnapshot snapshot{.samples = set->spec.samples,
                          .done = set->done.Ranges(),
                          .quarantined = set->quarantined.Ranges(),
                          .blamed = set->blamed.All()};
  for (const Partition& one : set->stream.partitions()) snapshot.grown.push_back(one.range);
  const uint64_t next = set->ledger ? set->ledger->next_lease() : first_lease_;
  set->ledger = ShardLedger::Restore(set->spec, snapshot, std::max(next, set->ended_leases));
  set->done = {};
}

void LeaseBook::Apply(const LeaseFact& fact) {
  using Kind = LeaseFact::Kind;
  if (fact.kind == Kind::kBooted) {
    first_lease_ = std::max(first_lease_, fact.lease + 1);
    return;
  }
  if (fact.kind == Kind::kOpened) return ApplyOpened(fact);
  if (fact.kind == Kind::kCommitted) {
    committed_.insert(fact.begin);
    while (committed_.size() > kCommittedMax) committed_.erase(committed_.begin());
    for (auto& [number, set] : sets_) Trim(&set);
    return;
  }
  const auto found = sets_.find(fact.set);
  if (found == sets_.end()) return;
  DataSet& set = found->second;
  switch (fact.kind) {
    case Kind::kAcked: return ApplyAcked(fact, &set);
    case Kind::kQuarantined:
      set.quarantined.Add({fact.begin, fact.end});
      return set.blamed.Erase({fact.begin, fact.end});
    case Kind::kBlamed: {
      auto blamed = BlameFromText(fact.text);
      if (!blamed || fact.end <= fact.begin || fact.end > set.spec.samples) return;
      blamed->range = {fact.begin, fact.end};
      blamed->failures = fact.lease;
      return set.blamed.Put(*std::move(blamed));
    }
    case Kind::kMarked: return ApplyMarked(fact, &set);
    case Kind::kRewound: return ApplyRewound(fact, &set);
    case Kind::kUndone: return ApplyUndone(fact, &set);
    case Kind::kDone: return set.done.Add({fact.begin, fact.end});
    case Kind::kPosition: {
      const auto [name, ranges] = SplitLine(fact.text);
      return KeepPosition(name, SetOf(RangesFromText(ranges).value_or(Ranges{})), &set);
    }
    case Kind::kCut: {
      const auto [ranks, ranges] = SplitLine(fact.text);
      Cut& cut = set.cuts[fact.begin];
      cut.world_size = fact.end;
      for (const std::string_view rank : SplitParts(ranks, ",")) {
        cut.marked.insert(ParseWhole<uint64_t>(rank).value_or(0));
      }
      cut.done = SetOf(RangesFromText(ranges).value_or(Ranges{}));
      return;
    }
    case Kind::kFound: return ApplyFound(fact, &set);
    case Kind::kGap:
      return fact.lease == 0 ? set.stream.AddGap({fact.begin, fact.end})
                             : set.stream.AddRefused({fact.begin, fact.end}, fact.text);
    case Kind::kBooted:
    case Kind::kOpened:
    case Kind::kCommitted: break;
  }
}

void LeaseBook::ApplyOpened(const LeaseFact& fact) {
  DataSet& set = sets_[fact.set];
  set.number = fact.set;
  set.job = job_;
  std::tie(set.name, set.terms) = SplitLine(fact.text);
  set.spec.samples = fact.end;
  set.follows_checkpoints = (fact.begin & 1) != 0;
  set.is_stream = set.spec.by_partition = (fact.begin & 2) != 0;
  set.trains_tables = (fact.begin & 4) != 0;
  by_name_[set.name] = fact.set;
}

void LeaseBook::ApplyFound(const LeaseFact& fact, DataSet* set) {
  const OrdinalRange range{fact.begin, fact.end};
  if (!set->is_stream || !set->stream.Add({fact.text, fact.lease, range})) return;
  if (set->ledger && range.size() > 0) set->ledger->Grow(range);
}

void LeaseBook::DataSet::Note(const LeaseFact& fact) {
  auto& ends = progress[fact.worker];
  ends[fact.lease] = std::max(ends[fact.lease], fact.end);
  while (ends.size() > kProgressMax) ends.erase(ends.begin());
  // Leases of this worker's older processes are fenced.
  const auto mine = progress.find(fact.worker);
  for (auto old = mine; old != progress.begin();) {
    --old;
    if (old->first.worker != fact.worker.worker) break;
    old = progress.erase(old);
  }
}

uint64_t LeaseBook::DataSet::DoneOf(const WorkerKey& worker, uint64_t lease) const {
  const auto known = progress.find(worker);
  if (known == progress.end()) return 0;
  const auto end = known->second.find(lease);
  return end == known->second.end() ? 0 : end->second;
}

void LeaseBook::ApplyAcked(const LeaseFact& fact, DataSet* set) {
  const OrdinalRange range{fact.begin, fact.end};
  if (!set->ledger) set->done.Add(range);
  set->blamed.Done(range);
  for (auto& [step, cut] : set->cuts) {
    if (!cut.marked.contains(fact.worker.worker)) cut.done.Add(range);
  }
  set->Note(fact);
}

std::string LeaseBook::DataSet::PositionOf(uint64_t step) const {
  return Concat(job, job.empty() ? "" : ".", "g", lineage.generation, ".", lineage.number, ".s",
                step);
}

void LeaseBook::ApplyMarked(const LeaseFact& fact, DataSet* set) {
  const auto [place, is_new] = set->cuts.try_emplace(fact.begin);
  Cut& cut = place->second;
  if (is_new) {
    cut.world_size = fact.end;
    cut.done = set->ledger ? set->ledger->done() : set->done;
  }
  cut.marked.insert(fact.worker.worker);
  if (cut.marked.size() >= cut.world_size) {
    KeepPosition(set->PositionOf(fact.begin), std::move(cut.done), set);
    set->cuts.erase(place);
  }
  // Removes cuts of steps that not every rank saved.
  while (set->cuts.size() > kPositionsMax) set->cuts.erase(set->cuts.begin());
}

void LeaseBook::KeepPosition(const std::string& name, IntervalSet done, DataSet* set) {
  if (set->positions.insert_or_assign(name, std::move(done)).second) {
    set->position_order.push_back(name);
  }
  Trim(set);
}

// Keeps the newest positions, and those of steps in storage.
void LeaseBook::Trim(DataSet* set) {
  const auto is_committed = [this](const std::string& name) {
    const auto step = ParseWhole<uint64_t>(std::string_view(name).substr(name.rfind('s') + 1));
    return step && committed_.contains(*step);
  };
  const size_t count = set->position_order.size();
  if (count <= kPositionsMax) return;
  std::deque<std::string> kept;
  for (size_t i = 0; i < count; ++i) {
    std::string& name = set->position_order[i];
    if (i + kPositionsMax >= count || is_committed(name)) {
      kept.push_back(std::move(name));
    } else {
      set->positions.erase(name);
    }
  }
  set->position_order = std::move(kept);
}

void LeaseBook::ApplyRewound(const LeaseFact& fact, DataSet* set) {
  set->lineage = {fact.begin, fact.end};
  set->granted.clear();
  set->share.reset();
  set->is_fresh = set->ledger.has_value();
  const auto position = set->positions.find(fact.text);
  set->done = position == set->positions.end() ? IntervalSet{} : position->second;
  // Quarantined ordinals stay quarantined, even if they were done before.
  for (const OrdinalRange& range : set->quarantined.Ranges()) set->done.Remove(range);
  // Blame stays as well: it concerns samples, whatever the model has seen.
  for (const OrdinalRange& range : set->done.Ranges()) set->blamed.Done(range);
  set->stream.Rewind(set->done);
  set->cuts.clear();
  set->progress.clear();
  if (set->ledger) Open(set);
}

std::vector<LeaseFact> LeaseBook::Summary() const {
  using Kind = LeaseFact::Kind;
  std::vector<LeaseFact> facts;
  for (const uint64_t step : committed_) facts.push_back({.kind = Kind::kCommitted, .begin = step});
  for (const auto& [number, set] : sets_) {
    const auto add = [&facts, number = number](LeaseFact fact) {
      fact.set = number;
      facts.push_back(std::move(fact));
    };
    add({.kind = Kind::kOpened,
         .begin = (set.follows_checkpoints ? 1u : 0u) + (set.is_stream ? 2u : 0u) +
                  (set.trains_tables ? 4u : 0u),
         .end = set.spec.samples,
         .text = set.name + "\n" + set.terms});
    for (const Partition& one : set.stream.partitions()) {
      add({.kind = Kind::kFound,
           .lease = one.base,
           .begin = one.range.begin,
           .end = one.range.end,
           .text = one.name});
    }
    for (const std::string& name : set.position_order) {
      add({.kind = Kind::kPosition,
           .text = name + "\n" + RangesToText(set.positions.at(name).Ranges())});
    }
    for (const OrdinalRange& range : set.quarantined.Ranges()) {
      add({.kind = Kind::kQuarantined, .begin = range.begin, .end = range.end});
    }
    for (const Blamed& one : set.blamed.All()) add(FactOf(one));
    // Before the finished ranges, because a rewind clears them.
    add({.kind = Kind::kRewound, .begin = set.lineage.generation, .end = set.lineage.number});
    if (set.ended_leases > 0) add({.kind = Kind::kUndone, .lease = set.ended_leases});
    for (const OrdinalRange& range : (set.ledger ? set.ledger->done() : set.done).Ranges()) {
      add({.kind = Kind::kDone, .begin = range.begin, .end = range.end});
    }
    for (const uint64_t kind : {0, 1}) {
      const IntervalSet& gaps = kind == 0 ? set.stream.gaps() : set.stream.refused();
      for (const OrdinalRange& range : gaps.Ranges()) {
        add({.kind = Kind::kGap, .lease = kind, .begin = range.begin, .end = range.end});
      }
    }
    for (const auto& [step, cut] : set.cuts) {
      std::string ranks;
      for (const uint64_t rank : cut.marked) Append(&ranks, ranks.empty() ? "" : ",", rank);
      add({.kind = Kind::kCut,
           .begin = step,
           .end = cut.world_size,
           .text = ranks + "\n" + RangesToText(cut.done.Ranges())});
    }
  }
  facts.push_back({.kind = Kind::kBooted, .lease = first_lease_});
  return facts;
}

std::vector<DataSetView> LeaseBook::Views() const {
  std::vector<DataSetView> views;
  for (const auto& [number, set] : sets_) {
    const IntervalSet& done = set.ledger ? set.ledger->done() : set.done;
    views.push_back({.name = set.name,
                     .terms = set.terms,
                     .ordinals = set.spec.samples,
                     .done = done.total(),
                     .open_leases = set.ledger ? set.ledger->open_leases() : 0,
                     .leased = set.ledger ? set.ledger->leased() : 0,
                     .workers = set.sessions.size(),
                     .follows_checkpoints = set.follows_checkpoints,
                     .is_complete = done.total() + set.quarantined.total() == set.spec.samples,
                     .quarantined = set.quarantined.Ranges(),
                     .is_stream = set.is_stream});
    if (set.is_stream) set.View(done, &views.back());
  }
  return views;
}

void LeaseBook::DataSet::View(const IntervalSet& finished, DataSetView* view) const {
  view->ordinals = stream.known(finished);
  view->leased = 0;  // records of the future, too
  view->gaps = stream.gaps().total();
  view->quarantined = stream.refused().Ranges();
  view->reasons.assign(stream.reasons().begin(), stream.reasons().end());
  for (const Partition& one : stream.partitions()) {
    PartitionView& part = view->partitions.emplace_back(stream.ViewOf(one, finished));
    if (!ledger) continue;
    const auto holder = ledger->HolderOf(one.range.begin + part.offset - one.base);
    if (holder) part.holder = holder->worker;
  }
}

bool LeaseBook::IsDone(uint32_t set, uint64_t ordinal) const {
  const auto found = sets_.find(set);
  if (found == sets_.end()) return false;
  const DataSet& known = found->second;
  return (known.ledger ? known.ledger->done() : known.done).Covers({ordinal, ordinal + 1});
}

bool LeaseBook::FollowsCheckpoints(uint32_t set) const {
  const auto found = sets_.find(set);
  return found != sets_.end() && found->second.follows_checkpoints;
}

std::string LeaseBook::Broken() const {
  for (const auto& [number, set] : sets_) {
    if (!set.ledger) continue;
    if (const std::string broken = set.ledger->Broken(); !broken.empty()) {
      return set.name + ": " + broken;
    }
    if (!(set.quarantined == set.ledger->quarantined())) return set.name + ": untold quarantine";
    if (set.blamed.All() != set.ledger->Snapshot().blamed) return set.name + ": untold blame";
  }
  return "";
}

// ---- events ----

void LeaseBook::Handle(Instant now, const LeasePeer& from, const LeaseFrame& frame,
                       LeaseActions* actions) {
  Turn(this, now, actions).Take(from, frame);
}

void LeaseBook::PeerGone(Instant now, const LeasePeer& peer, bool is_blamed,
                         LeaseActions* actions) {
  agreements_.Leave(peer);
  having_.erase(peer);
  Turn(this, now, actions).End(peer, is_blamed);
}

void LeaseBook::LinkBroken(Instant now, uint64_t link, Duration patience) {
  agreements_.LeaveAll(link);
  for (auto session = sessions_.lower_bound({link, 0});
       session != sessions_.end() && session->first.link == link; ++session) {
    session->second.lost_until = now + patience;
  }
}

void LeaseBook::Committed(uint64_t step, LeaseActions* actions) {
  if (committed_.contains(step)) return;
  Turn(this, Instant(), actions).Note({.kind = LeaseFact::Kind::kCommitted, .begin = step});
}

std::string LeaseBook::JobOf(const std::string& position) {
  const size_t end = position.rfind(".g");
  return end == std::string::npos ? "" : position.substr(0, end);
}

bool LeaseBook::Lacks(const LeasePeer& from, const std::string& position) const {
  const auto session = sessions_.find(from);
  if (session == sessions_.end()) return false;
  const DataSet& set = sets_.at(session->second.set);
  return set.follows_checkpoints && !position.empty() && !set.positions.contains(position);
}

bool LeaseBook::Adopt(const LeasePeer& from, const std::string& position, const LeaseBook& other,
                      LeaseActions* actions) {
  if (!Lacks(from, position)) return false;
  const DataSet& set = sets_.at(sessions_.at(from).set);
  const auto known = other.by_name_.find(set.name);
  if (known == other.by_name_.end()) return false;
  const DataSet& theirs = other.sets_.at(known->second);
  const auto found = theirs.positions.find(position);
  const bool is_same = theirs.terms == set.terms && theirs.spec.samples == set.spec.samples;
  if (!is_same || found == theirs.positions.end()) return false;
  if (set.is_stream) {
    return Adopt(from, position, found->second.Ranges(), theirs.stream.partitions(), actions);
  }
  return Adopt(from, position, found->second.Ranges(), actions);
}

bool LeaseBook::Adopt(const LeasePeer& from, const std::string& position,
                      const std::vector<OrdinalRange>& done, LeaseActions* actions) {
  if (!Lacks(from, position)) return false;
  const DataSet& set = sets_.at(sessions_.at(from).set);
  if (!done.empty() && done.back().end > set.spec.samples) return false;
  Turn(this, Instant(), actions)
      .Note({.kind = LeaseFact::Kind::kPosition,
             .set = set.number,
             .text = position + "\n" + RangesToText(done)});
  return true;
}

bool LeaseBook::Adopt(const LeasePeer& from, const std::string& position,
                      const std::vector<OrdinalRange>& done,
                      const std::vector<Partition>& partitions, LeaseActions* actions) {
  if (!Lacks(from, position)) return false;
  const DataSet& set = sets_.at(sessions_.at(from).set);
  if (!set.is_stream) return false;
  Turn turn(this, Instant(), actions);
  for (const Partition& one : partitions) {
    if (set.stream.Find(one.name) != nullptr) continue;
    const bool has_end = one.range.end != EndOfPartition(one.range.begin);
    const OrdinalRange range =
        set.stream.NextRange(has_end ? std::optional(one.range.size()) : std::nullopt);
    if (range.end > kSamplesMax) return false;
    turn.Note({.kind = LeaseFact::Kind::kFound,
               .set = set.number,
               .lease = one.base,
               .begin = range.begin,
               .end = range.end,
               .text = one.name});
  }
  const auto own = Translated(done, partitions, set.stream);
  return own && Adopt(from, position, *own, actions);
}

std::string LeaseBook::PositionText(const std::string& position) const {
  for (const auto& [number, set] : sets_) {
    const auto found = set.positions.find(position);
    if (found == set.positions.end()) continue;
    const std::string ranges = RangesToText(found->second.Ranges());
    return set.is_stream ? ranges + "\n" + PartitionsToText(set.stream.partitions()) : ranges;
  }
  return "";
}

void LeaseBook::Tick(Instant now, LeaseActions* actions) { Turn(this, now, actions).Pass(); }

Instant LeaseBook::NextDeadline() const {
  Instant soonest = Instant::Max();
  for (const auto& [number, set] : sets_) {
    if (set.ledger) soonest = std::min(soonest, set.ledger->NextDeadline());
  }
  for (const auto& [peer, session] : sessions_) {
    if (session.lost_until) soonest = std::min(soonest, *session.lost_until);
  }
  return soonest;
}

}  // namespace paceline

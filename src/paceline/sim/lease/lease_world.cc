#include "paceline/sim/lease/lease_world.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/base/text.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/sim/lease/lease_master.h"
#include "paceline/sim/lease/lease_verdict.h"
#include "paceline/sim/lease/lease_worker.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kPerLink = 2;  // workers of a node
constexpr int kStepsMax = 60'000;

using Worker = LeaseWorker;

class World {
 public:
  World(uint64_t seed, LeaseCanary canary, const LeaseLimits& limits)
      : prng_(seed),
        canary_(canary),
        limits_(limits),
        follows_(canary == LeaseCanary::kNoRewind || canary == LeaseCanary::kUnevenShares ||
                 prng_.Chance(1, 2)),
        is_even_(follows_ && (canary == LeaseCanary::kUnevenShares || prng_.Chance(1, 2))),
        ordinals_(20 + prng_.Below(150)),
        lease_max_(1 + prng_.Below(20)),
        units_{.unit = is_even_ ? 0 : seed % 6, .epoch = seed % 5 == 0 ? 0 : 20 + seed % 23},
        poisoned_(!follows_ && prng_.Chance(1, 4) ? prng_.Below(ordinals_) : UINT64_MAX),
        master_({.confirms_early = canary == LeaseCanary::kConfirmEarly,
                 .loses_facts = canary == LeaseCanary::kLoseFacts},
                [this](const LeaseAnswer& answer) { Send(answer); }) {
    const uint64_t count = 1 + prng_.Below(4);
    for (uint64_t rank = 0; rank < count; ++rank) {
      Worker worker;
      worker.rank = rank;
      workers_.push_back(std::move(worker));
    }
    up_.resize(count);
    down_.resize(count);
    links_.resize(count / kPerLink + 1);
    for (size_t node = 0; node < links_.size(); ++node) Relink(node);
  }

  LeaseOutcome Run() {
    int step = 0;
    for (; step < kStepsMax && wrong_.empty() && !IsOver(); ++step) {
      is_calm_ = static_cast<uint64_t>(step) >= limits_.faulty_steps;
      Step();
      if (const std::string broken = book().Broken(); !broken.empty()) wrong_ = broken;
    }
    if (wrong_.empty() && !IsOver()) wrong_ = "did not end";
    if (wrong_.empty()) {
      wrong_ = JudgeLeases({.journal = master_.journal(),
                            .workers = workers_,
                            .ordinals = ordinals_,
                            .poisoned = poisoned_,
                            .follows = follows_,
                            .is_even = is_even_});
    }
    return {.wrong = wrong_, .events = events_, .faults = faults_, .unseed = prng_.Next()};
  }

 private:
  // ---- the host ----

  LeaseBook& book() { return master_.book(); }

  void Send(const LeaseAnswer& answer) {
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (peers_[i] == answer.to) down_[i].push_back(answer.frame);
    }
  }

  void Crash() {
    ++faults_;
    master_.Crash(&prng_);
    for (size_t node = 0; node < links_.size(); ++node) Relink(node);
  }

  // Messages in flight are lost, and all workers must open again.
  void Relink(size_t node) {
    links_[node] = next_link_++;
    for (size_t i = node * kPerLink; i < std::min(workers_.size(), (node + 1) * kPerLink); ++i) {
      up_[i].clear();
      down_[i].clear();
      down_[i].push_back({.op = LeaseOp::kReset, .number = links_[node]});
      if (!workers_[i].is_alive) continue;
      if (peers_[i].peer == 0) peers_[i].peer = next_peer_++;
      peers_[i].link = links_[node];
    }
  }

  void BreakLink(size_t node) {
    ++faults_;
    book().LinkBroken(now_, links_[node],
                      prng_.Chance(1, 2) ? Duration() : LeaseBook::kLinkPatience);
    Relink(node);
  }

  // ---- the schedule ----

  void Step() {
    now_ += Duration::Milliseconds(static_cast<int64_t>(prng_.Below(is_calm_ ? 2 : 30)));
    const uint64_t choice = prng_.Below(100);
    const size_t index = prng_.Below(workers_.size());
    if (choice < 35) return Act(index);
    if (choice < 60) return Deliver(index);
    if (choice < 80) return Hear(index);
    if (choice < 90) return master_.Flush(is_calm_, &prng_);
    if (choice < 94) return Tick();
    if (!is_calm_) return Fault(index);
    workers_[index].is_frozen = false;
    if (!workers_[index].is_alive) Return(index);
  }

  void Tick() {
    // In the calm phase no worker is so slow that its deadline passes.
    now_ += Duration::Milliseconds(static_cast<int64_t>(prng_.Below(is_calm_ ? 10 : 2'000)));
    LeaseActions actions;
    book().Tick(now_, &actions);
    master_.Keep(&actions);
  }

  void Fault(size_t index) {
    Worker& worker = workers_[index];
    const uint64_t kind = std::min<uint64_t>(prng_.Below(6), std::size(kLeaseFaults) - 1);
    if ((limits_.without >> kind & 1) != 0) return;
    switch (kind) {
      case 0: return Crash();
      case 1: return BreakLink(index / kPerLink);
      case 2: worker.is_frozen = !worker.is_frozen; return;
      case 3: return worker.is_alive ? (++faults_, Die(index)) : void();
      default: return worker.is_alive ? void() : Return(index);
    }
  }

  // Killed by a fault, or by a sample that kills its reader, which is not a fault of the schedule.
  void Die(size_t index) {
    Worker& worker = workers_[index];
    worker.is_alive = false;
    if (prng_.Chance(2, 3)) {  // its agent reports it; else a deadline or its successor does
      LeaseActions actions;
      book().PeerGone(now_, peers_[index], prng_.Chance(1, 2), &actions);
      master_.Keep(&actions);
    }
    up_[index].clear();
    down_[index].clear();
    peers_[index] = {};  // no connection
  }

  void Return(size_t index) {
    if (!follows_) return Begin(index);
    // The whole world restarts from the newest common save.
    ++generation_;
    uint64_t best = 0;
    for (const auto& [step, counts] : workers_[0].images) {
      const bool is_whole =
          std::all_of(workers_.begin(), workers_.end(),
                      [step = step](const Worker& one) { return one.images.contains(step); });
      if (is_whole) best = step;
    }
    for (size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[i];
      const bool was_alive = worker.is_alive;
      const std::string position = best == 0 ? "" : worker.marked[best];
      std::map<uint64_t, LeaseWorker::Counts> images;
      std::map<uint64_t, std::string> marked;
      if (best != 0) images[best] = worker.images[best], marked[best] = position;
      if (was_alive) Die(i);
      Begin(i);
      worker.images = std::move(images);
      worker.marked = std::move(marked);
      worker.next_step = best + 1;
      if (best == 0) continue;
      worker.counts = worker.images[best];
      if (canary_ == LeaseCanary::kNoRewind) continue;
      worker.rewinds = 1;
      worker.position = position;
      worker.awaits_rewind = true;
    }
  }

  void Begin(size_t index) {
    const Worker before = std::move(workers_[index]);
    Worker worker;
    worker.rank = before.rank;
    worker.incarnation = before.incarnation + 1;
    worker.generation = follows_ ? generation_ : 1;
    if (!follows_) worker.counts = before.counts;  // confirmed counts of all its lives
    workers_[index] = std::move(worker);
    up_[index].clear();
    down_[index].clear();
    peers_[index] = {links_[index / kPerLink], next_peer_++};
  }

  bool IsOver() const {
    return std::all_of(workers_.begin(), workers_.end(), [](const Worker& one) {
      return one.is_alive && one.is_complete && one.unconfirmed.empty();
    });
  }

  // ---- workers ----

  void Say(size_t index, LeaseFrame frame) { up_[index].push_back(std::move(frame)); }

  void Act(size_t index) {
    Worker& worker = workers_[index];
    if (!worker.is_alive || worker.is_frozen) return;
    if (!worker.is_open) return Open(index);
    if (worker.awaits_rewind || worker.awaits_mark) return;
    if (follows_ && prng_.Chance(1, 6)) {
      worker.awaits_mark = worker.next_step;
      if (worker.presenting.empty()) SayMark(index);
      return;
    }
    const auto lease = std::find_if(worker.held.begin(), worker.held.end(), [](const auto& one) {
      return one.second.done < one.second.range.end;
    });
    if (lease == worker.held.end()) {
      if (worker.has_request || worker.is_complete) return;
      worker.has_request = true;
      return Say(index, {.op = LeaseOp::kTake, .number = worker.next_number++});
    }
    WorkOn(index, lease->first, &lease->second);
  }

  void WorkOn(size_t index, uint64_t lease, Worker::Held* held) {
    Worker& worker = workers_[index];
    uint64_t until = std::min(held->range.end, held->done + 1 + prng_.Below(5));
    // Whole batches.
    if (!units_.IsBorder(until)) until = std::min(held->range.end, units_.Next(until));
    if (held->done <= poisoned_ && poisoned_ < until) {
      if (prng_.Chance(1, 2)) return Die(index);
      Say(index, {.op = LeaseOp::kFail, .lease = lease, .begin = poisoned_, .end = poisoned_ + 1});
      held->range.end = held->done;
      if (held->confirmed == held->done) worker.held.erase(lease);
      return;
    }
    if (follows_) {
      for (uint64_t i = held->done; i < until; ++i) ++worker.counts[i];
    }
    held->done = until;
    SayAck(index, lease, until);
  }

  void SayAck(size_t index, uint64_t lease, uint64_t until) {
    Worker& worker = workers_[index];
    const uint64_t number = worker.next_number++;
    worker.unconfirmed[number] = {lease, until};
    Say(index, {.op = LeaseOp::kAck, .number = number, .lease = lease, .end = until});
  }

  void Open(size_t index) {
    Worker& worker = workers_[index];
    worker.is_open = true;
    const bool is_even = is_even_ && canary_ != LeaseCanary::kUnevenShares;
    const LeaseOpen open = worker.Introduce(
        {ordinals_, workers_.size(), lease_max_, follows_, is_even, /*is_stream=*/false, units_});
    Report(index);
    Say(index, {.op = LeaseOp::kOpen, .begin = worker.granted, .text = EncodeOpen(open)});
    if (worker.rewinds > 0) {
      Say(index, {.op = LeaseOp::kRewind, .number = worker.rewinds, .text = worker.position});
    }
    for (const auto& [lease, held] : worker.held) {
      Say(index, {.op = LeaseOp::kPresent,
                  .number = held.confirmed,
                  .lease = lease,
                  .begin = held.range.begin,
                  .end = held.range.end});
    }
    worker.presenting.clear();
    for (const auto& [lease, held] : worker.held) worker.presenting.insert(lease);
    // A mark follows all acks before it, so it is sent only after each lease was presented.
    if (worker.presenting.empty()) SayMark(index);
    if (worker.has_request) {
      Say(index, {.op = LeaseOp::kTake, .number = worker.next_number++});
    }
  }

  // Reports the order, which is the same on all ranks unless a canary changes it.
  void Report(size_t index) {
    const Worker& worker = workers_[index];
    const bool is_other = canary_ == LeaseCanary::kOtherOrder && worker.rank == 1;
    Say(index, {.op = LeaseOp::kAgree,
                .number = worker.generation,
                .lease = is_other ? 8u : 7u,
                .begin = worker.rank,
                .text = "train"});
  }

  void Deliver(size_t index) {
    if (up_[index].empty() || peers_[index].peer == 0) return;
    const LeaseFrame frame = std::move(up_[index].front());
    up_[index].pop_front();
    ++events_;
    LeaseActions actions;
    book().Handle(now_, peers_[index], frame, &actions);
    master_.Keep(&actions);
  }

  void Hear(size_t index) {
    Worker& worker = workers_[index];
    if (down_[index].empty() || !worker.is_alive || worker.is_frozen) return;
    const LeaseFrame frame = std::move(down_[index].front());
    down_[index].pop_front();
    switch (frame.op) {
      case LeaseOp::kGranted:
        if (!units_.IsBorder(frame.begin) ||
            (frame.end != ordinals_ && !units_.IsBorder(frame.end))) {
          wrong_ = Concat("lease ", frame.lease, " divides a batch");
        }
        worker.has_request = false;
        worker.granted += frame.end - frame.begin;
        worker.held[frame.lease] = {
            .range = {frame.begin, frame.end}, .done = frame.begin, .confirmed = frame.begin};
        return;
      case LeaseOp::kComplete:
        worker.has_request = false;
        worker.is_complete = true;
        return;
      case LeaseOp::kStale: return Lose(index, frame.lease);
      case LeaseOp::kConfirmed: return Confirm(index, frame.number);
      case LeaseOp::kPresented: return GoOn(index, frame);
      case LeaseOp::kMarked:
        if (worker.awaits_mark != frame.number) return;
        worker.awaits_mark.reset();
        worker.marked[frame.number] = frame.text;
        worker.images[frame.number] = worker.counts;
        worker.next_step = frame.number + 1;
        while (worker.images.size() > 3) worker.images.erase(worker.images.begin());
        return;
      case LeaseOp::kRewound: worker.awaits_rewind = false; return;
      case LeaseOp::kReset: return Open(index);
      case LeaseOp::kDiffers: worker.is_told = true; return;
      case LeaseOp::kRefused: wrong_ = "refused: " + frame.text; return;
      case LeaseOp::kFenced:
        if (worker.generation == generation_ || !follows_) wrong_ = "the newest was fenced";
        return;
      default: return;
    }
  }

  void Count(size_t index, uint64_t lease, OrdinalRange range) {
    if (range.begin >= range.end) return;
    Worker& worker = workers_[index];
    if (!follows_) {
      for (uint64_t i = range.begin; i < range.end; ++i) ++worker.counts[i];
    }
    CheckBacked(index, lease, range);
  }

  // An answer to a worker must be covered by durable facts of its lease.
  void CheckBacked(size_t index, uint64_t lease, OrdinalRange range) {
    IntervalSet backed;
    for (size_t i = 0; i < master_.durable(); ++i) {
      const LeaseFact& fact = master_.journal()[i];
      const bool is_its = fact.kind == LeaseFact::Kind::kAcked && fact.lease == lease &&
                          fact.worker.worker == workers_[index].rank;
      if (is_its) backed.Add({fact.begin, fact.end});
    }
    if (!backed.Covers(range))
      wrong_ = Concat("lease ", lease, " was confirmed and is not durable");
  }

  void Confirm(size_t index, uint64_t number) {
    Worker& worker = workers_[index];
    while (!worker.unconfirmed.empty() && worker.unconfirmed.begin()->first <= number) {
      const auto [lease, until] = worker.unconfirmed.begin()->second;
      worker.unconfirmed.erase(worker.unconfirmed.begin());
      const auto held = worker.held.find(lease);
      if (held == worker.held.end()) continue;
      Count(index, lease, {held->second.confirmed, until});
      held->second.confirmed = std::max(held->second.confirmed, until);
      if (held->second.confirmed == held->second.range.end) worker.held.erase(held);
    }
  }

  void Lose(size_t index, uint64_t lease) {
    Worker& worker = workers_[index];
    std::erase_if(worker.unconfirmed, [&](const auto& one) { return one.second.first == lease; });
    const auto held = worker.held.find(lease);
    if (held == worker.held.end()) return;
    if (canary_ == LeaseCanary::kCountStale) {
      for (uint64_t i = held->second.confirmed; i < held->second.done; ++i) ++worker.counts[i];
    }
    worker.held.erase(held);
    // The model has counted ordinals that another worker has now, so it returns to its last
    // checkpoint.
    if (follows_) return Die(index);
    Presented(index, lease);
  }

  void GoOn(size_t index, const LeaseFrame& frame) {
    Worker& worker = workers_[index];
    const auto held = worker.held.find(frame.lease);
    if (held == worker.held.end()) {
      return Say(index, {.op = LeaseOp::kReturn, .lease = frame.lease});
    }
    Count(index, frame.lease, {held->second.confirmed, frame.begin});
    held->second.confirmed = std::max(held->second.confirmed, frame.begin);
    std::erase_if(worker.unconfirmed,
                  [&](const auto& one) { return one.second.first == frame.lease; });
    if (held->second.done > frame.begin) {
      SayAck(index, frame.lease, held->second.done);
    } else if (held->second.confirmed == held->second.range.end) {
      worker.held.erase(held);
    }
    Presented(index, frame.lease);
  }

  void Presented(size_t index, uint64_t lease) {
    Worker& worker = workers_[index];
    if (worker.presenting.erase(lease) > 0 && worker.presenting.empty()) SayMark(index);
  }

  void SayMark(size_t index) {
    const Worker& worker = workers_[index];
    if (worker.awaits_mark) Say(index, {.op = LeaseOp::kMark, .number = *worker.awaits_mark});
  }

  Prng prng_;
  const LeaseCanary canary_;
  const LeaseLimits limits_;
  const bool follows_;
  const bool is_even_;
  const uint64_t ordinals_;
  const uint64_t lease_max_;
  const Units units_;
  const uint64_t poisoned_;
  LeaseMaster master_;
  std::vector<Worker> workers_;
  std::vector<std::deque<LeaseFrame>> up_;
  std::vector<std::deque<LeaseFrame>> down_;
  std::vector<uint64_t> links_;        // by node
  std::map<size_t, LeasePeer> peers_;  // by worker; peer 0: it is dead
  uint64_t next_link_ = 1;
  uint32_t next_peer_ = 1;
  uint64_t generation_ = 1;
  Instant now_;
  bool is_calm_ = false;
  uint64_t events_ = 0;
  uint64_t faults_ = 0;
  std::string wrong_;
};

}  // namespace

LeaseOutcome RunLeaseWorld(uint64_t seed, LeaseCanary canary, const LeaseLimits& limits) {
  return World(seed, canary, limits).Run();
}

}  // namespace paceline::sim

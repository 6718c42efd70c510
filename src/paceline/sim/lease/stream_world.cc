#include "paceline/sim/lease/stream_world.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/base/text.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/sim/lease/lease_master.h"
#include "paceline/sim/lease/lease_worker.h"
#include "paceline/sim/lease/stream_verdict.h"

namespace paceline::sim {
namespace {

constexpr int kStreamStepsMax = 60'000;
constexpr uint64_t kPartitionsEndMax = 7;
constexpr uint64_t kRecordsMax = 60;  // of a partition

using Topic = StreamTopic;

class StreamWorld {
 public:
  StreamWorld(uint64_t seed, StreamCanary canary, const LeaseLimits& limits)
      : prng_(seed),
        canary_(canary),
        limits_(limits),
        follows_(canary != StreamCanary::kHeldTwice && prng_.Chance(1, 2)),
        master_({}, [this](const LeaseAnswer& answer) { Send(answer); }) {
    const uint64_t count = 1 + prng_.Below(4);
    for (uint64_t rank = 0; rank < count; ++rank) {
      workers_.emplace_back().rank = rank;
      peers_.push_back({.link = 0, .peer = next_peer_++});
    }
    up_.resize(count);
    down_.resize(count);
    for (uint64_t i = 0; i <= prng_.Below(4); ++i) AddTopic();
    for (size_t i = 0; i < count; ++i) Relink(i);
  }

  LeaseOutcome Run() {
    int step = 0;
    for (; step < kStreamStepsMax && wrong_.empty() && !IsOver(); ++step) {
      is_calm_ = static_cast<uint64_t>(step) >= limits_.faulty_steps;
      Step();
      if (const std::string broken = master_.book().Broken(); !broken.empty()) wrong_ = broken;
    }
    if (wrong_.empty() && !IsOver()) wrong_ = "did not end: " + Unfinished();
    if (wrong_.empty()) wrong_ = JudgeStream(End());
    return {.wrong = wrong_, .events = events_, .faults = faults_, .unseed = prng_.Next()};
  }

 private:
  // ---- the broker ----

  void AddTopic() {
    if (topics_.size() >= kPartitionsEndMax) return;
    const uint64_t base = prng_.Below(5);
    topics_.push_back({.base = base, .oldest = 0, .end = base});
  }

  void Produce() {
    if (is_calm_) return;
    if (prng_.Chance(1, 40)) AddTopic();
    Topic& topic = topics_[prng_.Below(topics_.size())];
    topic.end = std::min(topic.end + prng_.Below(6), kRecordsMax);
    if (prng_.Chance(1, 30)) topic.oldest = std::min(topic.oldest + prng_.Below(10), topic.end);
  }

  // ---- the host and its links ----

  void Send(const LeaseAnswer& answer) {
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (peers_[i] == answer.to) down_[i].push_back(answer.frame);
    }
  }

  void Relink(size_t index) {
    up_[index].clear();
    down_[index].clear();
    down_[index].push_back({.op = LeaseOp::kReset, .number = next_link_});
    peers_[index].link = next_link_++;
  }

  void Crash() {
    ++faults_;
    master_.Crash(&prng_);
    for (size_t i = 0; i < workers_.size(); ++i) Relink(i);
  }

  template <class Do>
  void WithBook(Do act) {
    LeaseActions actions;
    act(&actions);
    master_.Keep(&actions);
  }

  // ---- the schedule ----

  void Step() {
    now_ += Duration::Milliseconds(static_cast<int64_t>(prng_.Below(is_calm_ ? 2 : 30)));
    const uint64_t choice = prng_.Below(100);
    const size_t index = prng_.Below(workers_.size());
    if (choice < 35) return Act(index);
    if (choice < 58) return Deliver(index);
    if (choice < 80) return Hear(index);
    if (choice < 88) return master_.Flush(is_calm_, &prng_);
    if (choice < 92) return Produce();
    if (choice < 94) return Tick();
    if (!is_calm_) return Fault(index);
    workers_[index].is_frozen = false;
    if (!workers_[index].is_alive) Return(index);
  }

  void Tick() {
    now_ += Duration::Milliseconds(static_cast<int64_t>(prng_.Below(is_calm_ ? 10 : 2'000)));
    WithBook([this](LeaseActions* actions) { master_.book().Tick(now_, actions); });
  }

  void Fault(size_t index) {
    LeaseWorker& worker = workers_[index];
    const uint64_t kind = std::min<uint64_t>(prng_.Below(6), std::size(kLeaseFaults) - 1);
    if ((limits_.without >> kind & 1) != 0) return;
    switch (kind) {
      case 0: return Crash();
      case 1:
        ++faults_;
        master_.book().LinkBroken(now_, peers_[index].link, LeaseBook::kLinkPatience);
        return Relink(index);
      case 2: worker.is_frozen = !worker.is_frozen; return;
      case 3: return worker.is_alive ? (++faults_, Die(index)) : void();
      default: return worker.is_alive ? void() : Return(index);
    }
  }

  void Die(size_t index) {
    workers_[index].is_alive = false;
    if (prng_.Chance(2, 3)) {  // its agent reports it; else a deadline or its successor does
      WithBook([&](LeaseActions* actions) {
        master_.book().PeerGone(now_, peers_[index], prng_.Chance(1, 2), actions);
      });
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
                      [step = step](const LeaseWorker& one) { return one.images.contains(step); });
      if (is_whole) best = step;
    }
    for (size_t i = 0; i < workers_.size(); ++i) {
      const LeaseWorker before = workers_[i];
      if (before.is_alive) Die(i);
      Begin(i);
      LeaseWorker& worker = workers_[i];
      worker.next_step = best + 1;
      if (best == 0) continue;
      worker.position = before.marked.at(best);
      worker.counts = before.images.at(best);
      worker.images[best] = worker.counts;
      worker.marked[best] = worker.position;
      worker.rewinds = 1;
      worker.awaits_rewind = true;
    }
  }

  void Begin(size_t index) {
    const LeaseWorker before = std::move(workers_[index]);
    LeaseWorker worker;
    worker.rank = before.rank;
    worker.incarnation = before.incarnation + 1;
    worker.generation = follows_ ? generation_ : 1;
    if (!follows_) worker.counts = before.counts;  // confirmed counts of all its lives
    workers_[index] = std::move(worker);
    peers_[index] = {.link = 0, .peer = next_peer_++};
    Relink(index);
  }

  // ---- workers ----

  void Say(size_t index, LeaseFrame frame) { up_[index].push_back(std::move(frame)); }

  void Act(size_t index) {
    LeaseWorker& worker = workers_[index];
    if (!worker.is_alive || worker.is_frozen || !worker.is_open) return;
    if (worker.awaits_rewind || worker.awaits_mark) return;
    if (prng_.Chance(1, 8)) return See(index);
    if (follows_ && prng_.Chance(1, 8)) {
      worker.awaits_mark = worker.next_step;
      if (worker.presenting.empty()) SayMark(index);
      return;
    }
    if (!worker.has_request) {
      worker.has_request = true;
      return Say(index, {.op = LeaseOp::kTake, .number = worker.next_number++});
    }
    if (worker.held.empty()) return;
    auto lease = worker.held.begin();
    std::advance(lease, prng_.Below(worker.held.size()));
    if (lease->second.is_recalled) return GiveBack(index, lease->first);
    Read(index, lease->first, &lease->second);
  }

  // Reports the partitions that it sees.
  void See(size_t index) {
    const size_t number = prng_.Below(topics_.size());
    Say(index,
        {.op = LeaseOp::kFound, .begin = topics_[number].base, .text = std::to_string(number)});
  }

  uint64_t OffsetOf(const LeaseWorker::Held& held, uint64_t ordinal) const {
    return topics_[held.partition].base + ordinal % kPartitionOrdinals;
  }

  void Read(size_t index, uint64_t lease, LeaseWorker::Held* held) {
    LeaseWorker& worker = workers_[index];
    const Topic& topic = topics_[held->partition];
    const uint64_t offset = OffsetOf(*held, held->done);
    if (held->done == held->range.end) return;  // a piece that a rewind has left over
    if (offset < topic.oldest) {
      const uint64_t eaten = std::min(topic.oldest - offset, held->range.end - held->done);
      held->gaps.push_back({held->done, held->done + eaten});
      SayGap(index, lease, held->gaps.back());
      held->done += eaten;
      return SayAck(index, lease, held->done);
    }
    const uint64_t there = topic.end - std::min(topic.end, offset);
    const uint64_t count = std::min({1 + prng_.Below(5), there, held->range.end - held->done});
    for (uint64_t i = 0; follows_ && i < count; ++i) {
      ++worker.counts[StreamKey(held->partition, offset + i)];
    }
    held->done += count;
    SayAck(index, lease, held->done);  // without new records it keeps the lease
  }

  void SayGap(size_t index, uint64_t lease, OrdinalRange gap) {
    Say(index, {.op = LeaseOp::kGap, .lease = lease, .begin = gap.begin, .end = gap.end});
  }

  void GiveBack(size_t index, uint64_t lease) {
    LeaseWorker& worker = workers_[index];
    LeaseWorker::Held& held = worker.held.at(lease);
    Say(index, {.op = LeaseOp::kReturn, .lease = lease});
    if (canary_ == StreamCanary::kReadPastRecall) {
      const uint64_t offset = OffsetOf(held, held.done);
      if (offset < topics_[held.partition].end) ++worker.counts[StreamKey(held.partition, offset)];
    }
    held.range.end = held.done;
    held.is_recalled = false;
    held.is_given_back = true;
    if (held.confirmed == held.done) worker.held.erase(lease);
  }

  void SayAck(size_t index, uint64_t lease, uint64_t until) {
    LeaseWorker& worker = workers_[index];
    const uint64_t number = worker.next_number++;
    worker.unconfirmed[number] = {lease, until};
    Say(index, {.op = LeaseOp::kAck, .number = number, .lease = lease, .end = until});
  }

  void Open(size_t index) {
    LeaseWorker& worker = workers_[index];
    worker.is_open = true;
    const LeaseOpen open = worker.Introduce({.ordinals = kSamplesMax,
                                             .world_size = workers_.size(),
                                             .lease_max = 1,
                                             .follows_checkpoints = follows_,
                                             .is_stream = true});
    Say(index, {.op = LeaseOp::kOpen, .text = EncodeOpen(open)});
    if (worker.rewinds > 0) {
      Say(index, {.op = LeaseOp::kRewind, .number = worker.rewinds, .text = worker.position});
    }
    worker.presenting.clear();
    for (auto& [lease, held] : worker.held) {
      held.is_recalled = false;
      worker.presenting.insert(lease);
      Say(index, {.op = LeaseOp::kPresent,
                  .number = held.confirmed,
                  .lease = lease,
                  .begin = held.range.begin,
                  .end = held.range.end});
      // Before any ack that covers them.
      for (const OrdinalRange& gap : held.gaps) SayGap(index, lease, gap);
    }
    if (worker.presenting.empty()) SayMark(index);
    if (worker.has_request) Say(index, {.op = LeaseOp::kTake, .number = worker.next_number++});
  }

  void Deliver(size_t index) {
    if (up_[index].empty() || peers_[index].peer == 0) return;
    const LeaseFrame frame = std::move(up_[index].front());
    up_[index].pop_front();
    ++events_;
    WithBook(
        [&](LeaseActions* actions) { master_.book().Handle(now_, peers_[index], frame, actions); });
  }

  void Hear(size_t index) {
    LeaseWorker& worker = workers_[index];
    if (down_[index].empty() || !worker.is_alive || worker.is_frozen) return;
    const LeaseFrame frame = std::move(down_[index].front());
    down_[index].pop_front();
    switch (frame.op) {
      case LeaseOp::kGranted: return Granted(index, frame);
      case LeaseOp::kRecall:
        if (const auto held = worker.held.find(frame.lease); held != worker.held.end()) {
          held->second.is_recalled = true;
        } else {
          Say(index, {.op = LeaseOp::kReturn, .lease = frame.lease});
        }
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
      case LeaseOp::kRefused: wrong_ = "refused: " + frame.text; return;
      case LeaseOp::kFenced:
        if (worker.generation == generation_ || !follows_) wrong_ = "the newest was fenced";
        return;
      default: return;
    }
  }

  void Granted(size_t index, const LeaseFrame& frame) {
    LeaseWorker& worker = workers_[index];
    worker.has_request = false;
    const size_t line = frame.text.find('\n');
    const auto number = ParseWhole<uint64_t>(std::string_view(frame.text).substr(line + 1));
    const auto base = ParseWhole<uint64_t>(std::string_view(frame.text).substr(0, line));
    if (!number || *number >= topics_.size() || base != topics_[*number].base) {
      wrong_ = "a lease names no partition: " + frame.text;
      return;
    }
    worker.held[frame.lease] = {.range = {frame.begin, frame.end},
                                .done = frame.begin,
                                .confirmed = frame.begin,
                                .partition = *number};
  }

  void Count(size_t index, const LeaseWorker::Held& held, OrdinalRange range) {
    for (uint64_t i = range.begin; !follows_ && i < range.end; ++i) {
      ++workers_[index].counts[StreamKey(held.partition, OffsetOf(held, i))];
    }
  }

  void Confirm(size_t index, uint64_t number) {
    LeaseWorker& worker = workers_[index];
    while (!worker.unconfirmed.empty() && worker.unconfirmed.begin()->first <= number) {
      const auto [lease, until] = worker.unconfirmed.begin()->second;
      worker.unconfirmed.erase(worker.unconfirmed.begin());
      const auto held = worker.held.find(lease);
      if (held == worker.held.end()) continue;
      Count(index, held->second, {held->second.confirmed, until});
      held->second.confirmed = std::max(held->second.confirmed, until);
      if (held->second.confirmed == held->second.range.end) worker.held.erase(held);
    }
  }

  void Lose(size_t index, uint64_t lease) {
    LeaseWorker& worker = workers_[index];
    std::erase_if(worker.unconfirmed, [&](const auto& one) { return one.second.first == lease; });
    const auto held = worker.held.find(lease);
    if (held == worker.held.end()) return Presented(index, lease);
    if (canary_ == StreamCanary::kHeldTwice) {
      Count(index, held->second, {held->second.confirmed, held->second.done});
    }
    worker.held.erase(held);
    // The worker's model has trained on records that another worker will read again, so the worker
    // starts anew from its last save.
    if (follows_) return Die(index);
    Presented(index, lease);
  }

  void GoOn(size_t index, const LeaseFrame& frame) {
    LeaseWorker& worker = workers_[index];
    const auto held = worker.held.find(frame.lease);
    if (held == worker.held.end()) {
      Say(index, {.op = LeaseOp::kReturn, .lease = frame.lease});
      return Presented(index, frame.lease);
    }
    Count(index, held->second, {held->second.confirmed, frame.begin});
    held->second.confirmed = std::max(held->second.confirmed, frame.begin);
    std::erase_if(worker.unconfirmed,
                  [&](const auto& one) { return one.second.first == frame.lease; });
    const bool is_behind = held->second.done > frame.begin;
    if (is_behind) SayAck(index, frame.lease, held->second.done);
    // The ledger may have had all of it.
    if (held->second.is_given_back) Say(index, {.op = LeaseOp::kReturn, .lease = frame.lease});
    if (!is_behind && held->second.confirmed == held->second.range.end) worker.held.erase(held);
    Presented(index, frame.lease);
  }

  void Presented(size_t index, uint64_t lease) {
    LeaseWorker& worker = workers_[index];
    if (worker.presenting.erase(lease) > 0 && worker.presenting.empty()) SayMark(index);
  }

  void SayMark(size_t index) {
    const LeaseWorker& worker = workers_[index];
    if (worker.awaits_mark) Say(index, {.op = LeaseOp::kMark, .number = *worker.awaits_mark});
  }

  // ---- the end ----

  bool IsOver() const { return is_calm_ && Unfinished().empty(); }

  std::string Unfinished() const { return WhyNotOver(End(), master_.book()); }

  StreamEnd End() const {
    return {
        .journal = master_.journal(), .workers = workers_, .topics = topics_, .follows = follows_};
  }

  Prng prng_;
  const StreamCanary canary_;
  const LeaseLimits limits_;
  const bool follows_;
  LeaseMaster master_;
  std::vector<Topic> topics_;
  std::vector<LeaseWorker> workers_;
  std::vector<std::deque<LeaseFrame>> up_;
  std::vector<std::deque<LeaseFrame>> down_;
  std::vector<LeasePeer> peers_;  // by worker; peer 0: it is dead
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

LeaseOutcome RunStreamWorld(uint64_t seed, StreamCanary canary, const LeaseLimits& limits) {
  return StreamWorld(seed, canary, limits).Run();
}

}  // namespace paceline::sim

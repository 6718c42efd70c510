// Batches of live streams have no common borders. Workers cut them as they come, die in the middle
// of pushes, and push late; servers lose what their snapshot lacks. The ledger is the production
// LeaseBook, and AppliedSets decide. At the end every record must count once on every server.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/base/text.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/data/lease/partition.h"
#include "paceline/data/lease/set_key.h"
#include "paceline/ps/applied.h"

namespace paceline::ps {
namespace {

constexpr uint64_t kTopics = 3;
constexpr uint64_t kRecords = 40;  // of a topic
constexpr size_t kStreamServers = 3;
constexpr size_t kStreamWorkers = 3;
constexpr int kFaultySteps = 1'500;
constexpr int kStepsMax = 40'000;

// A planted bug. The counts must show each one.
enum class PushCanary {
  kNone,
  kAckedEarly,     // the worker acknowledges when one server has answered
  kPartIsSkipped,  // a batch that overlaps counts as applied
  kLossIsNotTold,  // a lost server does not tell the ledger what it has
  kAppliedIsLost,  // a snapshot has the rows, and not which records they have
};
constexpr int kPushCanaries = 5;

class StreamPushes {
 public:
  StreamPushes(uint64_t seed, PushCanary canary) : prng_(seed), canary_(canary) {
    LeaseActions none;
    book_.Boot(1, &none);
    for (size_t i = 0; i < kStreamWorkers; ++i) Begin(i);
  }

  // What is wrong; "" if nothing is.
  std::string Run() {
    int step = 0;
    for (; step < kStepsMax && !IsOver(step); ++step) Step(step < kFaultySteps);
    if (step == kStepsMax) return "did not end";
    for (const Server& server : servers_) {
      for (uint64_t i = 0; i < kTopics * kRecords; ++i) {
        const uint64_t ordinal = i / kRecords * kPartitionOrdinals + i % kRecords;
        const auto found = server.counts.find(ordinal);
        const int count = found == server.counts.end() ? 0 : found->second;
        if (count != 1) return Concat("ordinal ", ordinal, " counts ", count, " times");
      }
    }
    return "";
  }

  uint64_t cuts() const { return cuts_; }
  uint64_t losses() const { return losses_; }

 private:
  struct Server {
    AppliedSets applied;
    std::map<uint64_t, int> counts;
  };
  struct Batch {
    std::vector<OrdinalRange> ranges;
    std::map<uint64_t, OrdinalRange> leases;  // what is of each lease
  };
  struct Worker {
    LeasePeer peer;
    uint64_t incarnation = 0;
    bool has_request = false;
    std::map<uint64_t, OrdinalRange> leases;  // not handed out yet
    std::deque<Batch> batches;                // the first one is pushed now
    std::vector<bool> has_answered;           // by server
    std::vector<OrdinalRange> parts;
    std::deque<LeaseFrame> frames;  // on their way to the ledger
  };

  void Begin(size_t index) {
    Worker& worker = workers_[index];
    const uint64_t incarnation = worker.incarnation + 1;
    worker = {};
    worker.incarnation = incarnation;
    worker.peer = {1, next_peer_++};
    worker.has_answered.assign(kStreamServers, false);
    worker.frames.push_back({.op = LeaseOp::kOpen,
                             .text = EncodeOpen({.name = "clicks",
                                                 .terms = "{}",
                                                 .ordinals = kSamplesMax,
                                                 .rank = index,
                                                 .world_size = kStreamWorkers,
                                                 .incarnation = incarnation,
                                                 .is_stream = true,
                                                 .unit = 1})});
    for (uint64_t topic = 0; topic < kTopics; ++topic) {
      worker.frames.push_back({.op = LeaseOp::kFound, .end = kRecords, .text = Concat(topic)});
    }
  }

  void Tell(LeasePeer from, const LeaseFrame& frame) {
    LeaseActions actions;
    book_.Handle(now_, from, frame, &actions);
    Hear(actions);
  }

  void Hear(const LeaseActions& actions) {
    for (const LeaseAnswer& answer : actions.answers) {
      for (Worker& worker : workers_) {
        if (worker.peer != answer.to) continue;
        const LeaseFrame& frame = answer.frame;
        if (frame.op == LeaseOp::kStale || frame.op == LeaseOp::kRecall) {
          if (frame.op == LeaseOp::kRecall) {
            worker.frames.push_back({.op = LeaseOp::kReturn, .lease = frame.lease});
          }
          worker.leases.erase(frame.lease);
        } else if (frame.op == LeaseOp::kGranted) {
          worker.has_request = false;
          worker.leases[frame.lease] = {frame.begin, frame.end};
        }
        EXPECT_NE(frame.op, LeaseOp::kRefused) << frame.text;
      }
    }
  }

  bool IsOver(int step) const {
    if (step < kFaultySteps) return false;
    bool is_idle = late_.empty() && book_.Views()[0].done == kTopics * kRecords;
    for (const Worker& worker : workers_) {
      is_idle = is_idle && worker.batches.empty() && worker.frames.empty();
    }
    return is_idle;
  }

  void Step(bool is_faulty) {
    now_ += Duration::Milliseconds(1);
    const size_t index = prng_.Below(kStreamWorkers);
    Worker& worker = workers_[index];
    const uint64_t dice = prng_.Below(100);
    if (dice < 30) {
      if (worker.frames.empty()) return;
      const LeaseFrame frame = std::move(worker.frames.front());
      worker.frames.pop_front();
      Tell(worker.peer, frame);
    } else if (dice < 40) {
      if (std::exchange(worker.has_request, true)) return;
      worker.frames.push_back({.op = LeaseOp::kTake, .number = next_number_++});
    } else if (dice < 60) {
      if (worker.batches.empty()) Read(&worker);
    } else if (dice < 90) {
      PushSome(&worker);
    } else if (dice < 94) {
      if (late_.empty()) return;
      std::string why;
      const size_t at = prng_.Below(late_.size());
      Apply(&servers_[prng_.Below(kStreamServers)], late_[at].ranges, &why);
      late_.erase(late_.begin() + static_cast<ptrdiff_t>(at));
    } else if (dice < 96) {
      const size_t server = prng_.Below(kStreamServers);
      snapshots_[server] = servers_[server];
      if (canary_ == PushCanary::kAppliedIsLost) snapshots_[server].applied = AppliedSets();
    } else if (is_faulty && dice < 98) {
      Die(index);
    } else if (is_faulty && dice < 99) {
      Lose(prng_.Below(kStreamServers));
    }
  }

  // A batch of one partition or more, of any size: a short one has waited in vain.
  void Read(Worker* worker) {
    Batch batch;
    for (auto& [lease, left] : worker->leases) {
      if (!prng_.Chance(2, 3)) continue;
      const uint64_t count = std::min(1 + prng_.Below(7), left.size());
      if (count == 0) continue;
      batch.leases[lease] = {left.begin, left.begin + count};
      batch.ranges.push_back(batch.leases[lease]);
      left.begin += count;
    }
    if (!batch.ranges.empty()) worker->batches.push_back(std::move(batch));
  }

  PushAnswer Apply(Server* server, const std::vector<OrdinalRange>& ranges, std::string* why) {
    const PushTag tag{.set = kStreamSet, .batch = ranges};
    const PushAnswer answer = server->applied.Judge(tag, why);
    if (answer != PushAnswer::kApplied) return answer;
    server->applied.Add(tag);
    for (const OrdinalRange& range : ranges) {
      for (uint64_t i = range.begin; i < range.end; ++i) ++server->counts[i];
    }
    return answer;
  }

  void PushSome(Worker* worker) {
    if (worker->batches.empty()) return;
    const size_t number = prng_.Below(kStreamServers);
    if (worker->has_answered[number]) return;
    const Batch& batch = worker->batches.front();
    std::string why;
    const PushAnswer answer = Apply(&servers_[number], batch.ranges, &why);
    worker->has_answered[number] = true;
    if (answer == PushAnswer::kOverlaps && canary_ != PushCanary::kPartIsSkipped) {
      const PushTag tag{.set = kStreamSet, .batch = batch.ranges};
      worker->parts = CutAt(worker->parts.empty() ? batch.ranges : worker->parts,
                            servers_[number].applied.Parts(tag));
    }
    bool is_answered = canary_ == PushCanary::kAckedEarly;
    if (!is_answered) {
      is_answered = std::find(worker->has_answered.begin(), worker->has_answered.end(), false) ==
                    worker->has_answered.end();
    }
    if (is_answered) Answered(worker);
  }

  void Answered(Worker* worker) {
    const Batch batch = std::move(worker->batches.front());
    worker->batches.pop_front();
    worker->has_answered.assign(kStreamServers, false);
    const std::vector<OrdinalRange> parts = std::exchange(worker->parts, {});
    if (!parts.empty()) {
      ++cuts_;
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        Batch one{.ranges = {*part}, .leases = {}};
        for (const auto& [lease, range] : batch.leases) {
          const bool is_its = range.begin <= part->begin && part->end <= range.end;
          if (is_its) one.leases[lease] = *part;
        }
        worker->batches.push_front(std::move(one));
      }
      return;
    }
    for (const auto& [lease, range] : batch.leases) {
      worker->frames.push_back(
          {.op = LeaseOp::kAck, .number = next_number_++, .lease = lease, .end = range.end});
    }
  }

  void Die(size_t index) {
    // Some of its pushes arrive when it is dead.
    for (const Batch& batch : workers_[index].batches) {
      for (uint64_t i = prng_.Below(3); i > 0; --i) late_.push_back(batch);
    }
    LeaseActions actions;
    book_.PeerGone(now_, workers_[index].peer, prng_.Chance(1, 2), &actions);
    Hear(actions);
    Begin(index);
  }

  void Lose(size_t number) {
    ++losses_;
    Server& server = servers_[number];
    server = snapshots_[number];
    if (canary_ == PushCanary::kLossIsNotTold) return;
    std::string text;
    const AppliedSet& applied = server.applied.Of(0);
    if (const auto found = applied.find(kStreamSet); found != applied.end()) {
      text = Concat(DataSetKey("clicks"), " ", RangesToText(found->second.Ranges()), "\n");
    }
    Tell({1, 1'000'000}, {.op = LeaseOp::kTablesHave, .number = number, .begin = 1, .text = text});
  }

  static constexpr uint64_t kStreamSet = 5;

  Prng prng_;
  const PushCanary canary_;
  LeaseBook book_{"job"};
  Instant now_;
  std::array<Server, kStreamServers> servers_;
  std::array<Server, kStreamServers> snapshots_;
  std::array<Worker, kStreamWorkers> workers_;
  std::vector<Batch> late_;
  uint32_t next_peer_ = 1;
  uint64_t next_number_ = 1;
  uint64_t cuts_ = 0;
  uint64_t losses_ = 0;
};

void RunPushes(uint64_t begin, uint64_t end) {
  uint64_t cuts = 0;
  uint64_t losses = 0;
  for (uint64_t seed = begin; seed < end; ++seed) {
    StreamPushes world(seed, PushCanary::kNone);
    ASSERT_EQ(world.Run(), "") << "seed " << seed;
    cuts += world.cuts();
    losses += world.losses();
  }
  EXPECT_GT(cuts, end - begin) << "batches overlap";
  EXPECT_GT(losses, end - begin) << "servers are lost";
}

TEST(StreamPushTest, EveryRecordCountsOnce) { RunPushes(1, 150); }

TEST(StreamPushTest, ManySchedulesCountEveryRecordOnce) { RunPushes(150, 6'000); }

TEST(StreamPushTest, EachCanaryIsSeen) {
  for (int number = 1; number < kPushCanaries; ++number) {
    int seen = 0;
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      seen += StreamPushes(seed, static_cast<PushCanary>(number)).Run().empty() ? 0 : 1;
    }
    EXPECT_GT(seen, 0) << "canary " << number;
  }
}

TEST(CutAtTest, PartsEndWhereSomethingBeginsOrEnds) {
  using Ranges = std::vector<OrdinalRange>;
  EXPECT_EQ(CutAt({{10, 20}}, {}), (Ranges{{10, 20}}));
  EXPECT_EQ(CutAt({{10, 20}}, {{0, 10}, {20, 30}}), (Ranges{{10, 20}}));
  EXPECT_EQ(CutAt({{10, 20}}, {{0, 12}, {15, 15}, {18, 40}}),
            (Ranges{{10, 12}, {12, 15}, {15, 18}, {18, 20}}));
  EXPECT_EQ(CutAt({{50, 60}, {10, 20}}, {{0, 12}, {12, 55}}),
            (Ranges{{10, 12}, {12, 20}, {50, 55}, {55, 60}}));
}

}  // namespace
}  // namespace paceline::ps

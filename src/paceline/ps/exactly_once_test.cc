// Exactly once, by counting: rows begin at 0 and each sample adds 1 to its keys. After any order of
// deliveries, repetitions, losses and loads every key must have its true count.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/ps/holding.h"

namespace paceline::ps {
namespace {

constexpr uint64_t kSet = 77;
constexpr uint64_t kBatchSamples = 4;
constexpr uint32_t kServers = 3;

TableSpec CountingSpec() {
  return {.name = "counts", .dim = 2, .optimizer = {.name = "sgd", .rate = 1}, .scale = 0};
}

// Negative, zero and large keys alike.
uint64_t KeyOfSample(uint64_t sample, uint64_t i) {
  return (sample * 7 + i * 13) % 50 - 25 + (i % 2 == 0 ? 0 : uint64_t{1} << 63);
}

uint32_t ServerOf(uint64_t key) { return PartitionOf(TableKeyOf("counts"), key) % kServers; }

PartitionBits PartsOf(uint32_t server) {
  PartitionBits bits;
  for (uint32_t i = server; i < kPartitions; i += kServers) bits.set(i);
  return bits;
}

std::map<uint64_t, float> CountsOfBatch(uint64_t batch) {
  std::map<uint64_t, float> counts;
  for (uint64_t i = 0; i < kBatchSamples; ++i) {
    for (uint64_t j = 0; j < 5; ++j) counts[KeyOfSample(batch * kBatchSamples + i, j)] += 1;
  }
  return counts;
}

class Cluster {
 public:
  Cluster() {
    for (uint32_t i = 0; i < kServers; ++i) Start(i);
  }

  // A push to one server, whether it has keys of the batch or not.
  PushAnswer Push(uint32_t server, uint64_t batch, uint64_t recovery) {
    std::vector<uint64_t> keys;
    std::vector<float> values;
    for (const auto& [key, count] : CountsOfBatch(batch)) {
      if (ServerOf(key) != server) continue;
      keys.push_back(key);
      values.insert(values.end(), {-count, -2 * count});
    }
    const PushTag tag{.set = kSet,
                      .batch = {{batch * kBatchSamples, (batch + 1) * kBatchSamples}},
                      .recovery = recovery};
    const TableGradient gradient{.table = 0, .keys = keys, .values = values};
    std::string why;
    return servers_[server]->Push(tag, std::span(&gradient, 1), &why);
  }

  // Some partitions of all servers, one after the other, as training goes on between calls.
  void Save(uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) {
      images_[i] = servers_[i % kServers]->SavePartition(i);
    }
  }

  void Lose(uint32_t server) {
    Start(server);
    for (const auto& [partition, image] : images_) {
      if (partition % kServers != server) continue;
      const auto loaded = servers_[server]->LoadPartition(image);
      ASSERT_TRUE(loaded.ok()) << loaded.failure().message;
      ASSERT_EQ(*loaded, partition);
    }
  }

  void ExpectCounts(uint64_t batches) {
    std::map<uint64_t, float> counts;
    for (uint64_t batch = 0; batch < batches; ++batch) {
      for (const auto& [key, count] : CountsOfBatch(batch)) counts[key] += count;
    }
    for (const auto& [key, count] : counts) {
      std::vector<float> row(2);
      servers_[ServerOf(key)]->Pull(0, std::span(&key, 1), false, row);
      EXPECT_EQ(row, (std::vector<float>{count, 2 * count})) << static_cast<int64_t>(key);
    }
  }

 private:
  void Start(uint32_t server) {
    servers_[server] = std::make_unique<Holding>(server);
    servers_[server]->Keep(PartsOf(server));
    ASSERT_TRUE(servers_[server]->Open(CountingSpec()).ok());
  }

  std::array<std::unique_ptr<Holding>, kServers> servers_;
  std::map<uint32_t, std::string> images_;
};

// Workers push batches in any order, repeatedly, and die between two servers. The ledger knows only
// which batches all servers have answered; it gives the others out again.
void RunSchedule(uint64_t seed) {
  constexpr uint64_t kBatches = 24;
  Prng prng(seed);
  Cluster cluster;
  std::vector<bool> is_done(kBatches, false);
  std::vector<bool> at_position(kBatches, false);  // durable before the last snapshot
  uint64_t recovery = 0;
  while (std::find(is_done.begin(), is_done.end(), false) != is_done.end()) {
    const uint64_t batch = prng.Below(kBatches);
    const uint64_t dice = prng.Below(100);
    if (dice < 4) {
      at_position = is_done;
      // Batches go on while the partitions are copied.
      cluster.Save(0, kPartitions / 2);
      cluster.Push(0, batch, recovery);
      cluster.Save(kPartitions / 2, kPartitions);
    } else if (dice < 8) {
      cluster.Lose(static_cast<uint32_t>(prng.Below(kServers)));
      is_done = at_position;
      ++recovery;
    } else {
      bool is_whole = true;
      for (uint32_t server = 0; server < kServers && is_whole; ++server) {
        is_whole = !prng.Chance(1, 5);  // the worker dies before this push
        if (!is_whole) continue;
        const PushAnswer answer = cluster.Push(server, batch, recovery);
        ASSERT_TRUE(answer == PushAnswer::kApplied || answer == PushAnswer::kSkipped);
        if (prng.Chance(1, 5)) {
          ASSERT_EQ(cluster.Push(server, batch, recovery), PushAnswer::kSkipped);
        }
      }
      if (is_whole) is_done[batch] = true;
    }
  }
  cluster.ExpectCounts(kBatches);
}

void RunSchedules(uint64_t begin, uint64_t end) {
  for (uint64_t seed = begin; seed < end; ++seed) {
    SCOPED_TRACE(seed);
    RunSchedule(seed);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ExactlyOnceTest, EveryScheduleGivesTrueCounts) { RunSchedules(1, 4); }

TEST(ExactlyOnceTest, ManySchedulesGiveTrueCounts) { RunSchedules(4, 40); }

TEST(ExactlyOnceTest, ALoadedPartitionTakesWhatItLacksAndNoMore) {
  Cluster cluster;
  for (uint32_t server = 0; server < kServers; ++server) cluster.Push(server, 0, 0);
  cluster.Save(0, kPartitions);
  for (uint32_t server = 0; server < kServers; ++server) cluster.Push(server, 1, 0);
  for (uint32_t server = 0; server < kServers; ++server) cluster.Lose(server);
  cluster.ExpectCounts(1);
  EXPECT_EQ(cluster.Push(0, 0, 1), PushAnswer::kSkipped) << "the image has it";
  for (uint32_t server = 0; server < kServers; ++server) {
    EXPECT_EQ(cluster.Push(server, 1, 1), PushAnswer::kApplied) << "the image lacks it";
  }
  cluster.ExpectCounts(2);
  EXPECT_EQ(cluster.Push(1, 2, 0), PushAnswer::kFenced);
}

}  // namespace
}  // namespace paceline::ps

// Rows of a table: lookups and updates of ours and of tbb::concurrent_hash_map, in turns.
// bench/tables/table.py says what is asked.

#include <oneapi/tbb/concurrent_hash_map.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/base/prng.h"
#include "paceline/ps/holding.h"
#include "paceline/ps/optimizer/optimizer.h"

namespace paceline::ps {
namespace {

constexpr uint32_t kDim = 16;
constexpr uint32_t kThreads = 2;
constexpr size_t kBatchKeys = 4096 * 26;
constexpr size_t kBatches = 40;  // of one round

const TableSpec kSpec{.name = "ads", .dim = kDim, .optimizer = {.name = "adagrad", .rate = 0.05}};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint64_t ResidentBytes() {
  uint64_t pages = 0;
  uint64_t resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  CHECK(file != nullptr && std::fscanf(file, "%lu %lu", &pages, &resident) == 2);
  std::fclose(file);
  return resident * 4096;
}

// Ids as they come: not dense, not in order. Bijective, so that `rows` keys are distinct.
uint64_t KeyOf(uint64_t i) { return i * 0x9E3779B97F4A7C15u ^ 0x5DEECE66Du; }

// Numbers of rows: uniform, or Zipf with that exponent by inversion of the continuous law.
class Draw {
 public:
  Draw(uint64_t rows, double exponent, uint64_t seed)
      : rows_(rows), exponent_(exponent), prng_(seed) {}

  uint64_t Next() {
    if (exponent_ == 0) return prng_.Below(rows_);
    const double unit = static_cast<double>(prng_.Next() >> 11) * 0x1.0p-53;
    const double power = 1 - exponent_;
    const double most = std::pow(static_cast<double>(rows_) + 1, power);
    const double x = std::pow(1 + unit * (most - 1), 1 / power);
    return std::min(static_cast<uint64_t>(x) - 1, rows_ - 1);
  }

 private:
  const uint64_t rows_;
  const double exponent_;
  Prng prng_;
};

struct Batch {
  std::array<std::vector<uint64_t>, kThreads> keys;
  std::array<std::vector<float>, kThreads> gradients;
};

// The keys of a batch, each once, and shared out by owner of the partition: ours and the peer get
// the same.
std::vector<Batch> MakeBatches(uint64_t rows, double exponent) {
  const TableKey table = TableKeyOf(kSpec.name);
  Draw draw(rows, exponent, 1);
  Prng prng(2);
  std::vector<Batch> batches(kBatches);
  std::vector<uint64_t> last(rows, 0);
  for (size_t b = 0; b < kBatches; ++b) {
    for (size_t i = 0; i < kBatchKeys; ++i) {
      const uint64_t row = draw.Next();
      if (last[row] == b + 1) continue;
      last[row] = b + 1;
      const uint32_t owner = PartitionOf(table, KeyOf(row)) * kThreads / kPartitions;
      batches[b].keys[owner].push_back(KeyOf(row));
      for (uint32_t d = 0; d < kDim; ++d) {
        batches[b].gradients[owner].push_back(static_cast<float>(prng.Below(2001)) * 1e-3f - 1);
      }
    }
  }
  return batches;
}

template <class Work>
double InThreads(const Work& work) {
  const double began = Now();
  std::array<std::thread, kThreads> threads;
  for (uint32_t t = 0; t < kThreads; ++t) threads[t] = std::thread([&, t] { work(t); });
  for (std::thread& thread : threads) thread.join();
  return Now() - began;
}

struct Seconds {
  double lookup = 0;
  double update = 0;
};

class Ours {
 public:
  explicit Ours(uint64_t rows) {
    for (auto& part : parts_) part = std::make_unique<Holding>();
    const TableKey table = TableKeyOf(kSpec.name);
    InThreads([&](uint32_t t) {
      CHECK(parts_[t]->Open(kSpec).ok());
      std::vector<uint64_t> keys;
      std::vector<float> values;
      for (uint64_t i = 0; i < rows; ++i) {
        if (PartitionOf(table, KeyOf(i)) * kThreads / kPartitions == t) keys.push_back(KeyOf(i));
        if (keys.size() < 4096 && i + 1 < rows) continue;
        values.resize(keys.size() * kDim);
        parts_[t]->Pull(0, keys, true, values);
        keys.clear();
      }
    });
  }

  uint64_t bytes() const { return parts_[0]->Counts(0).bytes + parts_[1]->Counts(0).bytes; }

  Seconds Round(const std::vector<Batch>& batches) {
    Seconds seconds;
    seconds.lookup = InThreads([&](uint32_t t) {
      std::vector<float> values;
      for (const Batch& batch : batches) {
        values.resize(batch.keys[t].size() * kDim);
        parts_[t]->Pull(0, batch.keys[t], true, values);
      }
    });
    const uint64_t first = next_;
    next_ += batches.size() * 4096;
    seconds.update = InThreads([&](uint32_t t) {
      std::string why;
      for (size_t b = 0; b < batches.size(); ++b) {
        const TableGradient gradient{
            .table = 0, .keys = batches[b].keys[t], .values = batches[b].gradients[t]};
        const PushTag tag{.set = 1, .batch = {{first + b * 4096, first + (b + 1) * 4096}}};
        const PushAnswer answer = parts_[t]->Push(tag, std::span(&gradient, 1), &why);
        CHECK(answer == PushAnswer::kApplied, why);
      }
    });
    return seconds;
  }

  float ValueOf(uint64_t key) {
    const uint32_t owner = PartitionOf(TableKeyOf(kSpec.name), key) * kThreads / kPartitions;
    std::array<float, kDim> row;
    parts_[owner]->Pull(0, std::span(&key, 1), false, row);
    return row[0];
  }

 private:
  std::array<std::unique_ptr<Holding>, kThreads> parts_;
  uint64_t next_ = 0;
};

// The peer does the least: no tag, no test for NaN, no budget; and the same Adagrad kernel.
class Peer {
 public:
  explicit Peer(uint64_t rows) : rows_(rows) {
    InThreads([&](uint32_t t) {
      for (uint64_t i = t; i < rows; i += kThreads) {
        Map::accessor at;
        rows_.insert(at, KeyOf(i));
        at->second = {};
      }
    });
  }

  Seconds Round(const std::vector<Batch>& batches) {
    Seconds seconds;
    seconds.lookup = InThreads([&](uint32_t t) {
      std::vector<float> values;
      for (const Batch& batch : batches) {
        values.resize(batch.keys[t].size() * kDim);
        float* to = values.data();
        for (const uint64_t key : batch.keys[t]) {
          Map::const_accessor at;
          CHECK(rows_.find(at, key));
          std::copy_n(at->second.data(), kDim, to);
          to += kDim;
        }
      }
    });
    const StepFn step = FindOptimizer(kSpec.optimizer.name)->step;
    seconds.update = InThreads([&](uint32_t t) {
      for (const Batch& batch : batches) {
        const float* gradient = batch.gradients[t].data();
        for (const uint64_t key : batch.keys[t]) {
          Map::accessor at;
          CHECK(rows_.find(at, key));
          float* row = at->second.data();
          step(kSpec.optimizer, kDim, std::span(&row, 1), gradient);
          gradient += kDim;
        }
      }
    });
    return seconds;
  }

  float ValueOf(uint64_t key) {
    Map::const_accessor at;
    CHECK(rows_.find(at, key));
    return at->second[0];
  }

 private:
  using Map = tbb::concurrent_hash_map<uint64_t, std::array<float, 2 * kDim>>;
  Map rows_;
};

void Print(const char* name, const Seconds& seconds, double keys, double bytes_a_row) {
  std::printf(
      "{\"name\": \"%s\", \"lookup\": %.4g, \"update\": %.4g, \"both\": %.4g, "
      "\"bytes_a_row\": %.1f}\n",
      name, keys / seconds.lookup, keys / seconds.update, keys / (seconds.lookup + seconds.update),
      bytes_a_row);
  std::fflush(stdout);
}

void Run(uint64_t rows, double exponent, int rounds, bool with_peer) {
  const std::vector<Batch> batches = MakeBatches(rows, exponent);
  double keys = 0;
  for (const Batch& batch : batches) {
    for (const auto& part : batch.keys) keys += static_cast<double>(part.size());
  }
  const uint64_t empty = ResidentBytes();
  Ours ours(rows);
  const uint64_t with_ours = ResidentBytes();
  std::unique_ptr<Peer> peer;
  if (with_peer) peer = std::make_unique<Peer>(rows);
  const uint64_t with_both = ResidentBytes();
  const auto a_row = [rows](uint64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(rows);
  };
  std::fprintf(stderr, "counted by the table: %.1f bytes a row\n", a_row(ours.bytes()));
  const float first_ours = ours.ValueOf(batches[0].keys[0][0]);
  for (int round = 0; round < rounds; ++round) {
    Print("ours", ours.Round(batches), keys, a_row(with_ours - empty));
    if (peer) Print("tbb", peer->Round(batches), keys, a_row(with_both - with_ours));
  }
  if (!peer) return;
  // The peer's rows begin at 0, so both must have changed by the same.
  const uint64_t key = batches[0].keys[0][0];
  CHECK(std::abs(ours.ValueOf(key) - first_ours - peer->ValueOf(key)) < 1e-4);
}

}  // namespace
}  // namespace paceline::ps

// rows, exponent of Zipf's law (0: uniform), rounds, "alone": without the peer
int main(int argc, char** argv) {
  const uint64_t rows = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  const double exponent = argc > 2 ? std::atof(argv[2]) : 0;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  paceline::ps::Run(rows, exponent, rounds, argc <= 4);
}

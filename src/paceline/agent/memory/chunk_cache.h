#pragma once

// Chunks of storage in memory, for a while: whoever asks for one while it is being brought waits
// for that, and whoever asks soon after finds it. Any thread.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "paceline/base/result.h"
#include "paceline/model/stored_chunk.h"

namespace paceline::agent {

struct ChunkBytes {
  explicit ChunkBytes(size_t bytes)
      : data(std::make_unique_for_overwrite<std::byte[]>(bytes)), size(bytes) {}
  const std::unique_ptr<std::byte[]> data;
  const size_t size;
  std::span<const std::byte> span() const { return {data.get(), size}; }
};
using HeldChunk = std::shared_ptr<const ChunkBytes>;  // owners: the cache, and who gives it on

class ChunkCache {
 public:
  // From where one is brought. Who brings it from storage waits for nobody who brings it from a
  // peer: two hosts that each take the other for its reader would wait for ever.
  enum class Way { kStorage, kPeer };
  using Load = std::function<Result<HeldChunk>()>;

  // What `load` gives; a failure is told to all who waited for it, and forgotten.
  Result<HeldChunk> Get(const StoredChunk& chunk, Way way, const Load& load);
  // The ones that were not asked for the longest go when there are more bytes.
  void SetBudget(uint64_t bytes);
  void Clear();
  uint64_t bytes() const;

 private:
  struct Loading {
    std::optional<Result<HeldChunk>> outcome;
  };
  using Order = std::list<std::pair<StoredChunk, HeldChunk>>;  // newest first
  void Keep(const StoredChunk& chunk, const HeldChunk& held);
  void Shrink();

  mutable std::mutex mutex_;  // guards all of it
  std::condition_variable done_;
  std::map<std::pair<Way, StoredChunk>, std::shared_ptr<Loading>> loading_;
  Order order_;
  std::map<StoredChunk, Order::iterator> held_;
  uint64_t bytes_ = 0;
  uint64_t budget_ = 0;
};

}  // namespace paceline::agent

#pragma once

// Keeps chunks of storage in memory for a while. A request for a chunk that is being loaded waits
// for it; a later one finds it. Thread-safe.

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
using HeldChunk = std::shared_ptr<const ChunkBytes>;  // owners: the cache, and threads that send it

class ChunkCache {
 public:
  // The source of a load. A load from storage does not wait for a load from a peer: two hosts that
  // take each other for the chunk's reader would wait for ever.
  enum class Way { kStorage, kPeer };
  using Load = std::function<Result<HeldChunk>()>;

  // The chunk, loaded by `load` if necessary. A failure goes to all waiting callers and is not
  // kept.
  Result<HeldChunk> Get(const StoredChunk& chunk, Way way, const Load& load);
  // Above this many bytes, the least recently used chunks are dropped.
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

  mutable std::mutex mutex_;  // guards all members
  std::condition_variable done_;
  std::map<std::pair<Way, StoredChunk>, std::shared_ptr<Loading>> loading_;
  Order order_;
  std::map<StoredChunk, Order::iterator> held_;
  uint64_t bytes_ = 0;
  uint64_t budget_ = 0;
};

}  // namespace paceline::agent

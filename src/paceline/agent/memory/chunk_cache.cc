#include "paceline/agent/memory/chunk_cache.h"

namespace paceline::agent {

Result<HeldChunk> ChunkCache::Get(const StoredChunk& chunk, Way way, const Load& load) {
  std::unique_lock lock(mutex_);
  if (const auto found = held_.find(chunk); found != held_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }
  const auto [entry, is_mine] = loading_.try_emplace({way, chunk});
  if (!is_mine) {
    const std::shared_ptr<Loading> other = entry->second;
    done_.wait(lock, [&] { return other->outcome.has_value(); });
    return *other->outcome;
  }
  const auto mine = std::make_shared<Loading>();
  entry->second = mine;
  lock.unlock();
  Result<HeldChunk> outcome = load();
  lock.lock();
  loading_.erase({way, chunk});
  if (outcome.ok()) Keep(chunk, *outcome);
  mine->outcome = outcome;
  done_.notify_all();
  return outcome;
}

void ChunkCache::Keep(const StoredChunk& chunk, const HeldChunk& held) {
  if (held_.contains(chunk)) return;  // both ways have loaded it
  order_.emplace_front(chunk, held);
  held_[chunk] = order_.begin();
  bytes_ += held->size;
  Shrink();
}

void ChunkCache::Shrink() {
  while (bytes_ > budget_ && !order_.empty()) {
    bytes_ -= order_.back().second->size;
    held_.erase(order_.back().first);
    order_.pop_back();
  }
}

void ChunkCache::SetBudget(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  budget_ = bytes;
  Shrink();
}

void ChunkCache::Clear() {
  const std::lock_guard lock(mutex_);
  held_.clear();
  order_.clear();
  bytes_ = 0;
}

uint64_t ChunkCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace paceline::agent

#include "paceline/wire/security/peer_limits.h"

#include <algorithm>
#include <iterator>

namespace paceline::wire {

std::string PeerHost(std::string_view peer) {
  const bool is_ip = peer.starts_with("ipv4:") || peer.starts_with("ipv6:");
  return std::string(is_ip ? peer.substr(0, peer.rfind(':')) : peer);
}

bool IsLoopbackAddress(std::string_view listen) {
  return listen.starts_with("127.") || listen.starts_with("[::1]") ||
         listen.starts_with("localhost:");
}

void FailureLimit::Refill(Bucket* bucket, Instant now) {
  const int64_t more = std::clamp<int64_t>((now - bucket->filled) / kRefill, 0, kBurst);
  bucket->left = std::min<uint32_t>(kBurst, bucket->left + static_cast<uint32_t>(more));
  bucket->filled = bucket->left == kBurst ? now : bucket->filled + kRefill * more;
}

bool FailureLimit::Take(const std::string& host, Instant now) {
  const std::lock_guard lock(mutex_);
  auto it = buckets_.find(host);
  const bool is_sweep_due = !swept_ || now - *swept_ >= kSweepPause;
  if (it == buckets_.end() && buckets_.size() >= kPeersMax && is_sweep_due) {
    swept_ = now;
    // A full bucket is the same as no bucket.
    for (auto at = buckets_.begin(); at != buckets_.end();) {
      Refill(&at->second, now);
      at = at->second.left == kBurst ? buckets_.erase(at) : std::next(at);
    }
  }
  if (it == buckets_.end() && buckets_.size() < kPeersMax) {
    it = buckets_.emplace(host, Bucket{.filled = now}).first;
  }
  Bucket* bucket = it == buckets_.end() ? &others_ : &it->second;
  Refill(bucket, now);
  if (bucket->left == 0) return false;
  --bucket->left;
  return true;
}

size_t FailureLimit::peer_count() const {
  const std::lock_guard lock(mutex_);
  return buckets_.size();
}

bool StreamLimit::Take(const std::string& host) {
  const std::lock_guard lock(mutex_);
  uint32_t& count = counts_[host];
  if (count >= streams_max_) return false;
  ++count;
  return true;
}

void StreamLimit::Release(const std::string& host) {
  const std::lock_guard lock(mutex_);
  const auto it = counts_.find(host);
  if (it == counts_.end()) return;
  if (--it->second == 0) counts_.erase(it);
}

}  // namespace paceline::wire

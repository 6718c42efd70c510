#pragma once

// Internal to wire: limits for one peer, which is an address without its port.
//
// Failures: a client without a token, with a wrong one or without a certificate gets the reason a
// few times a minute, and then only that it fails too often. A correct token is always accepted: on
// a shared address (loopback, a gateway) a stranger's failures must not lock out the job's
// processes. So this limits the work that strangers cause. Guessing is prevented by the token's
// length.
//
// Streams: an address may have a limited number open. Both tables are bounded.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/base/instant.h"

namespace paceline::wire {

// "ipv4:10.0.0.1:4711" → "ipv4:10.0.0.1", for gRPC's names of peers. Other names stay.
std::string PeerHost(std::string_view peer);

// True if HOST:PORT is reachable from this host only, where all users share one address.
bool IsLoopbackAddress(std::string_view listen);

class FailureLimit {
 public:
  static constexpr uint32_t kBurst = 20;
  static constexpr Duration kRefill = Duration::Seconds(3);  // until one more failure is explained
  static constexpr size_t kPeersMax = 4096;
  // Minimum time between two searches of a full table for removable peers. Otherwise, with many
  // strangers, each failure would search the whole table.
  static constexpr Duration kSweepPause = Duration::Seconds(1);

  // Counts one failure. False: too many recently. Peers that do not fit into the table share one
  // bucket.
  bool Take(const std::string& host, Instant now);
  size_t peer_count() const;

 private:
  struct Bucket {
    uint32_t left = kBurst;
    Instant filled;
  };
  static void Refill(Bucket* bucket, Instant now);

  mutable std::mutex mutex_;  // guards the members below
  std::map<std::string, Bucket> buckets_;
  Bucket others_;
  std::optional<Instant> swept_;
};

class StreamLimit {
 public:
  explicit StreamLimit(uint32_t streams_max) : streams_max_(streams_max) {}

  // False: the address has its maximum. Each true is followed by one Release.
  bool Take(const std::string& host);
  void Release(const std::string& host);

 private:
  const uint32_t streams_max_;
  std::mutex mutex_;
  std::map<std::string, uint32_t> counts_;  // no more entries than streams
};

// One stream's place, released when the stream is deleted.
class StreamPlace {
 public:
  StreamPlace(StreamLimit* limit, std::string_view peer)
      : limit_(limit), host_(PeerHost(peer)), is_taken_(limit_->Take(host_)) {}
  ~StreamPlace() {
    if (is_taken_) limit_->Release(host_);
  }
  StreamPlace(const StreamPlace&) = delete;
  StreamPlace& operator=(const StreamPlace&) = delete;
  bool is_taken() const { return is_taken_; }

 private:
  StreamLimit* const limit_;
  const std::string host_;
  const bool is_taken_;
};

}  // namespace paceline::wire

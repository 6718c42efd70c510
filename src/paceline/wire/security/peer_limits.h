#pragma once

// Inside of wire: what one peer, that is one address without its port, may take of the master.
//
// Failures: whoever has no token, a wrong one or no certificate is told why a few times a minute,
// and after that only that it fails too often. A right token is always let in: on a shared address
// (loopback, a gateway) a stranger's failures must not lock out the job's own processes. So this
// bounds what a stranger can make the master do and say; what makes guessing hopeless is the length
// of the token.
//
// Streams: one address has so many open at most. Both tables are bounded.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/base/instant.h"

namespace paceline::wire {

// "ipv4:10.0.0.1:4711" → "ipv4:10.0.0.1". gRPC's names of peers; what is no such name stays.
std::string PeerHost(std::string_view peer);

// Of HOST:PORT to listen on: reachable from this host only, where all users share one address.
bool IsLoopbackAddress(std::string_view listen);

class FailureLimit {
 public:
  static constexpr uint32_t kBurst = 20;
  static constexpr Duration kRefill = Duration::Seconds(3);  // one more failure may be explained
  static constexpr size_t kPeersMax = 4096;
  // At least so long between two searches of a full table for peers that may leave it. Without this
  // pause a flood of strangers makes the master walk the whole table at each failure.
  static constexpr Duration kSweepPause = Duration::Seconds(1);

  // Counts one failure. False: too many of late. Of strangers that do not fit into the table, all
  // together have one bucket.
  bool Take(const std::string& host, Instant now);
  size_t peer_count() const;

 private:
  struct Bucket {
    uint32_t left = kBurst;
    Instant filled;
  };
  static void Refill(Bucket* bucket, Instant now);

  mutable std::mutex mutex_;  // guards all below
  std::map<std::string, Bucket> buckets_;
  Bucket others_;
  std::optional<Instant> swept_;
};

class StreamLimit {
 public:
  explicit StreamLimit(uint32_t streams_max) : streams_max_(streams_max) {}

  // False: that address has its maximum. Every true is followed by one Release.
  bool Take(const std::string& host);
  void Release(const std::string& host);

 private:
  const uint32_t streams_max_;
  std::mutex mutex_;
  std::map<std::string, uint32_t> counts_;  // as many entries as streams at most
};

// One stream's place, given back when the stream is deleted.
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

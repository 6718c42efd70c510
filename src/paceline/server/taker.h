#pragma once

// The target's side of a move: asks the source for partitions over the source's own socket, and
// keeps their images in the share. One request at a time. Nothing blocks: the owner polls.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "paceline/ps/partition_share.h"
#include "paceline/server/connection.h"

namespace paceline::server {

// Where a server of the same job listens: the socket of this one with another number.
std::string SocketOfServer(const std::string& own, uint32_t server);

class Taker {
 public:
  // The share must outlive it. `job` is the hash of the job's id.
  Taker(std::string own_socket, uint64_t job, ps::PartitionShare* share)
      : own_socket_(std::move(own_socket)), job_(job), share_(*share) {}

  // Goes on as far as it can without waiting.
  void Go(int64_t now_ns);

  int fd() const { return link_ == nullptr ? -1 : link_->fd(); }
  bool wants_to_write() const { return link_ != nullptr && link_->has_unsent(); }
  // When Go is to be called though nothing has come; INT64_MAX: then only after news.
  int64_t next_ns() const;
  uint64_t links() const { return links_; }
  // Of the snapshots of those that gave; this server's next one is above.
  uint64_t snapshot() const { return snapshot_; }

 private:
  void Break(int64_t now_ns);
  void Take(int64_t now_ns);
  void Heard(int64_t now_ns);

  const std::string own_socket_;
  const uint64_t job_;
  ps::PartitionShare& share_;
  std::unique_ptr<Connection> link_;
  uint32_t source_ = 0;  // of link_
  uint64_t links_ = 0;
  uint64_t generation_ = 0;  // of the source's process; 0: it has not greeted
  bool is_asked_ = false;
  uint64_t asked_id_ = 0;  // 0: nothing was asked of this move
  int64_t asked_ns_ = 0;
  int64_t retry_ns_ = 0;
  uint64_t seen_id_ = 0;  // of the move that this rested for
  uint64_t snapshot_ = 0;
  int64_t took_ns_ = 0;  // the last move, from the question to the news
};

}  // namespace paceline::server

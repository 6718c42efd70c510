#pragma once

// A table server's connection to the job's master, over the socket of its agent. The server hears
// by it which server has which partition, and reports the partitions that it has received. After
// the connection broke, it connects again. No call blocks: the owner polls.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/model/table_routing.h"

namespace paceline::server {

class MasterLink {
 public:
  // An empty path: there is no master, and no news.
  MasterLink(std::string socket, uint32_t server) : socket_(std::move(socket)), server_(server) {}

  bool is_on() const { return !socket_.empty(); }
  // Dials if there is no connection, and takes what has come: the newest news, if there are any.
  std::optional<RoutingNews> Go(int64_t now_ns);
  // Told at once, and again over each new connection, until another call. None: nothing.
  void Tell(std::optional<PartitionsTaken> taken);

  int fd() const { return fd_.get(); }  // < 0: dial again at retry_ns()
  int64_t retry_ns() const { return retry_ns_; }
  // Number of connections so far. When it has changed, the owner has to poll another descriptor.
  uint64_t links() const { return links_; }

 private:
  void Send();
  void Break(int64_t now_ns);

  const std::string socket_;
  const uint32_t server_;
  Fd fd_;
  uint64_t links_ = 0;
  int64_t retry_ns_ = 0;
  std::string unread_;
  std::optional<PartitionsTaken> taken_;
};

}  // namespace paceline::server

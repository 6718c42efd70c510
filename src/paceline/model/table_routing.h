#pragma once

// Which table server has which partition of a job's tables, and which partitions move next.
//
// The journal has the routing: a first one from the number of servers, and a record for each move
// that was carried out. Each server and each worker knows one version of it. A server serves only
// requests of workers that know the same version.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

inline constexpr uint32_t kTablePartitions = 4096;
inline constexpr uint32_t kTableServersMax = 4096;

class TableRouting {
 public:
  TableRouting() = default;  // of a job without table servers
  // Partition p is on server p % servers.
  explicit TableRouting(uint32_t servers);
  // None: not 4,096 servers below kTableServersMax.
  static std::optional<TableRouting> Of(uint64_t version, std::vector<uint16_t> servers);

  bool empty() const { return servers_.empty(); }
  // 1 at first, and higher after each move that was carried out. A worker that knows no routing yet
  // says 0.
  uint64_t version() const { return version_; }
  uint32_t Of(uint32_t partition) const { return servers_[partition]; }
  const std::vector<uint16_t>& servers() const { return servers_; }
  // How many partitions a server has.
  uint32_t CountOf(uint32_t server) const;
  // One more than the highest number of a server that has a partition.
  uint32_t end() const;

  // These partitions are on `to` from now on.
  void Move(const std::vector<uint32_t>& partitions, uint32_t to);

  bool operator==(const TableRouting&) const = default;

 private:
  uint64_t version_ = 0;
  std::vector<uint16_t> servers_;  // by partition; empty, or kTablePartitions
};

// Partitions that go from one server to another one in one record.
struct TableMove {
  uint64_t id = 0;  // differs from those of all other moves, and rises
  uint32_t from = 0;
  uint32_t to = 0;
  std::vector<uint32_t> partitions = {};
  bool operator==(const TableMove&) const = default;
};

// A move has at most so many partitions. A server gives fewer, if they have many bytes.
inline constexpr uint32_t kMovedAtOnceMax = 256;

// The next move towards `servers` servers with equally many partitions each; none: they have them.
// Servers that are to end give first. A function of its arguments, so that a new master goes on
// with the same move.
std::optional<TableMove> NextTableMove(const TableRouting& routing, uint32_t servers, uint64_t id);

// What the master tells the table servers: where each partition is, and which ones are to move.
// Each change has a higher `id`.
struct RoutingNews {
  uint64_t id = 0;
  TableRouting routing = {};
  std::optional<TableMove> move = {};  // with the same id
  bool operator==(const RoutingNews&) const = default;
};
std::string EncodeNews(const RoutingNews& news);
std::optional<RoutingNews> ParseNews(std::string_view text);

// What the target of a move has received, so that it may be recorded.
struct PartitionsTaken {
  uint64_t id = 0;  // of the move
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t count = 0;  // the first ones of the move
  // Of the processes that gave and took. A later process of either has lost the partitions.
  uint64_t from_generation = 0;
  uint64_t to_generation = 0;
  bool operator==(const PartitionsTaken&) const = default;
};
std::string EncodeTaken(const PartitionsTaken& taken);
std::optional<PartitionsTaken> ParseTaken(std::string_view text);

}  // namespace paceline

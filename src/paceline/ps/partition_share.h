#pragma once

// Which partitions a table server has, and how they come and go. Pure: the server's loop brings the
// news of the master and the images of other servers.
//
//   source:  has it ──Give──▶ frozen ──news: it is the target's──▶ has it no more
//                               └──────news of another move──────▶ has it
//   target:  ──Stage──▶ holds images aside ──news: it is mine──▶ has it
//                               └──────news of another move──────▶ images are dropped
//
// The journal decides whose a partition is. Between Give and the next news the source applies no
// push, because the images do not have it. The target loads the images only with the news: a push
// to its other partitions would else count for these ones, too.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/model/table_routing.h"
#include "paceline/ps/holding.h"

namespace paceline::ps {

static_assert(kPartitions == kTablePartitions);

class PartitionShare {
 public:
  struct Place {
    uint32_t server = 0;
    uint64_t generation = 0;  // of its process
  };
  // The holding must outlive it.
  PartitionShare(const Place& place, Holding* holding) : place_(place), holding_(*holding) {}

  // The first news, before the server's partitions are loaded.
  void Begin(const RoutingNews& news);
  // Later news; older ones, and the same again, change nothing. False: this process lacks a
  // partition that it has by the journal, for the reason `why`. It must end, and its next process
  // loads it.
  bool Learn(const RoutingNews& news, std::string* why);

  const RoutingNews& news() const { return news_; }
  uint32_t server() const { return place_.server; }
  const PartitionBits& own() const { return own_; }
  // Counts how often this server has got or given away partitions.
  uint64_t changes() const { return changes_; }

  enum class Gate {
    kServe,
    kMoved,  // the sender knows older routing
    kWait,   // for news: the sender knows newer routing, or partitions are frozen
  };
  // `version`: of the routing that the sender knows; `is_change`: a push or rows.
  Gate GateOf(uint64_t version, bool is_change) const;

  // As the source. The images of the first partitions of the move, of about `bytes_max` bytes in
  // all and one at least; these partitions are frozen now. None: this is not the move that this
  // server knows. The same call again has equal images.
  std::optional<std::vector<std::string>> Give(uint64_t id, uint32_t to, uint64_t bytes_max);
  bool is_frozen() const { return frozen_ > 0; }

  // As the target. The move to this server, if there is one.
  const TableMove* Wanted() const;
  // Keeps the images of the move's first partitions, instead of others. Returns why they cannot be
  // those; "": they can.
  std::string Stage(uint64_t id, uint64_t from_generation, std::vector<std::string> images);
  // What the master is to be told; none: nothing is staged.
  std::optional<PartitionsTaken> Taken() const;

 private:
  PartitionBits PartsIn(const TableRouting& routing) const;

  const Place place_;
  Holding& holding_;
  RoutingNews news_;
  PartitionBits own_;
  uint64_t changes_ = 0;
  size_t frozen_ = 0;  // the first partitions of the move
  uint64_t staged_from_ = 0;
  std::vector<std::string> staged_;
};

}  // namespace paceline::ps

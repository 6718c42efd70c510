#pragma once

// A simulated table server: the production share and holding, and a disk of snapshots that all
// servers have in common, with the rules of server/snapshots.h.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "paceline/ps/partition_share.h"
#include "paceline/sim/table/table_world.h"

namespace paceline::sim {

// The files of all servers, by number.
struct TableDisk {
  struct File {
    uint32_t server = 0;
    std::map<uint32_t, std::string> images;
  };
  std::multimap<uint64_t, File> files;
  uint64_t last() const { return files.empty() ? 0 : files.rbegin()->first; }
};

class SimTableServer {
 public:
  SimTableServer(uint32_t server, uint64_t generation, const RoutingNews& news, TableDisk* disk);

  // Loads its partitions from the newest files. Returns what all of them have applied of the set.
  IntervalSet Load(uint64_t set);
  void Save(TableCanary canary, uint64_t set);

  ps::Holding holding;
  ps::PartitionShare share;
  const uint32_t server;
  const uint64_t generation;
  uint64_t heard = 0;  // of the news
  uint64_t next_file = 1;
  uint64_t snapshot = 0;   // the highest number of those that gave partitions
  bool is_frozen = false;  // the process stands still

 private:
  void Prune();

  TableDisk& disk_;
  std::map<uint32_t, std::string> half_;  // images of a snapshot whose sets come later: a canary
};

}  // namespace paceline::sim

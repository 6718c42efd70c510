#pragma once

// The snapshots of a job's tables in a directory. Each server writes files of its own:
//
//   DIR/ps-1-of-3/000000000042.tables     docs/formats/table_snapshot.md
//
// Numbers rise over all servers and runs, because a server begins above all files that are there.
// So the newest file that has a partition has its newest rows, whoever wrote it. A server of a
// later run, with more or fewer servers, finds its partitions by that rule alone.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/model/table_routing.h"
#include "paceline/ps/holding.h"

namespace paceline::server {

class Snapshots {
 public:
  struct Setup {
    std::string directory;
    uint64_t job = 0;  // a hash of the job's id; 0: no job, which only reads
    uint32_t server = 0;
    uint32_t servers = 1;  // when the job began; only a part of the folder's name
  };
  explicit Snapshots(const Setup& setup) : setup_(setup) {}

  struct Loaded {
    uint64_t rows = 0;
    std::string from;                // the files, with commas between them; "": there are none
    std::vector<std::string> notes;  // of damaged and missing ones
    ps::AppliedSet applied;          // what all partitions of this server have applied
  };
  // Loads these partitions, and notes where new files begin. UNAVAILABLE: the directory cannot be
  // read.
  absl::StatusOr<Loaded> Load(const ps::PartitionBits& own, ps::Holding* holding);

  // The path of the next file. Each call gives another one.
  std::string NextPath();
  // The number of the next file. A server that takes over partitions goes on above the files of the
  // one that had them.
  uint64_t next() const { return next_; }
  void GoAbove(uint64_t number) { next_ = std::max(next_, number + 1); }
  // Writes these partitions; the file is whole and on the disk, or it is not there. May be
  // called in a fork.
  absl::Status Write(const ps::PartitionBits& own, const ps::Holding& holding,
                     const std::string& path) const;
  // Removes files of this server but the newest two, and those that have the newest rows of a
  // partition: another server may have taken it over and not written it yet.
  void Prune() const;

 private:
  std::string Folder() const;

  const Setup setup_;
  uint64_t next_ = 1;
};

// The partitions of a server.
ps::PartitionBits ShareOf(const TableRouting& routing, uint32_t server);

// What two sets have in common.
IntervalSet Common(const IntervalSet& one, const IntervalSet& other);
ps::AppliedSet Common(const ps::AppliedSet& one, const ps::AppliedSet& other);

// What both servers and the ledger understand: "SET RANGES", a line each, by the plain hash of a
// data set's name. A line has at most 500 ranges, so a frame of the ledger has room for one.
std::string HaveText(const ps::AppliedSet& applied, uint64_t job);

}  // namespace paceline::server

#pragma once

// The snapshots of a job's tables in a directory. Each server writes files of its own:
//
//   DIR/ps-1-of-3/000000000042.tables     docs/formats/table_snapshot.md
//
// Numbers rise over all servers and runs, because a server begins above all files that are there.
// So the newest file that has a partition has its newest rows, whoever wrote it. A server of a
// later run, with more or fewer servers, finds its partitions by that rule alone.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/ps/holding.h"

namespace paceline::server {

class Snapshots {
 public:
  struct Setup {
    std::string directory;
    uint32_t server = 0;
    uint32_t servers = 1;
  };
  explicit Snapshots(const Setup& setup) : setup_(setup) {}

  struct Loaded {
    uint64_t rows = 0;
    std::string from;                // the files, with commas between them; "": there are none
    std::vector<std::string> notes;  // of damaged ones
    ps::AppliedSet applied;          // what all partitions of this server have applied
  };
  // Loads this server's partitions, and notes where new files begin. UNAVAILABLE: the directory
  // cannot be read.
  absl::StatusOr<Loaded> Load(ps::Holding* holding);

  // The path of the next file. Each call gives another one.
  std::string NextPath();
  // Writes this server's partitions; the file is whole and on the disk, or it is not there. May be
  // called in a fork.
  absl::Status Write(const ps::Holding& holding, const std::string& path) const;
  // Removes files of this server but the newest two.
  void Prune() const;

 private:
  std::string Folder() const;
  bool IsMine(uint32_t partition) const { return partition % setup_.servers == setup_.server; }

  const Setup setup_;
  uint64_t next_ = 1;
};

// What two sets have in common.
IntervalSet Common(const IntervalSet& one, const IntervalSet& other);
ps::AppliedSet Common(const ps::AppliedSet& one, const ps::AppliedSet& other);

// What both servers and the ledger understand: "SET RANGES", a line each, by the plain hash of a
// data set's name. As many ranges as fit into a frame of the ledger: it frees those that it is not
// told of, and a server skips batches that it has.
std::string HaveText(const ps::AppliedSet& applied, uint64_t job);

}  // namespace paceline::server

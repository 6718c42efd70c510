#pragma once

// The log files of a node's ranks, and their limits.
//
// Ranks write directly to append-only files. So a dead or frozen agent can neither block nor break
// a rank, and no line is lost. A file that is too long loses its middle by a punched hole: the
// rank's descriptor and all offsets stay valid. Directories of old generations are deleted whole.
// No file is renamed while it is written.
//
// All logs of a job below one directory have a common limit. The oldest generations of all nodes
// are deleted first; each node's first and current generation stay. Each node's agent computes the
// same list and deletes its own part.

#include <cstdint>
#include <set>
#include <string>

namespace paceline::agent {

struct LogRetention {
  uint64_t head_bytes = 4u << 20;      // the start shows how the rank was started
  uint64_t tail_bytes = 60u << 20;     // the end shows how it ended
  uint32_t generations_kept = 20;      // directories g<generation>, the newest
  uint64_t total_bytes = 16ull << 30;  // of all the job's nodes below this directory; 0: no limit
};

class RankLogs {
 public:
  // `log_dir` is the node's: logs/<node>.
  RankLogs(std::string log_dir, LogRetention retention);

  std::string StdoutPath(uint64_t generation, uint32_t rank) const;
  std::string StderrPath(uint64_t generation, uint32_t rank) const;
  const std::string& directory() const { return log_dir_; }
  // Appends a line to a rank's stderr.
  void Note(uint64_t generation, uint32_t rank, const std::string& line) const;
  // Makes the log directory of a new world, trims the earlier world's logs, and deletes directories
  // of old worlds. `in_use`: generations of living tasks, which may be old and stay.
  void OpenGeneration(uint64_t generation, const std::set<uint64_t>& in_use = {});
  // Punches out the middle of each file of this generation that is too long. Cheap: one stat a
  // file.
  void Trim(uint64_t generation) const;
  // Deletes this node's part of the excess, but never this generation nor those in use.
  void KeepTotal(uint64_t generation, const std::set<uint64_t>& in_use = {}) const;

 private:
  std::string GenerationDir(uint64_t generation) const;

  std::string log_dir_;
  LogRetention retention_;
};

}  // namespace paceline::agent

#pragma once

// Where the ranks of a node write, and how much of it stays.
//
// Ranks hold plain append-only files: nothing of ours stands between a rank and its disk, so a dead
// or frozen agent can neither block nor break it, and no line is lost. A file that grows too long
// loses its middle by a punched hole (the rank's descriptor stays valid, offsets stay true); ends
// of old generations are deleted whole. Nothing is renamed under a writer.
//
// All logs of a job below one directory have a bound together. The oldest generations of all its
// nodes go first; the first one of each node and the one that runs stay. Each node's agent computes
// the same list and deletes its own part of it.

#include <cstdint>
#include <string>

namespace paceline::agent {

struct LogRetention {
  uint64_t head_bytes = 4u << 20;      // the beginning says how it was started
  uint64_t tail_bytes = 60u << 20;     // the end says how it ended
  uint32_t generations_kept = 20;      // directories g<generation>, the newest
  uint64_t total_bytes = 16ull << 30;  // of all nodes of the job below this directory; 0: any
};

class RankLogs {
 public:
  // `log_dir` is the node's: logs/<node>.
  RankLogs(std::string log_dir, LogRetention retention);

  std::string StdoutPath(uint64_t generation, uint32_t rank) const;
  std::string StderrPath(uint64_t generation, uint32_t rank) const;
  // Makes the log directory of a new world, trims the logs of the world before it, and deletes the
  // directories of worlds that are too old.
  void OpenGeneration(uint64_t generation);
  // Punches the middle out of every file of this generation that is too long. Cheap: a stat a file.
  void Trim(uint64_t generation) const;
  // Deletes this node's part of what is too much together, but never this generation.
  void KeepTotal(uint64_t generation) const;

 private:
  std::string GenerationDir(uint64_t generation) const;

  std::string log_dir_;
  LogRetention retention_;
};

}  // namespace paceline::agent

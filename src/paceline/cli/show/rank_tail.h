#pragma once

// Follows the files that ranks write: inotify reports new generations, files and lines, so nothing
// is polled, and a rank never waits for its reader. Lines are passed on whole, in the order of each
// file.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/fd.h"
#include "paceline/cli/console/line_folder.h"

namespace paceline::cli {

class RankTail {
 public:
  using Take = std::function<void(RankLine)>;

  // Follows <log_root>/<node>/g<generation>/rank<r>.{out,err} of these nodes. Files that exist
  // already are followed from their end unless `from_start`. `reactor` outlives the tail.
  static absl::StatusOr<std::unique_ptr<RankTail>> Start(agent::Reactor& reactor,
                                                         const std::string& log_root,
                                                         const std::vector<std::string>& nodes,
                                                         bool from_start, Take take);
  ~RankTail();
  RankTail(const RankTail&) = delete;
  RankTail& operator=(const RankTail&) = delete;

  // Reads all whole lines that are there now.
  void ReadAll();
  // Reads everything that is there now, also lines without a line break. For the end of a job.
  void Drain();

  size_t open_file_count() const { return files_.size(); }

 private:
  struct File {
    Fd fd;
    RankLine source;  // its text is unused
    int64_t offset = 0;
    std::string partial;
  };
  struct Directory {
    std::string path;
    std::string node;
    std::optional<uint64_t> generation;  // none: the node's own folder
  };
  // The followed directories of one node.
  struct Generations {
    std::map<uint64_t, int> followed;  // generation to watch
    uint64_t dropped = 0;              // this one and those before it that are not followed
    // Tasks have generations of their own: an old one may be the newest of a task that lives.
    std::map<uint32_t, uint64_t> newest_of_task;
  };

  RankTail(agent::Reactor& reactor, Take take) : reactor_(reactor), take_(std::move(take)) {}
  // Returns the watch, or -1.
  int WatchDirectory(const Directory& directory, bool from_start);
  void FoundGeneration(const Directory& parent, uint64_t generation, bool from_start);
  static bool IsNewestOfATask(const Generations& generations, uint64_t generation);
  void Drop(int watch);
  void FoundEntry(const Directory& directory, const std::string& name, bool from_start);
  void OnNotify();
  void Read(File* file);
  void TakeText(File* file, std::string_view text);
  void Emit(File* file);

  agent::Reactor& reactor_;
  Take take_;
  Fd notify_;
  std::map<int, Directory> directories_;            // by watch
  std::map<std::string, File> files_;               // by path
  std::map<std::string, Generations> generations_;  // by node
};

// "rank12.err" as (12, true), and "ps-1.out" as (the rank of that task, false); nothing for any
// other name.
std::optional<std::pair<uint32_t, bool>> ParseRankFile(std::string_view name);

}  // namespace paceline::cli

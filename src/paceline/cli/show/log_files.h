#pragma once

// The files that ranks write: <root>/<node>/g<generation>/rank<r>.{out,err}.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::cli {

struct LogFile {
  std::string node;
  int64_t generation = 0;  // with its term, as in the folder's name
  int64_t rank = 0;
  bool is_error = false;
  std::string path;
};

struct LogSelection {
  std::string node;   // "": all
  int64_t rank = -1;  // -1: all
  int64_t generation =
      -1;  // number of a world; -1: the newest among the files that the other fields select
  bool errors_only = false;
  bool is_newest_only = true;  // false: with generation -1, all generations
};

// The folder of the ranks' files: --log-dir of the run, else logs/ of the run directory.
std::string LogRoot(const std::string& run_dir);

// By node, generation, rank, stdout before stderr.
std::vector<LogFile> FindLogFiles(const std::string& root, const LogSelection& selection);

struct LogText {
  std::vector<std::string> lines;
  uint64_t end = 0;  // offset after the last line
};

// The last lines, from at most the last 4 MiB. A last line without a line break counts.
LogText ReadLastLines(const std::string& path, size_t lines_max);

// Whole lines from `offset` on, at most 4 MiB of them.
LogText ReadNewLines(const std::string& path, uint64_t offset);

uint64_t SizeOf(const std::string& path);

}  // namespace paceline::cli

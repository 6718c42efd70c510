#pragma once

// What is known of output that the ranks of this host lost on a full disk.
//
// The progress pages have the counts. They are mapped while the job runs, because an agent removes
// its page when it ends, and copies it to a disk that may be full.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/agent/ranks/page_file.h"

namespace paceline::cli {

class LostOutput {
 public:
  LostOutput(std::string run_dir, std::vector<std::string> nodes)
      : run_dir_(std::move(run_dir)), nodes_(std::move(nodes)) {}

  // Maps the pages that are there now and were not before.
  void Look();

  // "at least 12 lines of the ranks' output were dropped, because …"; "" if none is known to be
  // lost. Lines of Python count, in all worlds. Those of C++ code are lost in write(2), which
  // nobody sees.
  std::string Text() const;

 private:
  const std::string run_dir_;
  const std::vector<std::string> nodes_;
  std::map<std::string, std::unique_ptr<agent::PageFile>> pages_;  // by node
};

}  // namespace paceline::cli

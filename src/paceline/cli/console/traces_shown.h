#pragma once

// Which traces the console has shown whole, so that the end of the job does not repeat one.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "paceline/cli/console/line_folder.h"

namespace paceline::cli {

class TracesShown {
 public:
  // A line that is shown. Only lines of stderr count.
  void Add(const RankLine& line);
  // True if the newest trace that this rank has shown ends as `traceback` does. The rank may have
  // caught and printed other exceptions before.
  bool Has(uint64_t generation, uint32_t rank, std::string_view traceback) const;

 private:
  using Source = std::pair<uint64_t, uint32_t>;  // generation, rank
  struct Trace {
    bool is_open = false;  // its frames are being printed
    std::string headline;  // "ValueError: bad batch", the line after the frames
  };
  std::map<Source, Trace> newest_;
};

}  // namespace paceline::cli

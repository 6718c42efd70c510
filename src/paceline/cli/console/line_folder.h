#pragma once

// Shows equal lines once if several ranks print them at about the same time.
//
// A line waits for a moment in a short window. The same text from another rank joins it, unless
// that would put it before an earlier line of the same rank, because the order of each rank's lines
// is kept. Pure: the caller gives the time, and gets the time of the next call.

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"

namespace paceline::cli {

struct RankLine {
  std::string node;
  uint32_t rank = 0;
  bool is_stderr = false;
  std::string text;  // without its line break
  uint64_t generation = 0;
};

struct FoldedLine {
  RankLine line;       // of the rank that printed it first
  uint32_t ranks = 1;  // how many printed it
};

class LineFolder {
 public:
  explicit LineFolder(Duration window) : window_(window) {}

  void Add(Instant now, RankLine line);
  // Lines that have waited long enough, in order.
  std::vector<FoldedLine> TakeDue(Instant now);
  std::vector<FoldedLine> TakeAll();
  // Instant::Max() if no line waits.
  Instant NextDeadline() const;

 private:
  struct Group {
    FoldedLine folded;
    Instant due;
  };
  using Source = std::pair<uint32_t, bool>;  // rank, is_stderr

  void Pop(std::vector<FoldedLine>* lines);

  Duration window_;
  std::deque<Group> groups_;
  uint64_t first_number_ = 0;           // of groups_.front()
  std::map<Source, uint64_t> last_of_;  // number after the newest group that holds a line of it
};

}  // namespace paceline::cli

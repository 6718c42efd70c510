#include "paceline/cli/console/line_folder.h"

#include <algorithm>

namespace paceline::cli {
namespace {

constexpr size_t kWaitingMax = 512;

}  // namespace

void LineFolder::Add(Instant now, RankLine line) {
  const Source source{line.rank, line.is_stderr};
  uint64_t& last = last_of_[source];
  const uint64_t begin = std::max(last, first_number_) - first_number_;
  for (uint64_t i = begin; i < groups_.size(); ++i) {
    FoldedLine& folded = groups_[i].folded;
    if (folded.line.text != line.text || folded.line.is_stderr != line.is_stderr) continue;
    ++folded.ranks;
    last = first_number_ + i + 1;
    return;
  }
  groups_.push_back({FoldedLine{std::move(line), 1}, now + window_});
  last = first_number_ + groups_.size();
}

void LineFolder::Pop(std::vector<FoldedLine>* lines) {
  lines->push_back(std::move(groups_.front().folded));
  groups_.pop_front();
  ++first_number_;
}

std::vector<FoldedLine> LineFolder::TakeDue(Instant now) {
  std::vector<FoldedLine> lines;
  while (!groups_.empty() && (groups_.front().due <= now || groups_.size() > kWaitingMax)) {
    Pop(&lines);
  }
  if (groups_.empty()) last_of_.clear();
  return lines;
}

std::vector<FoldedLine> LineFolder::TakeAll() {
  std::vector<FoldedLine> lines;
  while (!groups_.empty()) Pop(&lines);
  last_of_.clear();
  return lines;
}

Instant LineFolder::NextDeadline() const {
  return groups_.empty() ? Instant::Max() : groups_.front().due;
}

}  // namespace paceline::cli

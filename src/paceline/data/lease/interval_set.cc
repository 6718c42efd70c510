#include "paceline/data/lease/interval_set.h"

#include <algorithm>
#include <iterator>

namespace paceline {

void IntervalSet::Add(OrdinalRange range) {
  if (range.size() == 0) return;
  auto at = ranges_.upper_bound(range.begin);
  if (at != ranges_.begin() && std::prev(at)->second >= range.begin) --at;
  while (at != ranges_.end() && at->first <= range.end) {
    range.begin = std::min(range.begin, at->first);
    range.end = std::max(range.end, at->second);
    total_ -= at->second - at->first;
    at = ranges_.erase(at);
  }
  ranges_.emplace(range.begin, range.end);
  total_ += range.size();
}

void IntervalSet::Remove(OrdinalRange range) {
  if (range.size() == 0) return;
  auto at = ranges_.upper_bound(range.begin);
  if (at != ranges_.begin() && std::prev(at)->second > range.begin) --at;
  while (at != ranges_.end() && at->first < range.end) {
    const OrdinalRange found{at->first, at->second};
    total_ -= found.size();
    at = ranges_.erase(at);
    const OrdinalRange before{found.begin, std::min(found.end, range.begin)};
    const OrdinalRange behind{std::max(found.begin, range.end), found.end};
    for (const OrdinalRange& rest : {before, behind}) {
      if (rest.begin >= rest.end) continue;
      at = std::next(ranges_.emplace(rest.begin, rest.end).first);
      total_ += rest.size();
    }
  }
}

bool IntervalSet::Covers(OrdinalRange range) const {
  if (range.size() == 0) return true;
  const auto at = ranges_.upper_bound(range.begin);
  return at != ranges_.begin() && std::prev(at)->second >= range.end;
}

bool IntervalSet::Overlaps(OrdinalRange range) const {
  if (range.size() == 0) return false;
  const auto at = ranges_.lower_bound(range.end);
  return at != ranges_.begin() && std::prev(at)->second > range.begin;
}

uint64_t IntervalSet::FirstMissing(uint64_t from) const {
  auto after = ranges_.upper_bound(from);
  if (after == ranges_.begin()) return from;
  return std::max(from, std::prev(after)->second);
}

std::vector<OrdinalRange> IntervalSet::Ranges() const {
  std::vector<OrdinalRange> ranges;
  ranges.reserve(ranges_.size());
  for (const auto& [begin, end] : ranges_) ranges.push_back({begin, end});
  return ranges;
}

}  // namespace paceline

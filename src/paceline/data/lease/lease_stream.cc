#include "paceline/data/lease/lease_stream.h"

#include <algorithm>
#include <utility>

#include "paceline/base/text.h"

namespace paceline {

const Partition* LeaseStream::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &partitions_[found->second];
}

const Partition* LeaseStream::At(uint64_t ordinal) const {
  const uint64_t number = PartitionOf(ordinal);
  return number < partitions_.size() ? &partitions_[number] : nullptr;
}

OrdinalRange LeaseStream::NextRange(std::optional<uint64_t> length) const {
  const uint64_t begin = partitions_.size() * kPartitionOrdinals;
  return {begin, begin + length.value_or(kPartitionOrdinals)};
}

bool LeaseStream::Add(Partition partition) {
  const OrdinalRange next = NextRange(std::nullopt);
  const bool is_next = partition.range.begin == next.begin && partition.range.end >= next.begin &&
                       partition.range.end <= next.end && partitions_.size() < kPartitionsMax;
  if (!is_next || !by_name_.emplace(partition.name, partitions_.size()).second) return false;
  partitions_.push_back(std::move(partition));
  return true;
}

void LeaseStream::AddRefused(OrdinalRange range, const std::string& reason) {
  if (refused_.Covers(range)) return;
  refused_.Add(range);
  refused_order_.push_back(range);
  for (; refused_order_.size() > kRefusedMax; refused_order_.pop_front()) {
    refused_.Remove(refused_order_.front());
  }
  if (const Partition* at = At(range.begin); at != nullptr && !reason.empty()) {
    reasons_.push_back(
        Concat(at->name, " offset ", at->base + range.begin - at->range.begin, ": ", reason));
  }
  while (reasons_.size() > kReasonsMax) reasons_.pop_front();
}

void LeaseStream::Rewind(const IntervalSet& done) {
  // What is not done, by ordinal. A range may be done in part, because neighbours are merged.
  uint64_t begin = 0;
  std::vector<OrdinalRange> again;
  for (const OrdinalRange& range : done.Ranges()) {
    if (begin < range.begin) again.push_back({begin, range.begin});
    begin = range.end;
  }
  again.push_back({begin, kPartitionsMax * kPartitionOrdinals});
  for (const OrdinalRange& range : again) {
    gaps_.Remove(range);
    refused_.Remove(range);
  }
  std::erase_if(refused_order_,
                [this](const OrdinalRange& range) { return !refused_.Covers(range); });
}

void LeaseStream::SetEnd(uint64_t end) {
  if (end > 0 && At(end - 1) != nullptr) ends_[PartitionOf(end - 1)] = end;
}

PartitionView LeaseStream::ViewOf(const Partition& partition, const IntervalSet& done) const {
  const OrdinalRange range = partition.range;
  const uint64_t next = std::min(done.FirstMissing(range.begin), range.end);
  PartitionView view{.name = partition.name, .offset = partition.base + next - range.begin};
  const bool has_end = range.end != EndOfPartition(range.begin);
  view.is_over = has_end && next == range.end;
  const auto end = ends_.find(PartitionOf(range.begin));
  if (has_end) {
    view.lag = range.end - next;
  } else if (end != ends_.end()) {
    view.lag = end->second - std::min(next, end->second);
  }
  return view;
}

uint64_t LeaseStream::known(const IntervalSet& done) const {
  uint64_t total = 0;
  for (const Partition& one : partitions_) {
    const PartitionView view = ViewOf(one, done);
    total += view.offset - one.base + view.lag.value_or(0);
  }
  return total;
}

std::optional<std::vector<OrdinalRange>> Translated(const std::vector<OrdinalRange>& done,
                                                    const std::vector<Partition>& theirs,
                                                    const LeaseStream& own) {
  std::vector<OrdinalRange> translated;
  for (OrdinalRange range : done) {
    while (range.begin < range.end) {
      const uint64_t number = PartitionOf(range.begin);
      if (number >= theirs.size()) return std::nullopt;
      const Partition& from = theirs[number];
      const Partition* to = own.Find(from.name);
      if (to == nullptr) return std::nullopt;
      const uint64_t end = std::min(range.end, EndOfPartition(range.begin));
      const uint64_t first = from.base + range.begin - from.range.begin;  // offsets
      const uint64_t last = from.base + end - from.range.begin;
      // Offsets before both bases are nobody's. Below one base alone, records would be lost.
      if (from.base < to->base) return std::nullopt;
      translated.push_back({to->range.begin + first - to->base,
                            std::min(to->range.begin + last - to->base, to->range.end)});
      range.begin = end;
    }
  }
  std::sort(translated.begin(), translated.end(),
            [](const OrdinalRange& a, const OrdinalRange& b) { return a.begin < b.begin; });
  return translated;
}

std::string PartitionsToText(const std::vector<Partition>& partitions) {
  std::string text;
  for (const Partition& one : partitions) {
    Append(&text, text.empty() ? "" : "\n", one.range.begin, " ", one.range.end, " ", one.base, " ",
           one.name);
  }
  return text;
}

std::optional<std::vector<Partition>> PartitionsFromText(std::string_view text) {
  LeaseStream known;  // which checks the ranges
  for (const std::string_view line : SplitParts(text, "\n")) {
    uint64_t numbers[3] = {};
    std::string_view rest = line;
    for (uint64_t& number : numbers) {
      const size_t space = rest.find(' ');
      const auto parsed = space == std::string_view::npos
                              ? std::nullopt
                              : ParseWhole<uint64_t>(rest.substr(0, space));
      if (!parsed) return std::nullopt;
      number = *parsed;
      rest.remove_prefix(space + 1);
    }
    if (rest.empty()) return std::nullopt;
    const bool is_added = known.Add(
        {.name = std::string(rest), .base = numbers[2], .range = {numbers[0], numbers[1]}});
    if (!is_added) return std::nullopt;
  }
  return known.partitions();
}

}  // namespace paceline

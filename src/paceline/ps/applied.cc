#include "paceline/ps/applied.h"

#include <algorithm>
#include <iterator>

namespace paceline::ps {
namespace {

enum class Standing { kNew, kContained, kOverlaps };

Standing StandingOf(const AppliedSet& applied, const PushTag& tag) {
  const auto found = applied.find(tag.set);
  if (found == applied.end()) return Standing::kNew;
  bool all = true;
  bool any = false;
  for (const OrdinalRange& range : tag.batch) {
    all = all && found->second.Covers(range);
    any = any || found->second.Overlaps(range);
  }
  if (!any) return Standing::kNew;
  return all ? Standing::kContained : Standing::kOverlaps;
}

std::string RangesText(const std::vector<OrdinalRange>& ranges) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(ranges.size(), kShown); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ranges[i].begin) + "…" + std::to_string(ranges[i].end - 1);
  }
  if (ranges.size() > kShown) text += ", …";
  return text;
}

// Why the tag names no batch; empty if it does.
std::string BrokenTag(const PushTag& tag) {
  IntervalSet seen;
  for (const OrdinalRange& range : tag.batch) {
    if (range.begin >= range.end) return "a range of the batch is empty";
    if (seen.Overlaps(range)) return "the ranges of the batch overlap";
    seen.Add(range);
  }
  return seen.empty() ? "the batch has no ordinals" : "";
}

}  // namespace

AppliedSets::AppliedSets() : groups_(1) { kept_.set(); }

PushAnswer AppliedSets::Judge(const PushTag& tag, std::string* why) const {
  *why = BrokenTag(tag);
  if (!why->empty()) return PushAnswer::kMalformed;
  PushAnswer answer = PushAnswer::kSkipped;
  for (const AppliedSet& group : groups_) {
    const Standing standing = StandingOf(group, tag);
    if (standing == Standing::kNew) answer = PushAnswer::kApplied;
    if (standing != Standing::kOverlaps) continue;
    *why = "the batch with the ordinals " + RangesText(tag.batch) +
           " is applied in part: batches do not have the same borders as before";
    return PushAnswer::kOverlaps;
  }
  return answer;
}

std::vector<OrdinalRange> AppliedSets::Parts(const PushTag& tag) const {
  std::vector<OrdinalRange> applied;
  for (const AppliedSet& group : groups_) {
    const auto found = group.find(tag.set);
    if (found == group.end()) continue;
    for (const OrdinalRange& range : found->second.Ranges()) applied.push_back(range);
  }
  return CutAt(tag.batch, applied);
}

PartitionBits AppliedSets::Takes(const PushTag& tag) const {
  std::vector<bool> is_new(groups_.size());
  for (size_t i = 0; i < groups_.size(); ++i) {
    is_new[i] = StandingOf(groups_[i], tag) == Standing::kNew;
  }
  PartitionBits takes;
  for (uint32_t i = 0; i < kPartitions; ++i) takes[i] = is_new[group_of_[i]];
  return takes;
}

void AppliedSets::Add(const PushTag& tag) {
  for (AppliedSet& group : groups_) {
    for (const OrdinalRange& range : tag.batch) group[tag.set].Add(range);
  }
  MergeAtTimes();
}

const AppliedSet& AppliedSets::Of(uint32_t partition) const {
  return groups_[group_of_[partition]];
}

void AppliedSets::Keep(const PartitionBits& kept) {
  kept_ = kept;
  Merge();
}

void AppliedSets::Set(uint32_t partition, const AppliedSet& applied) {
  const uint16_t old = group_of_[partition];
  uint32_t users = 0;
  for (uint32_t i = 0; i < kPartitions; ++i) {
    if (i != partition && kept_[i] && group_of_[i] == old) ++users;
  }
  kept_[partition] = true;
  // The neighbour was often loaded from the same snapshot.
  const uint32_t neighbour = (partition + kPartitions - 1) % kPartitions;
  if (kept_[neighbour] && groups_[group_of_[neighbour]] == applied) {
    group_of_[partition] = group_of_[neighbour];
    if (users == 0) Merge();
  } else if (users == 0) {
    groups_[old] = applied;
  } else {
    group_of_[partition] = static_cast<uint16_t>(groups_.size());
    groups_.push_back(applied);
  }
}

// After a restart there may be a group for each partition. To compare them takes longer than a
// push, and they become equal only after many pushes.
void AppliedSets::MergeAtTimes() {
  if (groups_.size() == 1 || ++pushes_since_merge_ < groups_.size() / 16) return;
  Merge();
}

// Keeps one group of those that are equal, and drops groups that no partition has.
void AppliedSets::Merge() {
  pushes_since_merge_ = 0;
  std::vector<bool> is_used(groups_.size(), false);
  for (uint32_t i = 0; i < kPartitions; ++i) {
    if (kept_[i]) is_used[group_of_[i]] = true;
  }
  if (kept_.none()) is_used[0] = true;
  std::vector<AppliedSet> kept;
  std::multimap<uint64_t, uint16_t> by_total;  // ordinals of all data sets → place in `kept`
  std::vector<uint16_t> now(groups_.size(), 0);
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!is_used[i]) continue;
    uint64_t total = 0;
    for (const auto& [set, ordinals] : groups_[i]) total += ordinals.total();
    auto [at, end] = by_total.equal_range(total);
    while (at != end && kept[at->second] != groups_[i]) ++at;
    if (at == end) {
      at = by_total.emplace(total, static_cast<uint16_t>(kept.size()));
      kept.push_back(std::move(groups_[i]));
    }
    now[i] = at->second;
  }
  for (uint16_t& group : group_of_) group = now[group];  // of a partition that is not kept: any
  groups_ = std::move(kept);
}

}  // namespace paceline::ps

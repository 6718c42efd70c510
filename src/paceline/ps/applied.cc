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

AppliedSets::AppliedSets() : groups_(1) {}

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

bool AppliedSets::Takes(uint32_t partition, const PushTag& tag) const {
  return StandingOf(groups_[group_of_[partition]], tag) == Standing::kNew;
}

void AppliedSets::Add(const PushTag& tag) {
  for (AppliedSet& group : groups_) {
    for (const OrdinalRange& range : tag.batch) group[tag.set].Add(range);
  }
  Merge();
}

const AppliedSet& AppliedSets::Of(uint32_t partition) const {
  return groups_[group_of_[partition]];
}

void AppliedSets::Set(uint32_t partition, const AppliedSet& applied) {
  group_of_[partition] = static_cast<uint16_t>(groups_.size());
  groups_.push_back(applied);
  Merge();
}

// Keeps one group of those that are equal, and drops groups that no partition has.
void AppliedSets::Merge() {
  if (groups_.size() == 1) return;
  std::vector<AppliedSet> kept;
  std::vector<uint16_t> now(groups_.size(), 0);
  std::vector<bool> is_used(groups_.size(), false);
  for (const uint16_t group : group_of_) is_used[group] = true;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!is_used[i]) continue;
    const auto same = std::find(kept.begin(), kept.end(), groups_[i]);
    now[i] = static_cast<uint16_t>(std::distance(kept.begin(), same));
    if (same == kept.end()) kept.push_back(std::move(groups_[i]));
  }
  for (uint16_t& group : group_of_) group = now[group];
  groups_ = std::move(kept);
}

}  // namespace paceline::ps

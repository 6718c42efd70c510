#include "paceline/ckpt/format/tiling.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "paceline/base/text.h"
#include "paceline/base/utf8.h"

namespace paceline::ckpt {
namespace {

uint64_t VolumeOf(const std::vector<uint64_t>& shape) {
  uint64_t volume = 1;
  for (const uint64_t extent : shape) volume *= extent;  // the parser bounds it
  return volume;
}

bool Overlap(const TensorBox& a, const TensorBox& b) {
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (a.offset[i] >= b.offset[i] + b.shape[i] || b.offset[i] >= a.offset[i] + a.shape[i]) {
      return false;
    }
  }
  return true;
}

Failure Bad(const TensorBox& box, std::string_view what) {
  return {FailureKind::kInvalid, Concat("tensor \"", CleanText(box.key), "\" ", what)};
}

// Shards of one tensor begin at different places; these all begin at its origin. An empty shard may
// begin anywhere.
bool AreWholes(std::span<const TensorBox> boxes) {
  size_t filled = 0;
  for (const TensorBox& box : boxes) {
    if (VolumeOf(box.shape) == 0) continue;
    const bool is_at_origin = std::all_of(box.offset.begin(), box.offset.end(),
                                          [](const uint64_t offset) { return offset == 0; });
    if (!is_at_origin) return false;
    ++filled;
  }
  return filled > 1;
}

Result<void> CheckOne(std::span<const TensorBox> boxes) {
  std::vector<uint64_t> extent(boxes[0].shape.size(), 0);
  uint64_t volume = 0;
  for (const TensorBox& box : boxes) {
    if (box.shape.size() != extent.size() || box.dtype != boxes[0].dtype) {
      return Bad(box, "was saved with two types or numbers of dimensions");
    }
    for (size_t i = 0; i < extent.size(); ++i) {
      extent[i] = std::max(extent[i], box.offset[i] + box.shape[i]);
    }
    volume += VolumeOf(box.shape);
  }
  // Sorted by their first offset, a box overlaps only boxes that begin before it ends.
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (VolumeOf(boxes[i].shape) == 0) continue;
    for (size_t j = i + 1; j < boxes.size(); ++j) {
      if (!extent.empty() && boxes[j].offset[0] >= boxes[i].offset[0] + boxes[i].shape[0]) break;
      if (VolumeOf(boxes[j].shape) > 0 && Overlap(boxes[i], boxes[j])) {
        return Bad(boxes[i], "was saved by two ranks that disagree about who has what");
      }
    }
  }
  if (volume != VolumeOf(extent)) return Bad(boxes[0], "is not complete: a rank's part is missing");
  return {};
}

}  // namespace

Result<std::vector<std::string>> CheckTiling(std::vector<TensorBox> boxes, OtherShapes others) {
  const auto key = [](const TensorBox& box) { return std::tie(box.key, box.offset, box.shape); };
  std::sort(boxes.begin(), boxes.end(),
            [&](const TensorBox& a, const TensorBox& b) { return key(a) < key(b); });
  std::vector<std::string> differing;
  for (size_t i = 1; i < boxes.size(); ++i) {
    const uint64_t before = boxes[i - 1].content;
    const bool is_other = before != 0 && boxes[i].content != 0 && before != boxes[i].content;
    if (!is_other || key(boxes[i - 1]) != key(boxes[i])) continue;
    if (differing.empty() || differing.back() != boxes[i].key) differing.push_back(boxes[i].key);
  }
  boxes.erase(std::unique(boxes.begin(), boxes.end(),
                          [&](const TensorBox& a, const TensorBox& b) { return key(a) == key(b); }),
              boxes.end());
  for (size_t begin = 0; begin < boxes.size();) {
    size_t end = begin;
    while (end < boxes.size() && boxes[end].key == boxes[begin].key) ++end;
    const auto one = std::span(boxes).subspan(begin, end - begin);
    if (others == OtherShapes::kOwn && AreWholes(one)) {
      differing.push_back(one[0].key);
    } else {
      RETURN_IF_ERROR(CheckOne(one));
    }
    begin = end;
  }
  std::sort(differing.begin(), differing.end());
  differing.erase(std::unique(differing.begin(), differing.end()), differing.end());
  return differing;
}

}  // namespace paceline::ckpt

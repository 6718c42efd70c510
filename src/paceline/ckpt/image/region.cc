#include "paceline/ckpt/image/region.h"

namespace paceline::ckpt {
namespace {

bool IsInside(uint64_t begin, uint64_t extent, uint64_t size) {
  return begin <= size && extent <= size - begin;
}

}  // namespace

Result<void> CheckRegion(const Region& region, const std::vector<uint64_t>& box_shape) {
  const size_t dimensions = box_shape.size();
  bool fits = region.from.size() == dimensions && region.extent.size() == dimensions &&
              region.shape.size() == dimensions && region.to.size() == dimensions;
  for (size_t i = 0; fits && i < dimensions; ++i) {
    fits = IsInside(region.from[i], region.extent[i], box_shape[i]) &&
           IsInside(region.to[i], region.extent[i], region.shape[i]);
  }
  if (fits) return {};
  return Failure{FailureKind::kInvalid, "a part lies outside its tensor"};
}

Result<void> ForEachRun(const Region& region, const std::vector<uint64_t>& box_shape,
                        size_t element, const std::function<Result<void>(const ByteRun&)>& visit) {
  RETURN_IF_ERROR(CheckRegion(region, box_shape));
  // Dimensions behind `outer` are contiguous: each is taken as a whole.
  size_t outer = box_shape.size();
  uint64_t bytes = element;
  bool is_whole = true;
  while (outer > 0 && is_whole) {
    --outer;
    bytes *= region.extent[outer];
    is_whole =
        region.extent[outer] == box_shape[outer] && region.extent[outer] == region.shape[outer];
  }
  std::vector<uint64_t> from_stride(box_shape.size());
  std::vector<uint64_t> to_stride(box_shape.size());
  ByteRun run{.bytes = bytes};
  for (size_t i = box_shape.size(), from = element, to = element; i-- > 0;) {
    from_stride[i] = from;
    to_stride[i] = to;
    run.from += region.from[i] * from;
    run.to += region.to[i] * to;
    from *= box_shape[i];
    to *= region.shape[i];
  }
  for (const uint64_t extent : region.extent) {
    if (extent == 0) return {};
  }
  std::vector<uint64_t> at(outer, 0);
  while (true) {
    RETURN_IF_ERROR(visit(run));
    size_t i = outer;
    while (i > 0 && at[i - 1] + 1 == region.extent[i - 1]) {
      --i;
      run.from -= at[i] * from_stride[i];
      run.to -= at[i] * to_stride[i];
      at[i] = 0;
    }
    if (i == 0) return {};
    ++at[i - 1];
    run.from += from_stride[i - 1];
    run.to += to_stride[i - 1];
  }
}

}  // namespace paceline::ckpt

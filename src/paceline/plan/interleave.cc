#include "paceline/plan/interleave.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "paceline/plan/improve.h"

namespace paceline::plan {
namespace {

constexpr int kHalvings = 50;
// The borders of small cuts are moved at once. Of large ones, only those of the best plan are, by
// the search.
constexpr uint64_t kPassesOfMove = 20'000;

class ChunkCut {
 public:
  ChunkCut(const Scene& scene, const PassTable& passes, const Shape& shape, uint32_t type)
      : scene_(scene), type_(type), chunks_(shape.pipeline * shape.virtual_stages) {
    sums_.push_back(0);
    for (uint32_t layer = 0; layer < passes.layers(); ++layer) {
      const double own = passes.At(type, layer).SecondsFor(MicroBatchOf(scene, shape));
      longest_ = std::max(longest_, own);
      sums_.push_back(sums_.back() + own);
    }
  }

  // Bisection for the least limit of a chunk's seconds.
  std::vector<CutStage> Even() const {
    double low = std::max(longest_, sums_.back() / chunks_);
    double high = sums_.back();
    std::vector<CutStage> best = Within(high);
    for (int i = 0; i < kHalvings && low < high; ++i) {
      const double middle = (low + high) / 2;
      auto chunks = Within(middle);
      if (chunks.empty()) {
        low = middle;
      } else {
        high = middle;
        best = std::move(chunks);
      }
    }
    return best;
  }

 private:
  uint32_t layers() const { return static_cast<uint32_t>(sums_.size() - 1); }
  bool MayEnd(uint32_t end) const { return end == layers() || scene_.layers[end - 1].cut.empty(); }

  // Chunks of at most `limit` seconds each; empty if there are none. Each chunk ends where the rest
  // is nearest to an equal share for the chunks that follow.
  std::vector<CutStage> Within(double limit) const {
    const std::vector<uint32_t> needed = Needed(limit);
    if (needed[0] > chunks_) return {};
    std::vector<CutStage> cut;
    uint32_t begin = 0;
    for (uint32_t left = chunks_; left > 0; --left) {
      const double share = (sums_.back() - sums_[begin]) / left;
      uint32_t best = 0;
      double least = 0;
      for (uint32_t end = begin + 1; end <= layers(); ++end) {
        const double seconds = sums_[end] - sums_[begin];
        if (seconds > limit * kRounding) break;
        if (!MayEnd(end) || needed[end] > left - 1 || ends_[end] < left - 1) continue;
        const double off = std::abs(seconds - share);
        if (best == 0 || off < least) {
          best = end;
          least = off;
        }
      }
      if (best == 0) return {};
      cut.push_back({begin, best, type_});
      begin = best;
    }
    return cut;
  }

  // From each layer on, how many chunks within the limit are needed at least. Also sets `ends_`:
  // how many chunks there can be at most.
  std::vector<uint32_t> Needed(double limit) const {
    const uint32_t none = layers() + chunks_ + 1;
    std::vector<uint32_t> needed(layers() + 1, none);
    ends_.assign(layers() + 1, 0);
    needed[layers()] = 0;
    for (uint32_t begin = layers(); begin-- > 0;) {
      for (uint32_t end = begin + 1; end <= layers(); ++end) {
        if (sums_[end] - sums_[begin] > limit * kRounding) break;
        if (!MayEnd(end) || needed[end] == none) continue;
        needed[begin] = std::min(needed[begin], needed[end] + 1);
        ends_[begin] = std::max(ends_[begin], ends_[end] + 1);
      }
    }
    return needed;
  }

  static constexpr double kRounding = 1 + 1e-12;
  const Scene& scene_;
  const uint32_t type_;
  const uint32_t chunks_;
  double longest_ = 0;
  std::vector<double> sums_;            // of the layers before each
  mutable std::vector<uint32_t> ends_;  // of the last call of `Needed`
};

}  // namespace

std::optional<PipelineCut> CutInterleaved(const Scene& scene, const PassTable& passes,
                                          const Shape& shape) {
  uint32_t type = 0;
  while (scene.counts[type] == 0) ++type;
  if (StagesOf(scene.counts[type], shape) < shape.pipeline) return std::nullopt;
  PipelineCut cut;
  cut.stages = ChunkCut(scene, passes, shape, type).Even();
  if (cut.stages.empty()) return std::nullopt;
  const uint64_t passes_of_move = 4 * cut.stages.size() * cut.stages.size() * shape.micro_batches;
  if (passes_of_move <= kPassesOfMove) cut = Improved(scene, shape, std::move(cut));
  cut.seconds = SimulatedSeconds(scene, shape, cut);
  if (cut.seconds == kNever) return std::nullopt;
  return cut;
}

}  // namespace paceline::plan

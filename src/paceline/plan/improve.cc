#include "paceline/plan/improve.h"

#include <utility>
#include <vector>

#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

constexpr int kMovesMax = 64;
// Largest number of simulated passes for one cut, over all moves.
constexpr uint64_t kPassesMax = 5'000'000;
// Two cuts take as long if their steps differ by less than the error of the sums. With one
// micro-batch the stages work one after the other, and the step hardly depends on the cut: there
// the even one may take half a percent longer.
constexpr double kAsLong = 1 + 1e-9;
constexpr double kAsLongInOnePass = 1.005;
constexpr int kEveningMovesMax = 1000;

std::vector<PipelineCut> NeighboursOf(const Scene& scene, const PipelineCut& cut) {
  std::vector<PipelineCut> neighbours;
  const auto may_cut = [&](uint32_t begin) { return scene.layers[begin - 1].cut.empty(); };
  for (size_t i = 0; i + 1 < cut.stages.size(); ++i) {
    const uint32_t border = cut.stages[i].end;
    for (const uint32_t moved : {border - 1, border + 1}) {
      if (moved <= cut.stages[i].begin || moved >= cut.stages[i + 1].end || !may_cut(moved)) {
        continue;
      }
      PipelineCut other = cut;
      other.stages[i].end = moved;
      other.stages[i + 1].begin = moved;
      neighbours.push_back(std::move(other));
    }
    for (size_t j = i + 1; j < cut.stages.size(); ++j) {
      if (cut.stages[i].type == cut.stages[j].type) continue;
      PipelineCut other = cut;
      std::swap(other.stages[i].type, other.stages[j].type);
      neighbours.push_back(std::move(other));
    }
  }
  return neighbours;
}

// The sum of squares of the parts of their devices' memory that stages fill. Of cuts of the same
// layers, the most even one has the least.
double UnevennessOf(const Scene& scene, const Shape& shape, const PipelineCut& cut) {
  double sum = 0;
  for (uint32_t place = 0; place < cut.stages.size(); ++place) {
    const CutStage& stage = cut.stages[place];
    const double need = CostOfStage(scene, shape, stage)
                            .memory.BytesFor(MicroBatchOf(scene, shape), InFlightOf(shape, place));
    const double part = need / static_cast<double>(scene.cluster.types[stage.type].memory);
    sum += part * part;
  }
  return sum;
}

// The simulated passes that are left for one cut.
class PassBudget {
 public:
  PassBudget(const Shape& shape, const PipelineCut& cut)
      : each_(2 * cut.stages.size() * shape.micro_batches) {}
  // Takes one simulation; false if there is none left.
  bool Take() { return (passes_ += each_) <= kPassesMax; }

 private:
  const uint64_t each_;
  uint64_t passes_ = 0;
};

enum class Attempt { kNo, kBetter, kEnd };

// Moves to the best neighbour, again and again. `attempt` judges a neighbour against the best one
// so far. kEnd: nothing may be simulated any more, and the cut before this move is the answer.
template <typename Judge>
PipelineCut Climb(const Scene& scene, PipelineCut cut, int moves_max, const Judge& attempt) {
  for (int move = 0; move < moves_max; ++move) {
    bool is_better = false;
    PipelineCut best;
    for (PipelineCut& other : NeighboursOf(scene, cut)) {
      const Attempt result = attempt(other);
      if (result == Attempt::kEnd) return cut;
      if (result == Attempt::kNo) continue;
      best = std::move(other);
      is_better = true;
    }
    if (!is_better) break;
    cut = std::move(best);
  }
  return cut;
}

}  // namespace

double SimulatedSeconds(const Scene& scene, const Shape& shape, const PipelineCut& cut) {
  const CutCosts costs = CostsOfCut(scene, shape, cut);
  for (size_t place = 0; place < costs.bytes.size(); ++place) {
    const DeviceType& type = scene.cluster.types[cut.stages[place].type];
    if (costs.bytes[place] > static_cast<double>(type.memory)) return kNever;
  }
  return Simulate(costs.times, SizeOf(shape), *Schedules()[shape.schedule])->seconds;
}

PipelineCut Improved(const Scene& scene, const Shape& shape, PipelineCut cut) {
  double seconds = SimulatedSeconds(scene, shape, cut);
  PassBudget budget(shape, cut);
  return Climb(scene, std::move(cut), kMovesMax, [&](const PipelineCut& other) {
    if (!budget.Take()) return Attempt::kEnd;
    const double its = SimulatedSeconds(scene, shape, other);
    if (its >= seconds) return Attempt::kNo;
    seconds = its;
    return Attempt::kBetter;
  });
}

PipelineCut Evened(const Scene& scene, const Shape& shape, PipelineCut cut) {
  if (shape.virtual_stages > 1) return cut;  // its chunks were cut evenly
  const double as_long = shape.micro_batches == 1 ? kAsLongInOnePass : kAsLong;
  const double limit = SimulatedSeconds(scene, shape, cut) * as_long;
  double least = UnevennessOf(scene, shape, cut);
  PassBudget budget(shape, cut);
  return Climb(scene, std::move(cut), kEveningMovesMax, [&](const PipelineCut& other) {
    const double its = UnevennessOf(scene, shape, other);
    if (its >= least) return Attempt::kNo;
    if (!budget.Take()) return Attempt::kEnd;
    if (SimulatedSeconds(scene, shape, other) > limit) return Attempt::kNo;
    least = its;
    return Attempt::kBetter;
  });
}

}  // namespace paceline::plan

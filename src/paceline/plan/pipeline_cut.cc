#include "paceline/plan/pipeline_cut.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "paceline/plan/collective.h"

namespace paceline::plan {
namespace {

constexpr int kRoundsMax = 256;
// The cost of other work in transitions: this many sums are set to infinity in the time of one, and
// a state is made in the time of kStateAsSlow.
constexpr uint64_t kFilledAsFast = 8;
constexpr uint64_t kStateAsSlow = 50;

struct Segment {
  double sum = 0;     // pass and both transfers
  double passes = 0;  // (m - 1) passes; grows with the number of layers
  double first = 0;   // `passes` and the work after them, which need not grow
  StageMemory memory;
};

// The cost of a stage, of the sums `load` and `pass` over its layers.
StageCost CostFrom(const Scene& scene, const Shape& shape, const CutStage& stage,
                   const StageLoad& load, PassTime pass) {
  const double samples = MicroBatchOf(scene, shape);
  StageCost cost;
  pass.AddEdge(EdgeTime(scene, load, shape));
  cost.pass = pass.SecondsFor(samples);
  cost.forward = pass.forward.SecondsFor(samples);
  // torch does all of the first stage's backward pass with its weights: nobody waits for inputs.
  cost.weight = stage.begin == 0 ? cost.pass - cost.forward : pass.weight.SecondsFor(samples);
  cost.sums = pass.sums.SecondsFor(samples);
  if (stage.begin > 0) {
    const double parts = scene.execution->divides_transfers ? shape.tensor : 1;
    const auto output = static_cast<double>(scene.layers[stage.begin - 1].output);
    cost.transfer = SendSeconds(samples * output / parts, LinkOf(scene, scene.devices));
  }
  cost.exchange = ExchangeSeconds(scene, load, shape, cost.pass);
  cost.after =
      cost.exchange + OptimizerSeconds(scene, load, scene.cluster.types[stage.type], shape);
  cost.memory = MemoryOf(scene, load, shape);
  return cost;
}

// All costs of a shape: of each type, from each layer to each.
class SegmentTable {
 public:
  SegmentTable(const Scene& scene, const PassTable& passes, const Shape& shape)
      : layers_(passes.layers()),
        segments_(static_cast<size_t>(passes.types()) * layers_ * layers_) {
    for (uint32_t type = 0; type < passes.types(); ++type) {
      for (uint32_t begin = 0; begin < layers_; ++begin) {
        FillFrom(scene, passes, shape, type, begin);
      }
    }
  }

  const Segment& At(uint32_t type, uint32_t begin, uint32_t end) const {
    return segments_[(static_cast<size_t>(type) * layers_ + begin) * layers_ + end - 1];
  }

 private:
  void FillFrom(const Scene& scene, const PassTable& passes, const Shape& shape, uint32_t type,
                uint32_t begin) {
    StageLoad load;
    PassTime pass;
    for (uint32_t end = begin + 1; end <= layers_; ++end) {
      load.Add(scene, scene.layers[end - 1], shape);
      pass.Add(passes.At(type, end - 1));
      const StageCost cost = CostFrom(scene, shape, {begin, end, type}, load, pass);
      const double passes_after_first = (shape.micro_batches - 1) * cost.pass;
      segments_[(static_cast<size_t>(type) * layers_ + begin) * layers_ + end - 1] = {
          .sum = cost.pass + 2 * cost.transfer,
          .passes = passes_after_first,
          .first = passes_after_first + cost.after,
          .memory = cost.memory};
    }
  }

  uint32_t layers_;
  std::vector<Segment> segments_;
};

constexpr uint32_t kNoState = std::numeric_limits<uint32_t>::max();

// The states of the search: how many stages of each type are used. Ordered by the total number.
struct UsedStages {
  std::vector<uint32_t> counts;
  uint32_t total = 0;
  std::vector<uint32_t> without;  // by type: the state with one stage less, or kNoState
};

// The states with `left` more stages of the types from `state.counts.size()` on, in the order of
// their counts. `room`: stages that these types and later ones can be, by type.
void AddStates(const std::vector<uint32_t>& most, const std::vector<uint32_t>& room, uint32_t left,
               UsedStages& state, std::vector<UsedStages>& states) {
  const size_t type = state.counts.size();
  if (type == most.size()) {
    states.push_back(state);
    return;
  }
  const uint32_t later = room[type + 1];
  for (uint32_t count = left > later ? left - later : 0; count <= std::min(most[type], left);
       ++count) {
    state.counts.push_back(count);
    AddStates(most, room, left - count, state, states);
    state.counts.pop_back();
  }
}

std::vector<UsedStages> StatesOf(const Scene& scene, const Shape& shape) {
  std::vector<uint32_t> most;
  for (const uint32_t count : scene.counts) most.push_back(StagesOf(count, shape));
  std::vector<uint32_t> room(most.size() + 1, 0);
  for (size_t type = most.size(); type-- > 0;) room[type] = room[type + 1] + most[type];
  std::vector<UsedStages> states;
  for (uint32_t total = 0; total <= std::min(shape.pipeline, room[0]); ++total) {
    UsedStages state = {.counts = {}, .total = total};
    AddStates(most, room, total, state, states);
  }
  const auto is_before = [](const UsedStages& a, const UsedStages& b) {
    return a.total != b.total ? a.total < b.total : a.counts < b.counts;
  };
  for (UsedStages& state : states) {
    state.without.assign(most.size(), kNoState);
    for (size_t type = 0; type < most.size(); ++type) {
      if (state.counts[type] == 0) continue;
      UsedStages less = {.counts = state.counts, .total = state.total - 1};
      --less.counts[type];
      state.without[type] = static_cast<uint32_t>(
          std::lower_bound(states.begin(), states.end(), less, is_before) - states.begin());
    }
  }
  return states;
}

// Without values of its own: only choices that were made are read.
struct Choice {
  uint32_t type;
  uint32_t end;
};

class CutRun {
 public:
  CutRun(const Scene& scene, const PassTable& passes, const Shape& shape, uint64_t* budget)
      : scene_(scene),
        shape_(shape),
        budget_(budget),
        layers_(passes.layers()),
        samples_(MicroBatchOf(scene, shape)),
        least_(BoundOf(scene, passes, shape)),
        segments_(scene, passes, shape),
        states_(StatesOf(scene, shape)),
        cells_(states_.size() * (layers_ + 1)),
        sums_(std::make_unique_for_overwrite<double[]>(cells_)),
        choices_(std::make_unique_for_overwrite<Choice[]>(cells_)) {
    Spend(states_.size() * kStateAsSlow);
  }

  CutSearch Run(double below, double slack) {
    CutSearch search;
    double best = below;
    double sum = least_.sum;  // the least sum of all cuts that are still possible
    double limit = below - sum;
    for (int round = 0; least_.first + sum < best * slack && limit >= least_.first; ++round) {
      if (round == kRoundsMax || *budget_ == 0) {
        search.is_complete = false;
        search.bound = std::min(best, least_.first + sum);
        return search;
      }
      auto cut = Solve(limit);
      if (!cut) break;
      // A lower limit cannot make the least sum smaller.
      const double first = FirstOf(*cut);
      sum = cut->seconds - first;
      if (cut->seconds < best) {
        best = cut->seconds;
        search.cuts.push_back(*std::move(cut));
      } else if (cut->seconds < best * slack) {
        search.cuts.insert(search.cuts.begin(), *std::move(cut));
      }
      limit = std::min(std::nextafter(first, 0.0), best * slack - sum);
    }
    search.bound = best;
    return search;
  }

 private:
  void Spend(uint64_t transitions) { *budget_ -= std::min(*budget_, transitions); }
  double& SumAt(size_t state, uint32_t begin) { return sums_[state * (layers_ + 1) + begin]; }
  Choice& ChoiceAt(size_t state, uint32_t begin) { return choices_[state * (layers_ + 1) + begin]; }
  uint32_t types() const { return static_cast<uint32_t>(scene_.counts.size()); }

  double FirstOf(const PipelineCut& cut) const {
    double first = 0;
    for (const CutStage& stage : cut.stages) {
      first = std::max(first, segments_.At(stage.type, stage.begin, stage.end).first);
    }
    return first;
  }

  // The least sum of a cut whose first term is at most `limit`.
  std::optional<PipelineCut> Solve(double limit) {
    Spend(cells_ / kFilledAsFast);
    std::fill_n(sums_.get(), cells_, kNever);
    SumAt(0, layers_) = 0;
    for (size_t state = 1; state < states_.size(); ++state) {
      const uint32_t total = states_[state].total;
      const uint32_t place = shape_.pipeline - total;
      const uint32_t in_flight = InFlightOf(shape_, place);
      // Leaves a layer for each other stage.
      const uint32_t begin_last = place == 0 ? 0 : layers_ - total;
      for (uint32_t begin = place; begin <= begin_last; ++begin) {
        if (begin > 0 && !scene_.layers[begin - 1].cut.empty()) continue;
        Extend(state, begin, in_flight, limit);
      }
    }
    return Best();
  }

  void Extend(size_t state, uint32_t begin, uint32_t in_flight, double limit) {
    double& sum = SumAt(state, begin);
    for (uint32_t type = 0; type < types(); ++type) {
      const uint32_t rest = states_[state].without[type];
      if (rest == kNoState) continue;
      const auto room = static_cast<double>(scene_.cluster.types[type].memory);
      const Segment* const segments = &segments_.At(type, begin, begin + 1);
      const double* const sums = &SumAt(rest, begin + 1);
      uint32_t end = begin + 1;
      for (; end <= layers_; ++end) {
        const Segment& segment = segments[end - begin - 1];
        if (segment.passes > limit) break;
        if (segment.memory.BytesFor(samples_, in_flight) > room) break;
        if (segment.first > limit) continue;
        const double with = segment.sum + sums[end - begin - 1];
        if (with < sum) {
          sum = with;
          ChoiceAt(state, begin) = {type, end};
        }
      }
      Spend(std::min(end, layers_) - begin);
    }
  }

  std::optional<PipelineCut> Best() {
    size_t best = 0;
    double least = kNever;
    for (size_t state = 0; state < states_.size(); ++state) {
      if (states_[state].total == shape_.pipeline && SumAt(state, 0) < least) {
        least = SumAt(state, 0);
        best = state;
      }
    }
    if (least == kNever) return std::nullopt;
    PipelineCut cut;
    for (uint32_t begin = 0; begin < layers_;) {
      const Choice choice = ChoiceAt(best, begin);
      cut.stages.push_back({begin, choice.end, choice.type});
      best = states_[best].without[choice.type];
      begin = choice.end;
    }
    cut.seconds = FirstOf(cut) + least;
    return cut;
  }

  const Scene& scene_;
  const Shape shape_;
  uint64_t* budget_;
  const uint32_t layers_;
  const double samples_;
  const PipelineBound least_;
  const SegmentTable segments_;
  const std::vector<UsedStages> states_;
  const size_t cells_;
  const std::unique_ptr<double[]> sums_;
  const std::unique_ptr<Choice[]> choices_;
};

// A stage's own work at the end of a step and its memory, over all of its chunks. A pass in flight
// keeps what one chunk saves: chunks are nearly alike, so the mean of them counts.
void AddInterleaved(const Scene& scene, const Shape& shape, const PipelineCut& cut,
                    CutCosts* costs) {
  for (uint32_t place = 0; place < shape.pipeline; ++place) {
    StageLoad load;
    PassTime pass;
    const DeviceType& device = scene.cluster.types[cut.stages[place].type];
    for (size_t at = place; at < cut.stages.size(); at += shape.pipeline) {
      for (uint32_t layer = cut.stages[at].begin; layer < cut.stages[at].end; ++layer) {
        load.Add(scene, scene.layers[layer], shape);
        pass.Add(PassOf(scene, scene.layers[layer], device, shape));
      }
      costs->times[at].after = 0;
    }
    StageCost cost = CostFrom(scene, shape, cut.stages[place], load, pass);
    cost.memory.each_in_flight /= shape.virtual_stages;
    costs->times[place].after = cost.after;
    costs->communication += cost.exchange;
    costs->bytes.push_back(
        cost.memory.BytesFor(MicroBatchOf(scene, shape), InFlightOf(shape, place)));
  }
}

}  // namespace

CutSearch CutPipeline(const Scene& scene, const PassTable& passes, const Shape& shape, double below,
                      double slack, uint64_t* budget) {
  uint32_t stages = 0;
  for (const uint32_t count : scene.counts) stages += StagesOf(count, shape);
  if (shape.pipeline > scene.layers.size() || stages < shape.pipeline) return {.bound = kNever};
  return CutRun(scene, passes, shape, budget).Run(below, slack);
}

double RoomOf(const Scene& scene, const Shape& shape) {
  std::vector<double> rooms;
  for (size_t type = 0; type < scene.counts.size(); ++type) {
    const uint32_t stages = std::min(StagesOf(scene.counts[type], shape), shape.pipeline);
    rooms.insert(rooms.end(), stages, static_cast<double>(scene.cluster.types[type].memory));
  }
  std::sort(rooms.rbegin(), rooms.rend());
  rooms.resize(std::min<size_t>(rooms.size(), shape.pipeline));
  return std::accumulate(rooms.begin(), rooms.end(), 0.0);
}

StageCost CostOfStage(const Scene& scene, const Shape& shape, const CutStage& stage) {
  StageLoad load;
  PassTime pass;
  const DeviceType& device = scene.cluster.types[stage.type];
  for (uint32_t layer = stage.begin; layer < stage.end; ++layer) {
    load.Add(scene, scene.layers[layer], shape);
    pass.Add(PassOf(scene, scene.layers[layer], device, shape));
  }
  return CostFrom(scene, shape, stage, load, pass);
}

double ClosedSeconds(const Scene& scene, const Shape& shape, const PipelineCut& cut) {
  double first = 0;
  double sum = 0;
  for (const CutStage& stage : cut.stages) {
    const StageCost cost = CostOfStage(scene, shape, stage);
    first = std::max(first, (shape.micro_batches - 1) * cost.pass + cost.after);
    sum += cost.pass + 2 * cost.transfer;
  }
  return first + sum;
}

CutCosts CostsOfCut(const Scene& scene, const Shape& shape, const PipelineCut& cut) {
  CutCosts costs;
  for (const CutStage& stage : cut.stages) {
    const StageCost cost = CostOfStage(scene, shape, stage);
    costs.times.push_back(TimeOf(cost));
    costs.communication += shape.micro_batches * cost.sums;
    if (shape.virtual_stages > 1) continue;
    const auto place = static_cast<uint32_t>(costs.bytes.size());
    costs.bytes.push_back(
        cost.memory.BytesFor(MicroBatchOf(scene, shape), InFlightOf(shape, place)));
    costs.communication += cost.exchange;
  }
  if (shape.virtual_stages > 1) AddInterleaved(scene, shape, cut, &costs);
  return costs;
}

StageTime TimeOf(const StageCost& cost) {
  return {.forward = cost.forward,
          .backward = cost.pass - cost.forward,
          .transfer = cost.transfer,
          .weight = cost.weight,
          .after = cost.after};
}

}  // namespace paceline::plan

#pragma once

// The cost of a part of the model on a device: seconds of its passes, bytes of memory, and the
// exchange of its gradients.
//
// A forward pass through a layer takes `layer.flops ÷ type.flops + saved ÷ bandwidth` seconds for
// each sample, and `bytes of the parameters ÷ bandwidth + launch` once. `saved` is in bytes. The
// first term is for matrix products, which are bound by arithmetic. The second is for element-wise
// operations, which are bound by memory and write the saved values. Only three constants of a
// device type are fitted: flops, bandwidth, launch. A backward pass counts as two forward passes,
// and as three if it computes the whole forward pass again. Selective recomputation adds the
// element-wise operations whose results were not kept, and the products that the layer says.
//
// If sequences are divided, each sum over the ranks of a layer becomes a scatter and a gather,
// which send as many bytes. What is saved is memory: what was whole on each rank is divided. Only
// the element-wise operations on it take less time.

#include <cstdint>
#include <limits>

#include "paceline/data/speed_model.h"
#include "paceline/plan/scene.h"

namespace paceline::plan {

// Seconds of an impossible step.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct PassTime {
  LinearTime forward;  // seconds for n samples
  LinearTime backward;
  LinearTime weight;  // the part of backward for the gradients of weights
  LinearTime sums;    // the part of forward and backward for sums over ranks that share the layer
  double SecondsFor(double samples) const {
    return forward.SecondsFor(samples) + backward.SecondsFor(samples);
  }
  void Add(const PassTime& other, double times = 1);
  // Half of the time is in each pass.
  void AddEdge(const LinearTime& edge);
};

PassTime PassOf(const Scene& scene, const LayerRow& layer, const DeviceType& type,
                const Shape& shape);

// Consecutive layers of one stage, as one rank of it holds them. Grows by one layer at a time.
struct StageLoad {
  uint32_t layers = 0;
  double parameters = 0;       // number of parameters
  double copied = 0;           // of them, those that another stage has too
  double kept = 0;             // bytes a sample that are kept between both passes
  double parameters_most = 0;  // of one layer
  double again_most = 0;       // bytes a sample of one layer that the backward pass computes again
  double edge = 0;  // bytes a sample of the output that is gathered where divided sequences end
  // `count` layers of the row. Of the shape, `data`, `shard` and `micro_batches` are not used.
  void Add(const Scene& scene, const LayerRow& layer, const Shape& shape, uint32_t count = 1);
};

// All layers of the model.
StageLoad WholeModel(const Scene& scene, const Shape& shape);

// Where divided sequences begin, the backward pass gathers them; where they end, the forward pass
// does. Each stage, or chunk of one, has both ends. Zero if sequences are not divided.
LinearTime EdgeTime(const Scene& scene, const StageLoad& load, const Shape& shape);

// Memory of a rank that holds `load`, in bytes: a fixed part, a part for each sample of a
// micro-batch in flight, and a part for each sample of the micro-batch at work.
struct StageMemory {
  double fixed = 0;
  double each_in_flight = 0;  // a sample
  double at_work = 0;         // a sample
  double BytesFor(double samples, uint32_t in_flight) const {
    return fixed + samples * (each_in_flight * in_flight + at_work);
  }
};
StageMemory MemoryOf(const Scene& scene, const StageLoad& load, const Shape& shape);

// The part of the exchange of gradients (and, with shards, of parameters) in a step that the passes
// of `micro_batch_seconds` do not hide.
double ExchangeSeconds(const Scene& scene, const StageLoad& load, const Shape& shape,
                       double micro_batch_seconds);
double OptimizerSeconds(const Scene& scene, const StageLoad& load, const DeviceType& type,
                        const Shape& shape);

// The link that `ranks` neighbouring ranks use: within a node, or between nodes.
const Link& LinkOf(const Scene& scene, uint32_t ranks);

// The least share of the backward pass in all passes of a layer. Selective recomputation adds
// little to two thirds.
inline double BackwardShare(const Shape& shape) {
  return shape.recompute == static_cast<uint32_t>(Recompute::kFull) ? 0.75 : 2.0 / 3;
}

}  // namespace paceline::plan

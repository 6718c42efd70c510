#include "paceline/plan/cost.h"

#include <algorithm>

#include "paceline/plan/collective.h"

namespace paceline::plan {
namespace {

double Divided(double whole, double part, uint32_t by) { return whole - part + part / by; }

// The fixed cost of an exchange in a ring of n ranks, and its cost for each byte.
LinearTime SumOver(uint32_t ranks, const Link& link) {
  const double start = AllReduceSeconds(0, ranks, link);
  return {.fixed = start, .per_sample = AllReduceSeconds(1, ranks, link) - start};
}

void AddScaled(LinearTime& to, const LinearTime& from, double factor) {
  to.fixed += from.fixed * factor;
  to.per_sample += from.per_sample * factor;
}

}  // namespace

void PassTime::Add(const PassTime& other, double times) {
  AddScaled(forward, other.forward, times);
  AddScaled(backward, other.backward, times);
  AddScaled(sums, other.sums, times);
}

PassTime PassOf(const Scene& scene, const LayerRow& layer, const DeviceType& type,
                const Shape& shape) {
  const TensorSplit split = layer.tensor.value_or(TensorSplit{});
  const auto parts = shape.tensor;
  const double flops = Divided(layer.flops, split.flops, parts);
  const auto saved =
      Divided(static_cast<double>(layer.saved), static_cast<double>(split.saved), parts);
  const auto parameters =
      Divided(static_cast<double>(layer.parameters), static_cast<double>(split.parameters), parts);
  const LinearTime compute = {
      .fixed = parameters * scene.bytes.compute / type.bandwidth + type.launch,
      .per_sample = flops / type.flops + saved / type.bandwidth};
  LinearTime exchange;
  if (parts > 1 && split.exchanges > 0) {
    const LinearTime sum = SumOver(parts, LinkOf(scene, parts));
    exchange = {.fixed = sum.fixed * split.exchanges,
                .per_sample = sum.per_sample * split.exchanges * static_cast<double>(layer.output)};
  }
  PassTime pass;
  AddScaled(pass.forward, compute, 1);
  AddScaled(pass.forward, exchange, 1);
  const double again = shape.recompute != 0 ? 1 : 0;
  AddScaled(pass.backward, compute, 2 + again);
  AddScaled(pass.backward, exchange, 1 + again);
  AddScaled(pass.sums, exchange, 2 + again);
  if (shape.shard != 0 && shape.pipeline == 1) {
    // Gathered shards are copied into whole parameters before each pass, and gradients are copied
    // out of whole ones: a read and a write each. A pipeline does this once a step.
    const double copy = 2 * parameters / type.bandwidth;
    pass.forward.fixed += copy * scene.bytes.compute;
    pass.backward.fixed += copy * (scene.bytes.compute + scene.bytes.gradient);
  }
  return pass;
}

void StageLoad::Add(const LayerRow& layer, uint32_t tensor, uint32_t count) {
  const TensorSplit split = layer.tensor.value_or(TensorSplit{});
  const double own_parameters =
      Divided(static_cast<double>(layer.parameters), static_cast<double>(split.parameters), tensor);
  const double own_saved =
      Divided(static_cast<double>(layer.saved), static_cast<double>(split.saved), tensor);
  layers += count;
  parameters += own_parameters * count;
  saved += own_saved * count;
  outputs += static_cast<double>(layer.output) * count;
  parameters_most = std::max(parameters_most, own_parameters);
  saved_most = std::max(saved_most, own_saved);
}

StageLoad WholeModel(const Scene& scene, uint32_t tensor) {
  StageLoad load;
  for (const LayerRow& row : scene.rows) load.Add(row, tensor, row.count);
  return load;
}

StageMemory MemoryOf(const Scene& scene, const StageLoad& load, const Shape& shape) {
  const ParameterBytes& bytes = scene.bytes;
  const double kept = static_cast<double>(bytes.weight) + bytes.gradient + bytes.optimizer;
  StageMemory memory;
  if (shape.shard != 0 && shape.pipeline > 1) {
    // In a pipeline, micro-batches are in flight during the whole step, so parameters and gradients
    // stay whole during it.
    memory.fixed =
        load.parameters * kept / shape.data + load.parameters * (bytes.compute + bytes.gradient);
  } else if (shape.shard != 0) {
    // Only the layer at work and the one that is fetched ahead are whole.
    memory.fixed = load.parameters * kept / shape.data +
                   2 * load.parameters_most * (bytes.compute + bytes.gradient);
  } else {
    memory.fixed = load.parameters * kept;
    if (scene.casts) memory.fixed += load.parameters * bytes.compute;      // autocast's copies
    if (shape.data > 1) memory.fixed += load.parameters * bytes.gradient;  // buckets
  }
  if (shape.recompute != 0) {
    memory.each_in_flight = load.outputs;
    memory.at_work = load.saved_most;
  } else {
    memory.each_in_flight = load.saved;
  }
  return memory;
}

const Link& LinkOf(const Scene& scene, uint32_t ranks) {
  return ranks <= scene.cluster.node ? scene.cluster.inner : scene.cluster.outer;
}

// Gradients are exchanged layer by layer during the backward pass of the last micro-batch. Two
// parts are not hidden: the last layer's exchange, and whatever takes longer than that pass. With
// shards, each micro-batch gathers the parameters for both passes, and hides that in the same way.
// In a pipeline, only the first forward pass of a step gathers.
double ExchangeSeconds(const Scene& scene, const StageLoad& load, const Shape& shape,
                       double micro_batch_seconds) {
  if (shape.data < 2 || load.layers == 0) return 0;
  const uint32_t neighbours = shape.data * shape.tensor;
  const Link& link = LinkOf(scene, neighbours);
  const double backward = micro_batch_seconds * BackwardShare(shape);
  const double forward = micro_batch_seconds - backward;
  const double others = scene.cluster.overlap * (load.layers - 1.0) / load.layers;
  const auto exposed = [&](double seconds, double window) {
    return std::max(seconds / load.layers, seconds - window * others);
  };
  const double gradients = load.parameters * scene.bytes.gradient;
  const double starts = load.layers - 1.0;  // a collective a layer
  if (shape.shard == 0) {
    return exposed(AllReduceSeconds(gradients, shape.data, link), backward);
  }
  const double parameters = load.parameters * scene.bytes.compute;
  const double gather = AllGatherSeconds(parameters, shape.data, link) +
                        starts * AllGatherSeconds(0, shape.data, link);
  const double scatter = ReduceScatterSeconds(gradients, shape.data, link) +
                         starts * ReduceScatterSeconds(0, shape.data, link);
  if (shape.pipeline > 1) return exposed(gather, forward) + exposed(scatter, backward);
  return shape.micro_batches * (exposed(gather, forward) + exposed(gather + scatter, backward));
}

double OptimizerSeconds(const Scene& scene, const StageLoad& load, const DeviceType& type,
                        const Shape& shape) {
  // Weights and states are read and written, gradients read.
  const double bytes =
      2.0 * scene.bytes.weight + scene.bytes.gradient + 2.0 * scene.bytes.optimizer;
  const double parts = shape.shard != 0 ? shape.data : 1;
  const double step = load.parameters * bytes / (parts * type.bandwidth);
  if (shape.shard == 0 || shape.pipeline == 1) return step;
  // Parameters are copied as they are gathered, and gradients before they are scattered.
  return step + 2 * load.parameters * (scene.bytes.compute + scene.bytes.gradient) / type.bandwidth;
}

}  // namespace paceline::plan

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

// The bytes of one layer on one rank, for each sample.
struct LayerBytes {
  double saved = 0;   // by the forward pass, without recomputation
  double kept = 0;    // between both passes
  double again = 0;   // computed again by the backward pass
  double output = 0;  // as the ranks hold it between layers
};

// The parameters of a layer on one rank.
double ParametersOf(const LayerRow& layer, const Shape& shape) {
  const auto divided = static_cast<double>(layer.tensor ? layer.tensor->parameters : 0);
  const auto copied = static_cast<double>(shape.pipeline > 1 ? layer.copied : 0);
  return Divided(static_cast<double>(layer.parameters), divided, shape.tensor) + copied;
}

bool Divides(const LayerRow& layer, const Shape& shape) {
  return shape.tensor > 1 && shape.sequence != 0 && layer.tensor && layer.tensor->sequence;
}

LayerBytes BytesOf(const Scene& scene, const LayerRow& layer, const Shape& shape) {
  const TensorSplit split = layer.tensor.value_or(TensorSplit{});
  const double tokens = Divides(layer, shape) ? shape.tensor : 1;  // ranks that divide them
  const double gathered = Divides(layer, shape) ? static_cast<double>(split.sequence->gathered) : 0;
  const auto saved = static_cast<double>(layer.saved);
  const auto divided = static_cast<double>(split.saved);
  LayerBytes bytes;
  bytes.output = static_cast<double>(layer.output) / tokens;
  bytes.saved = divided / shape.tensor + gathered + (saved - divided - gathered) / tokens;
  bytes.kept = bytes.saved;
  if (shape.recompute == static_cast<uint32_t>(Recompute::kFull)) {
    bytes.kept = bytes.output;
    bytes.again = bytes.saved;
  } else if (shape.recompute != 0 && layer.selective) {
    const auto kept = static_cast<double>(layer.selective->kept);
    const auto kept_divided = static_cast<double>(split.kept);
    // A library's layers keep whole summands, where ours divide the tokens of their sums.
    const double parts = scene.execution->has_own_layers ? tokens : 1;
    bytes.kept = kept_divided / shape.tensor + (kept - kept_divided) / parts;
    bytes.again = std::max(0.0, bytes.saved - bytes.kept);
    bytes.kept += bytes.output;
    // The result of a sum over ranks is kept beside this rank's summand.
    if (shape.tensor > 1 && !scene.execution->has_own_layers) {
      bytes.kept += split.exchanges * bytes.output;
    }
    // It keeps no more than what is needed without recomputation.
    bytes.kept = std::min(bytes.kept, bytes.saved + bytes.output);
  }
  return bytes;
}

// The part of an all-reduce's time (`sum`) for which a rank waits, if the all-reduce runs beside
// matrix products that take `seconds` a sample. The all-reduce is cut into as many parts as there
// are ranks, and nothing hides one of them.
LinearTime Shown(const LinearTime& sum, double seconds, uint32_t ranks) {
  return {.fixed = sum.fixed / ranks,
          .per_sample = std::max(sum.per_sample / ranks, sum.per_sample - seconds)};
}

// Whether parameters are gathered for each pass, and not once a step.
bool GathersEachPass(const Scene& scene, const Shape& shape) {
  return shape.shard != 0 && shape.pipeline == 1 && !scene.execution->divides_optimizer_alone;
}

// The link of an exchange between replicas.
Link ExchangeLinkOf(const Scene& scene, const Shape& shape, uint32_t neighbours) {
  Link link = LinkOf(scene, neighbours);
  if (neighbours <= scene.cluster.node || !scene.execution->uses_all_links) return link;
  const uint32_t of_a_node = std::max(1u, std::min(shape.data, scene.cluster.node / shape.tensor));
  link.bandwidth = std::min(scene.cluster.inner.bandwidth, of_a_node * link.bandwidth);
  return link;
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
  AddScaled(weight, other.weight, times);
}

void PassTime::AddEdge(const LinearTime& edge) {
  AddScaled(forward, edge, 0.5);
  AddScaled(backward, edge, 0.5);
  AddScaled(sums, edge, 1);
}

PassTime PassOf(const Scene& scene, const LayerRow& layer, const DeviceType& type,
                const Shape& shape) {
  const TensorSplit split = layer.tensor.value_or(TensorSplit{});
  const auto parts = shape.tensor;
  const double flops = Divided(layer.flops, split.flops, parts);
  const LayerBytes bytes = BytesOf(scene, layer, shape);
  const double parameters = ParametersOf(layer, shape);
  const LinearTime compute = {
      .fixed = parameters * scene.bytes.compute / type.bandwidth + type.launch,
      .per_sample = flops / type.flops + scene.execution->moved * bytes.saved / type.bandwidth};
  LinearTime exchange;
  const uint32_t exchanges = Divides(layer, shape) ? split.sequence->exchanges : split.exchanges;
  if (parts > 1 && exchanges > 0) {
    const LinearTime sum = SumOver(parts, LinkOf(scene, parts));
    exchange = {.fixed = sum.fixed * exchanges,
                .per_sample = sum.per_sample * exchanges * static_cast<double>(layer.output)};
    if (scene.execution->hides_sums) exchange = Shown(exchange, flops / type.flops, parts);
  }
  PassTime pass;
  AddScaled(pass.forward, compute, 1);
  AddScaled(pass.forward, exchange, 1);
  AddScaled(pass.backward, compute, 2);
  if (layer.parameters + layer.copied > 0) pass.weight.per_sample = flops / type.flops;
  double again = 0;  // exchanges of the forward pass that the backward pass repeats
  if (shape.recompute == static_cast<uint32_t>(Recompute::kFull)) {
    again = 1;
    AddScaled(pass.backward, compute, 1);
  } else if (shape.recompute != 0 && layer.selective) {
    // Scattered sums are kept, and gathered tensors are not.
    again = Divides(layer, shape) && !scene.execution->has_own_layers ? 0.5 : 0;
    const double part = layer.flops > 0 ? layer.selective->flops / layer.flops : 0;
    pass.backward.fixed += type.launch;
    pass.backward.per_sample +=
        flops * part / type.flops + scene.execution->moved * bytes.again / type.bandwidth;
  }
  AddScaled(pass.backward, exchange, 1 + again);
  AddScaled(pass.sums, exchange, 2 + again);
  if (GathersEachPass(scene, shape)) {
    // Gathered shards are copied into whole parameters before each pass, and gradients are copied
    // out of whole ones: a read and a write each. A pipeline does this once a step.
    const double copy = 2 * parameters / type.bandwidth;
    pass.forward.fixed += copy * scene.bytes.compute;
    pass.backward.fixed += copy * (scene.bytes.compute + scene.bytes.gradient);
  }
  return pass;
}

void StageLoad::Add(const Scene& scene, const LayerRow& layer, const Shape& shape, uint32_t count) {
  const double own_parameters = ParametersOf(layer, shape);
  const LayerBytes bytes = BytesOf(scene, layer, shape);
  layers += count;
  parameters += own_parameters * count;
  if (shape.pipeline > 1) copied += static_cast<double>(layer.copied) * count;
  kept += bytes.kept * count;
  parameters_most = std::max(parameters_most, own_parameters);
  again_most = std::max(again_most, bytes.again);
  if (Divides(layer, shape)) edge = std::max(edge, static_cast<double>(layer.output));
}

StageLoad WholeModel(const Scene& scene, const Shape& shape) {
  StageLoad load;
  for (const LayerRow& row : scene.rows) load.Add(scene, row, shape, row.count);
  return load;
}

LinearTime EdgeTime(const Scene& scene, const StageLoad& load, const Shape& shape) {
  if (load.edge == 0 || scene.execution->has_own_layers) return {};
  const Link& link = LinkOf(scene, shape.tensor);
  const double start = AllGatherSeconds(0, shape.tensor, link);
  return {.fixed = 2 * start,
          .per_sample = 2 * (AllGatherSeconds(load.edge, shape.tensor, link) - start)};
}

StageMemory MemoryOf(const Scene& scene, const StageLoad& load, const Shape& shape) {
  const ParameterBytes& bytes = scene.bytes;
  const double kept = static_cast<double>(bytes.weight) + bytes.gradient + bytes.optimizer;
  StageMemory memory;
  const bool has_buffers = shape.data > 1 && !scene.execution->divides_optimizer_alone;
  if (shape.shard != 0 && scene.execution->divides_optimizer_alone) {
    const double gradients = scene.execution->divides_gradients ? shape.data : 1;
    memory.fixed = load.parameters * ((kept - bytes.gradient) / shape.data + bytes.compute +
                                      bytes.gradient / gradients);
  } else if (shape.shard != 0 && shape.pipeline > 1) {
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
    if (scene.casts) memory.fixed += load.parameters * bytes.compute;   // autocast's copies
    if (has_buffers) memory.fixed += load.parameters * bytes.gradient;  // buckets
  }
  memory.each_in_flight = load.kept;
  memory.at_work = load.again_most;
  return memory;
}

const Link& LinkOf(const Scene& scene, uint32_t ranks) {
  return ranks <= scene.cluster.node ? scene.cluster.inner : scene.cluster.outer;
}

namespace {

// Gradients are exchanged layer by layer during the backward pass of the last micro-batch. Two
// parts are not hidden: the last layer's exchange, and whatever takes longer than that pass. With
// shards, each micro-batch gathers the parameters for both passes, and hides that in the same way.
// In a pipeline, only the first forward pass of a step gathers.
double ReplicaExchange(const Scene& scene, const StageLoad& load, const Shape& shape,
                       double micro_batch_seconds) {
  if (shape.data < 2 || load.layers == 0) return 0;
  const uint32_t neighbours = shape.data * shape.tensor;
  const Link link = ExchangeLinkOf(scene, shape, neighbours);
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
  if (!GathersEachPass(scene, shape)) {
    return exposed(gather, forward) + exposed(scatter, backward);
  }
  return shape.micro_batches * (exposed(gather, forward) + exposed(gather + scatter, backward));
}

}  // namespace

double ExchangeSeconds(const Scene& scene, const StageLoad& load, const Shape& shape,
                       double micro_batch_seconds) {
  const double replicas = ReplicaExchange(scene, load, shape, micro_batch_seconds);
  if (load.copied == 0 || scene.devices < 2) return replicas;
  // The gradients of a shared weight's two copies are summed after all passes of the step. No
  // computation runs beside that exchange, so its whole time counts.
  const double parts = shape.shard != 0 ? shape.data : 1;
  const double copies = load.copied / parts * scene.bytes.gradient;
  return replicas + AllReduceSeconds(copies, 2, LinkOf(scene, scene.devices));
}

double OptimizerSeconds(const Scene& scene, const StageLoad& load, const DeviceType& type,
                        const Shape& shape) {
  // Weights and states are read and written, gradients read.
  const double bytes =
      2.0 * scene.bytes.weight + scene.bytes.gradient + 2.0 * scene.bytes.optimizer;
  const double parts = shape.shard != 0 ? shape.data : 1;
  const double step = load.parameters * bytes / (parts * type.bandwidth);
  const bool copies = !scene.execution->divides_optimizer_alone;
  if (shape.shard == 0 || shape.pipeline == 1 || !copies) return step;
  // Parameters are copied as they are gathered, and gradients before they are scattered.
  return step + 2 * load.parameters * (scene.bytes.compute + scene.bytes.gradient) / type.bandwidth;
}

}  // namespace paceline::plan

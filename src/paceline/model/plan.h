#pragma once

// Parallel plans: the data of a model and of a cluster, and how the model runs on the cluster.
// docs/formats/parallel_plan.md specifies their JSON and the meaning of each field.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline {

// How sequence parallelism divides the parts of a layer that tensor parallelism leaves whole: each
// rank has a part of the tokens. Where ranks divide weights, a gather and a scatter take the place
// of each sum.
struct SequenceSplit {
  uint32_t exchanges = 0;  // gathers in a forward pass, and as many scatters, of `output` each
  uint64_t gathered = 0;   // bytes of gathered tensors among `saved`; they stay whole
};

// How tensor parallelism divides a layer.
struct TensorSplit {
  uint64_t parameters = 0;  // of the layer's, those that are divided
  double flops = 0;
  uint64_t saved = 0;
  uint32_t exchanges = 0;  // sums of `output` over the tensor ranks in a forward pass
  uint64_t kept = 0;       // of SelectiveKeep::kept
  std::optional<SequenceSplit> sequence = {};
};

// What selective recomputation keeps of a layer beside its input: the results of products with
// weights and of attention kernels. The backward pass computes all else again.
struct SelectiveKeep {
  uint64_t kept = 0;  // bytes
  double flops = 0;   // of the layer's, those that are computed again
};

// Consecutive equal layers. All numbers are for one layer and, except the parameters, for one
// sample.
struct LayerRow {
  std::string name;  // the module's qualified name, "{}" for the number of the repetition
  uint32_t first = 0;
  uint32_t count = 1;
  double flops = 0;         // forward
  uint64_t parameters = 0;  // how many
  uint64_t saved = 0;       // bytes kept for the backward pass
  uint64_t output = 0;      // bytes that the next layer takes over
  std::string cut;          // why no stage may end after it; "": it may
  std::optional<TensorSplit> tensor;
  std::optional<SelectiveKeep> selective = {};
  // Parameters of the first layer that this one uses too. In a pipeline it has a copy of them.
  uint64_t copied = 0;
};

struct ParameterBytes {
  uint32_t weight = 4;
  uint32_t gradient = 4;
  uint32_t optimizer = 8;
  uint32_t compute = 4;  // while it is used
};

struct ModelSummary {
  std::string name;
  std::string precision = "fp32";
  ParameterBytes bytes;
  std::vector<LayerRow> rows;
  std::string no_pipeline;  // why there is none; "": there may be
  std::string no_tensor;
  uint32_t tensor_divides = 0;  // degrees of tensor parallelism divide it; 0: any
  // Degrees of tensor parallelism that also divide sequences divide it: the tokens of a sample.
  uint32_t sequence_divides = 0;  // 0: any
};

// What the backward pass computes again. The values are those of the axis `recompute`, whose
// numbers 0 and 1 are older than `kSelective`.
enum class Recompute : uint32_t { kNone = 0, kFull = 1, kSelective = 2 };

struct DeviceType {
  std::string name;
  double flops = 0;      // a second, as programs reach them
  double bandwidth = 0;  // bytes a second of its memory
  double launch = 0;     // seconds of one pass through a layer beside its arithmetic
  uint64_t memory = 0;   // bytes that a job may use
  std::string source;
};

struct Link {
  double seconds = 0;    // of a message without content
  double bandwidth = 0;  // bytes a second, of one device
};

struct DeviceRun {
  uint32_t type = 0;  // index in Cluster::types
  uint32_t count = 0;
};

struct Cluster {
  std::vector<DeviceType> types;
  std::vector<DeviceRun> runs;  // in the order of the ranks
  uint32_t node = 1;            // devices of a node
  Link inner;                   // within a node
  Link outer;
  double overlap = 1;  // of an exchange, the part that passes through layers can hide
};

// Layers, counted with their repetitions.
struct LayerRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct PlanStage {
  uint32_t begin = 0;  // as in LayerRange
  uint32_t end = 0;
  std::vector<uint32_t> ranks;  // data × tensor; the tensor ranks of a replica are neighbours
  std::vector<LayerRange> later = {};  // further chunks of layers, if stages are interleaved
};

struct PlanCost {
  double step = 0;  // seconds
  double compute = 0;
  double communication = 0;      // what compute does not hide
  double bubble = 0;             // waiting in the pipeline, and for slower replicas
  std::vector<uint64_t> memory;  // bytes, of a rank of each stage at most
  // Of the model's own arithmetic, without what is recomputed: operations a second and device, and
  // their share of the devices' peaks (MFU). None: not known, as in plans of older versions; no
  // share if a device is not in the catalogue.
  std::optional<double> device_flops = {};
  std::optional<double> utilization = {};
};

struct RejectedPlan {
  std::string plan;
  std::optional<double> step;  // none: it does not fit
  std::string because;
};

struct ParallelPlan {
  std::string model;  // digest of the summary
  uint64_t global_batch = 0;
  uint32_t data = 1;
  uint32_t tensor = 1;
  bool sequence = false;  // tensor ranks divide sequences, too
  bool shard = false;
  Recompute recompute = Recompute::kNone;
  uint32_t micro_batches = 1;
  std::string schedule = "none";
  std::vector<PlanStage> stages;
  std::vector<uint64_t> shares;  // samples of each replica
  std::vector<uint32_t> unused;  // ranks
  PlanCost predicted;
  double bound = 0;  // seconds
  std::string because;
  std::vector<RejectedPlan> rejected;
  // What carrying it out needs that paceline or the model's library does not have; empty: nothing.
  std::vector<std::string> needs;
  // Whose execution is predicted, by name; "": that of paceline.
  std::string profile = {};
};

}  // namespace paceline

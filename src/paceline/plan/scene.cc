#include "paceline/plan/scene.h"

#include <algorithm>
#include <utility>

#include "paceline/base/text.h"

namespace paceline::plan {
namespace {

Failure NoScene(std::string why) {
  return {.kind = FailureKind::kInvalid, .message = std::move(why)};
}

Result<void> Unfold(const ModelSummary& summary, Scene& scene) {
  size_t total = 0;
  for (const LayerRow& row : summary.rows) total += row.count;
  if (total == 0) return NoScene("the model has no layer");
  if (total > kLayersMax) {
    return NoScene(Concat("the model has ", total, " layers, and ", kLayersMax, " is the most"));
  }
  scene.rows = summary.rows;
  for (const LayerRow& row : summary.rows) {
    for (uint32_t i = 0; i < row.count; ++i) {
      LayerRow layer = row;
      layer.first = row.first + i;
      layer.count = 1;
      scene.layers.push_back(std::move(layer));
    }
  }
  return {};
}

Result<void> CountDevices(Scene& scene) {
  const Cluster& cluster = scene.cluster;
  scene.counts.assign(cluster.types.size(), 0);
  scene.ranks.resize(cluster.types.size());
  for (const DeviceRun& run : cluster.runs) {
    if (run.type >= cluster.types.size()) return NoScene("a group of devices has no type");
    for (uint32_t i = 0; i < run.count; ++i) scene.ranks[run.type].push_back(scene.devices++);
    scene.counts[run.type] += run.count;
  }
  if (scene.devices == 0) return NoScene("the cluster has no device");
  for (const DeviceType& type : cluster.types) {
    if (!(type.flops > 0) || !(type.bandwidth > 0) || type.launch < 0) {
      return NoScene(Concat(type.name, " needs flops and bandwidth above 0"));
    }
  }
  for (const Link* link : {&cluster.inner, &cluster.outer}) {
    if (scene.devices > 1 && !(link->bandwidth > 0)) {
      return NoScene("the links need a bandwidth above 0");
    }
  }
  return {};
}

}  // namespace

Result<Scene> MakeScene(const ModelSummary& summary, const Cluster& cluster,
                        const PlanWishes& wishes) {
  Scene scene;
  scene.cluster = cluster;
  scene.bytes = summary.bytes;
  scene.casts = summary.bytes.compute != summary.bytes.weight;
  scene.no_pipeline = summary.no_pipeline;
  scene.no_tensor = summary.no_tensor;
  scene.tensor_divides = summary.tensor_divides;
  scene.sequence_divides = summary.sequence_divides;
  scene.global_batch = wishes.global_batch;
  scene.execution = wishes.execution;
  scene.looks_at_chunks = wishes.looks_at_chunks;
  if (wishes.global_batch == 0) return NoScene("the global batch has at least one sample");
  RETURN_IF_ERROR(Unfold(summary, scene));
  RETURN_IF_ERROR(CountDevices(scene));
  if (scene.no_pipeline.empty() && scene.layers.size() > kPipelineLayersMax) {
    scene.no_pipeline = Concat("cuts are searched for up to ", kPipelineLayersMax,
                               " layers, and this model has ", scene.layers.size());
  }
  return scene;
}

}  // namespace paceline::plan

#include "paceline/core/world/room.h"

#include <algorithm>
#include <variant>

#include "paceline/base/fnv.h"
#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/job_state.h"
#include "paceline/plan/allocation.h"
#include "paceline/plan/json.h"
#include "paceline/plan/search.h"

namespace paceline::core {

namespace {

constexpr size_t kAnswersMax = 64;

// Of all devices that nodes have reported, those with the most memory. Null: no node has reported
// devices.
const NodeDevices* LargestDevices(const JobState& state) {
  const NodeDevices* best = nullptr;
  for (const auto& [id, node] : state.nodes) {
    for (const NodeDevices& devices : node.devices) {
      if (best == nullptr || devices.memory > best->memory) best = &devices;
    }
  }
  return best;
}

void AddTo(std::vector<NodeDevices>* all, const NodeDevices& devices, uint32_t count) {
  if (count == 0) return;
  const bool is_same =
      !all->empty() && all->back().type == devices.type && all->back().memory == devices.memory;
  if (!is_same) all->push_back({devices.type, devices.memory, 0});
  all->back().count += count;
}

// The devices of these nodes in the order of their ranks; empty if no node has reported any.
std::vector<NodeDevices> DevicesOf(const JobState& state, const std::vector<Candidate>& seats) {
  const NodeDevices* largest = LargestDevices(state);
  if (largest == nullptr) return {};
  std::vector<NodeDevices> all;
  for (const Candidate& seat : seats) {
    uint32_t left = seat.slots;
    const NodeState* node = state.Find(seat.node);
    for (const NodeDevices& devices :
         node == nullptr ? std::vector<NodeDevices>{} : node->devices) {
      const uint32_t count = std::min(left, devices.count);
      AddTo(&all, devices, count);
      left -= count;
    }
    AddTo(&all, *largest, left);
  }
  return all;
}

std::map<std::string, uint32_t> CountsOf(const std::vector<NodeDevices>& devices) {
  std::map<std::string, uint32_t> counts;
  for (const NodeDevices& one : devices) counts[one.type] += one.count;
  return counts;
}

// Whether each type has as many devices as in the world of the newest plan.
bool HasAllOfLast(const JobState& state, const std::vector<NodeDevices>& devices) {
  const auto last = plan::ReadCluster(state.plan->cluster);
  if (!last.ok()) return true;
  std::map<std::string, uint32_t> counts = CountsOf(devices);
  std::map<std::string, uint32_t> needed;
  for (const DeviceRun& run : last->runs) needed[last->types[run.type].name] += run.count;
  return std::all_of(needed.begin(), needed.end(),
                     [&](const auto& one) { return counts[one.first] >= one.second; });
}

std::string WhyNothingFits(const JobState& state, const std::vector<NodeDevices>& devices) {
  const auto model = plan::ReadSummary(state.model->summary);
  const auto wishes = plan::ReadWishes(state.model->wishes);
  if (!model.ok() || !wishes.ok()) return "";
  plan::Allocation allocation;
  for (const NodeDevices& one : devices) allocation.push_back({one.type, one.memory, one.count});
  const Cluster cluster = plan::ClusterOf(allocation);
  if (plan::Fits(*model, cluster, *wishes)) return "";
  const auto answer = plan::ChoosePlan(*model, cluster, *wishes);
  const auto* none = std::get_if<plan::NoPlan>(&answer);
  // A wish such as one replica for each rank may change with the world, so it refuses no world.
  if (none == nullptr || !none->lacks_memory) return "";
  return Concat(none->what, " (", none->where, "): ", none->why, "; what would help: ", none->fix);
}

}  // namespace

void NoteDevices(const ParallelPlanChosen& fact, JobState* state) {
  const auto cluster = plan::ReadCluster(fact.cluster);
  if (!cluster.ok() || fact.generation != state->last_world.generation) return;
  size_t run = 0;
  uint32_t used = 0;  // devices of the run that nodes before have
  for (const Seat& seat : state->last_world.seats) {
    NodeState& node = state->nodes[seat.node];
    node.devices.clear();
    uint32_t left = seat.rank_count;
    while (left > 0 && run < cluster->runs.size()) {
      const DeviceRun& at = cluster->runs[run];
      const uint32_t count = std::min(left, at.count - used);
      const DeviceType& type = cluster->types[at.type];
      AddTo(&node.devices, {type.name, type.memory, 0}, count);
      left -= count;
      used += count;
      if (used < at.count) continue;
      ++run;
      used = 0;
    }
  }
}

std::vector<Candidate> Roomiest(const JobState& state, std::vector<Candidate> nodes, size_t count) {
  const auto memory_of = [&state](const Candidate& node) {
    uint64_t bytes = 0;
    for (const NodeDevices& one : DevicesOf(state, {node})) bytes += one.memory * one.count;
    return bytes;
  };
  std::stable_sort(nodes.begin(), nodes.end(), [&](const Candidate& a, const Candidate& b) {
    return memory_of(a) > memory_of(b);
  });
  if (nodes.size() > count) nodes.resize(count);
  return nodes;
}

const std::string& Room::WhyNot(const JobState& state, const std::vector<Candidate>& seats) {
  if (!state.model.has_value() || !state.plan.has_value() || seats.empty()) return none_;
  const std::vector<NodeDevices> devices = DevicesOf(state, seats);
  if (devices.empty() || HasAllOfLast(state, devices)) return none_;
  const uint64_t model = Fnv1a(Concat(state.model->summary, "\n", state.model->wishes));
  if (model != model_ || answers_.size() >= kAnswersMax) answers_.clear();
  model_ = model;
  Devices key;
  for (const NodeDevices& one : devices) key.push_back({one.type, {one.memory, one.count}});
  const auto known = answers_.find(key);
  if (known != answers_.end()) return known->second;
  MARK("asks whether a smaller world holds the model");
  return answers_.emplace(std::move(key), WhyNothingFits(state, devices)).first->second;
}

}  // namespace paceline::core

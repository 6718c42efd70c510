#include "paceline/core/memory_told.h"

#include <algorithm>
#include <string>

#include "paceline/base/bytes_text.h"
#include "paceline/core/budget.h"

namespace paceline::core {

void NoteMemory(const Record& record, const MemoryShort& fact, JobState* state) {
  NodeState& node = state->nodes[fact.node];
  node.id = fact.node;
  node.memory_limit = std::max(node.memory_limit, fact.next_limit);
  node.memory_told = MemoryTold{.generation = fact.generation,
                                .limit = fact.memory.limit,
                                .next_limit = fact.next_limit,
                                .is_kill = fact.is_kill,
                                .saved_step = fact.saved_step,
                                .commits = state->checkpoints.commits,
                                .sentence = fact.name + " " + fact.reason,
                                .seq = record.seq};
  state->short_node = fact.node;
  if (!fact.is_kill || fact.next_limit == 0) return;
  auto& causes = state->incident.causes;
  if (state->incident.pending && causes.size() < kIncidentCausesMax) causes.push_back(record.seq);
  // The next attempt has more memory, so this failure says nothing about it.
  LiftCharge(*state);
}

const MemoryTold* MemoryToldOf(const JobState& state, const NodeState& node) {
  const bool is_of_world = node.memory_told.has_value() && state.world.has_value() &&
                           node.memory_told->generation == state.world->generation;
  return is_of_world ? &*node.memory_told : nullptr;
}

bool HurriesForMemory(const JobState& state) {
  if (!state.world.has_value() || state.incident.pending) return false;
  const NodeState* node = state.short_node.has_value() ? state.Find(*state.short_node) : nullptr;
  const MemoryTold* told = node == nullptr ? nullptr : MemoryToldOf(state, *node);
  if (told == nullptr || told->next_limit > 0 || told->is_kill) return false;
  return !IsStoredSince(state.checkpoints, told->saved_step, told->commits);
}

std::string MoreMemoryText(const JobState& state) {
  for (const Seat& seat : state.last_world.seats) {
    const NodeState* node = state.Find(seat.node);
    const bool is_it = node != nullptr && node->memory_told.has_value() &&
                       node->memory_told->generation == state.last_world.generation &&
                       node->memory_told->is_kill && node->memory_told->next_limit > 0;
    if (is_it) return node->name + " may use " + BinaryText(node->memory_told->next_limit) + " now";
  }
  return "";
}

}  // namespace paceline::core

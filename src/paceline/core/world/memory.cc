#include "paceline/core/world/memory.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "paceline/base/bytes_text.h"
#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/brain/memory.h"
#include "paceline/core/memory_told.h"
#include "paceline/core/world/free_change.h"
#include "paceline/model/memory_unit.h"

namespace paceline::core {
namespace {

// "1.2 %" of a limit.
std::string PercentText(double part) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), part < 0.001 ? "%.2f %%" : "%.1f %%", part * 100);
  return text.data();
}

std::string LimitText(const NodeMemory& memory) {
  const std::string limit = BinaryText(memory.limit);
  switch (memory.bound) {
    case MemoryBound::kNode: return "of its limit of " + limit;
    case MemoryBound::kGroup: return "of the " + limit + " that its cgroup allows";
    case MemoryBound::kHost: return "of the " + limit + " of its host, with all other programs";
    case MemoryBound::kTold:
      return "of its " + limit + " ([memory] node, which cannot be enforced here)";
  }
  return limit;
}

std::string RemedyText(const NodeMemory& memory, uint64_t most) {
  switch (memory.bound) {
    case MemoryBound::kNode:
      if (most > 0) return "that is [memory] most, so that a kill there ends the job";
      return "with [memory] most the limit would be raised";
    case MemoryBound::kGroup:
      return "its ranks need less, or the container or batch job must give more";
    case MemoryBound::kHost: return "its ranks need less, or a host with more";
    case MemoryBound::kTold: return "its ranks need less, or [memory] node must be larger";
  }
  return "";
}

std::string ForeseenText(const MemoryForeseen& event, uint64_t most) {
  const NodeMemory& memory = event.memory;
  const double part = event.grows / static_cast<double>(memory.limit);
  const std::string what = Concat(
      "uses ", BinaryText(memory.used), " ", LimitText(memory), " and grows by ", PercentText(part),
      " of that a second: the limit is reached in ", ToString(event.left));
  if (event.next_limit > 0) return what + "; it is raised to " + BinaryText(event.next_limit);
  return what + "; " + RemedyText(memory, most) +
         "; the next step that is saved goes to storage at once";
}

}  // namespace

void OnMemoryForeseen(Turn& turn, const MemoryForeseen& event) {
  const JobState& state = turn.state();
  const bool trains = state.phase == Phase::kRunning && state.world.has_value();
  if (!trains || event.generation != state.world->generation || !state.IsSeated(event.node)) return;
  const NodeState& node = *state.Find(event.node);
  const MemoryTold* told = MemoryToldOf(state, node);
  if (told != nullptr && told->limit >= event.memory.limit) return;
  MARK("memory runs out soon");
  turn.Emit(MemoryShort{.node = node.id,
                        .name = node.name,
                        .generation = event.generation,
                        .memory = event.memory,
                        .next_limit = event.next_limit,
                        .left = event.left,
                        .grows = event.grows,
                        .is_kill = false,
                        .saved_step = NewestCheckpoint(turn),
                        .reason = ForeseenText(event, state.spec.memory_most)},
            {state.world_seq});
  if (event.next_limit > 0) turn.TellSoon(node.id);
}

bool IsKilledAtMost(const JobState& state, const ExitCause& cause) {
  return cause.cgroup_oom && state.spec.memory_most > 0 &&
         cause.memory_limit >= state.spec.memory_most;
}

void RaiseAfterKill(Turn& turn, NodeId node, const RankReport& rank, RecordSeq failure) {
  const JobState& state = turn.state();
  const uint64_t limit = rank.exit.memory_limit;
  if (limit == 0 || state.spec.memory_most == 0) return;
  // A limit that was raised before, and is still the old one, cannot be raised.
  const NodeState& known = *state.Find(node);
  if (known.memory_limit > limit) return;
  const auto next = brain::LimitAfterKill(static_cast<double>(limit), std::nullopt,
                                          {.most = static_cast<double>(state.spec.memory_most)});
  if (!next.has_value()) return;
  MARK("a kill raises the limit");
  const uint64_t next_limit = WholeUnits(static_cast<uint64_t>(*next));
  turn.Emit(MemoryShort{.node = node,
                        .name = known.name,
                        .generation = rank.generation,
                        .memory = {.used = limit, .limit = limit, .bound = MemoryBound::kNode},
                        .next_limit = next_limit,
                        .left = Duration(),
                        .grows = 0,
                        .is_kill = true,
                        .saved_step = NewestCheckpoint(turn),
                        .reason = Concat("needs more than its limit of ", BinaryText(limit),
                                         ": it may use ", BinaryText(next_limit),
                                         " from now on, and the failure is not charged")},
            {failure});
  turn.TellSoon(node);
}

}  // namespace paceline::core

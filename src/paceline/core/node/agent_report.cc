// What an agent machine reports: its next deadline, and its ranks.

#include <algorithm>

#include "paceline/core/node/agent.h"

namespace paceline::core {

Instant AgentMachine::NextDeadline() const {
  Instant deadline = Instant::Max();
  const Instant unlinked_until = unlinked_since_ + spec_.timers.orphan_after;
  if (exited_) return linked_ || leaving_ || refused_ ? deadline : unlinked_until;
  for (const auto& [local, slot] : slots_) {
    if (!slot.alive) continue;
    deadline = std::min({deadline, slot.kill_at, slot.stuck_at});
  }
  if (!linked_ && !leaving_ && heard_of_time_) {
    deadline = std::min(deadline, unlinked_until);
  }
  return deadline;
}

bool AgentMachine::HasHope(Instant now) const {
  if (linked_) return true;
  return !leaving_ && !refused_ && now < unlinked_since_ + spec_.timers.orphan_after;
}

std::vector<RankReport> AgentMachine::Ranks() const {
  std::vector<RankReport> ranks;
  ranks.reserve(slots_.size());
  for (const auto& [local, slot] : slots_) {
    if (slot.spawning) {
      RankReport rank;
      rank.generation = slot.spawning_generation;
      rank.rank = slot.spawning_rank;
      rank.local_rank = local;
      ranks.push_back(rank);
    } else if (slot.process) {
      ranks.push_back(*slot.process);
    }
  }
  return ranks;
}

std::vector<RankReport> AgentMachine::RanksAt(Instant now) const {
  std::vector<RankReport> ranks = Ranks();
  for (RankReport& rank : ranks) {
    const Slot& slot = slots_.at(rank.local_rank);
    const bool is_dead = rank.state == RankReport::State::kExited && !slot.ended_at.is_max();
    rank.ended_for = is_dead ? now - slot.ended_at : Duration();
  }
  return ranks;
}

bool AgentMachine::Holds(const Assignment& assignment) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const auto& entry) {
    const Slot& slot = entry.second;
    if (slot.spawning) return slot.spawning_generation == assignment.generation;
    return slot.IsOf(assignment.generation);
  });
}

}  // namespace paceline::core

#include "paceline/model/world.h"

namespace paceline {

uint32_t World::world_size() const {
  return seats.empty() ? 0 : seats.back().first_rank + seats.back().rank_count;
}

int World::SeatOf(NodeId node) const {
  for (size_t i = 0; i < seats.size(); ++i) {
    if (seats[i].node == node) return static_cast<int>(i);
  }
  return -1;
}

std::vector<WantedRank> WantedRanks(const Assignment& assignment) {
  std::vector<WantedRank> wanted;
  if (assignment.kind != Assignment::Kind::kRun) return wanted;
  for (const Task& task : assignment.tasks) {
    wanted.push_back({task.slot, task.rank, task.generation});
  }
  for (uint32_t slot = 0; slot < assignment.rank_count; ++slot) {
    wanted.push_back({slot, Rank(assignment.first_rank + slot), assignment.generation});
  }
  return wanted;
}

std::optional<WantedRank> WantedIn(const Assignment& assignment, uint32_t slot) {
  if (assignment.kind != Assignment::Kind::kRun) return std::nullopt;
  for (const Task& task : assignment.tasks) {
    if (task.slot == slot) return WantedRank{slot, task.rank, task.generation};
  }
  if (slot >= assignment.rank_count) return std::nullopt;
  return WantedRank{slot, Rank(assignment.first_rank + slot), assignment.generation};
}

}  // namespace paceline

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

}  // namespace paceline

#pragma once

// Which nodes are in the next world, and on which seat. Pure arithmetic over candidates.
//
// Rules, in this order:
//   1. The world has as many nodes as it can: at most nodes_max, a multiple of the unit, and at
//      least nodes_min or there is no world.
//   2. A survivor keeps its seat, and with it its ranks.
//   3. When the world shrinks, only nodes on seats at or above its new size move: they fill the
//      empty seats below, lowest first.
//   4. The other empty seats go to the other nodes: first those with the fewest troubles, then
//      those of the seat's former size, then by name. The first world uses rule 4 alone.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/model/ids.h"
#include "paceline/model/world.h"

namespace paceline::core {

struct Candidate {
  NodeId node;
  std::string name;
  uint32_t slots = 0;
  uint32_t troubles = 0;  // failures and departures
};

struct WorldBounds {
  uint32_t nodes_min = 1;
  uint32_t nodes_max = 1;
  uint32_t unit = 1;
};

// The largest allowed number of nodes out of `available`; 0 if there is none.
uint32_t WorldSize(const WorldBounds& bounds, size_t available);

// The nodes of the next world by seat; empty if there are too few candidates. `last` are the former
// world's seats, empty before the first one.
std::vector<Candidate> PlanSeats(const std::vector<Seat>& last, std::vector<Candidate> candidates,
                                 const WorldBounds& bounds);

// Numbers the ranks in the order of the seats.
std::vector<Seat> NumberSeats(const std::vector<Candidate>& nodes);

// node2 before node10: runs of digits compare as numbers.
bool NaturalLess(const std::string& a, const std::string& b);

}  // namespace paceline::core

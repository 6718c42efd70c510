#pragma once

// The count of a job's worlds, for people. Generations fence and may skip: a node that holds the
// whole job has 64 of them for worlds that it forms without the master, so generation 66 may follow
// generation 1. A user reads "world 2" then.

#include <cstdint>
#include <map>
#include <string>

#include "paceline/core/record.h"

namespace paceline::core {

class WorldCount {
 public:
  void Fold(const Record& record);
  // The world with this generation is number `count` of the job, from 1.
  void Add(Generation generation, uint64_t count) { formed_[generation] = count; }
  // Worlds that a node forms without the master count on from the one that the master formed. The
  // number in the generation if no such world is known.
  uint64_t Of(Generation generation) const;

 private:
  std::map<Generation, uint64_t> formed_;
};

// The sentence of the record, in which worlds have their count.
std::string Sentence(const Record& record, const WorldCount& worlds);

}  // namespace paceline::core

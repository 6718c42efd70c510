#pragma once

// Hand-made worlds that stand still: steps of 0.1 s, during training.

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "paceline/diagnose/facts.h"

namespace paceline::diagnose::testing {

inline CollectiveSeen Entered(std::string group, uint64_t sequence) {
  return {.group = std::move(group),
          .sequence = sequence,
          .operation = "all_reduce",
          .dtype = "float32",
          .bytes = 4096,
          .site = "train.py:44",
          .age = Duration::Seconds(3),
          .is_complete = false};
}

inline CollectiveSeen Left(std::string group, uint64_t sequence) {
  CollectiveSeen seen = Entered(std::move(group), sequence);
  seen.is_complete = true;
  return seen;
}

class SceneMaker {
 public:
  explicit SceneMaker(uint32_t ranks, uint32_t ranks_a_node = 8) {
    facts_.world_size = ranks;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      RankFacts one;
      one.node = "node" + std::to_string(rank / ranks_a_node);
      one.evidence.rank = Rank(rank);
      one.evidence.has_ring = true;
      one.evidence.phase = RankPhase::kForward;
      one.evidence.quiet_for = Duration::Seconds(3);
      one.evidence.step_p99 = Duration::Milliseconds(100);
      one.evidence.state = 'S';
      one.evidence.watched = Duration::Milliseconds(500);
      one.evidence.stack = {{"/usr/lib/python3.11/threading.py", 320, "wait"},
                            {"/home/u/train.py", 41, "forward"}};
      facts_.ranks.push_back(std::move(one));
    }
  }

  RankEvidence& operator[](uint32_t rank) { return facts_.ranks[rank].evidence; }
  void Add(uint32_t rank, CollectiveSeen seen) {
    (*this)[rank].collectives.push_back(std::move(seen));
  }
  void All(std::initializer_list<CollectiveSeen> seen) {
    for (RankFacts& rank : facts_.ranks) {
      rank.evidence.collectives.insert(rank.evidence.collectives.end(), seen);
    }
  }
  // All ranks but `absent` wait in call 188 of the world for this long.
  void Wait(std::initializer_list<uint32_t> absent, Duration age = Duration::Seconds(3)) {
    const std::string world = "0 0-" + std::to_string(facts_.world_size - 1);
    All({Left(world, 187)});
    for (uint32_t rank = 0; rank < facts_.world_size; ++rank) {
      (*this)[rank].quiet_for = age;
      if (std::find(absent.begin(), absent.end(), rank) != absent.end()) continue;
      CollectiveSeen seen = Entered(world, 188);
      seen.age = age;
      Add(rank, seen);
    }
  }
  void Forget(uint32_t rank) {
    facts_.ranks.erase(facts_.ranks.begin() + static_cast<std::ptrdiff_t>(rank));
  }
  const Facts& facts() const { return facts_; }

 private:
  Facts facts_;
};

}  // namespace paceline::diagnose::testing

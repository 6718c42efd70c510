#pragma once

// Training as arithmetic. The ranks of one generation form a group; a step needs all of them, so
// the group counts steps only while every rank is there, awake and reachable for its peers. Steps
// are computed from the time that passed and cost no events.
//
// What the script saved is shared by all: a new group starts at the newest saved step. A group that
// is fenced but alive (its nodes are cut off from the master only) goes on, as in reality.

#include <cstdint>
#include <map>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/ids.h"
#include "paceline/model/node.h"

namespace paceline::sim {

class SimWorld;

class Workload {
 public:
  explicit Workload(SimWorld& world) : world_(world) {}

  struct Member {
    uint32_t node = 0;
    int32_t pid = 0;
  };

  // The rank has imported its modules and meets its peers.
  void Join(Generation generation, uint32_t world_size, Rank rank, Member member);
  // The rank is dead. Unless it was done, its peers fail later, or hang.
  void Leave(Generation generation, Rank rank, int32_t pid, bool is_done);
  // Somebody was frozen, thawed, cut off or mended: which groups stand still?
  void Refresh();
  // From now on the script raises after this step, whenever it gets there.
  void PlantBug(int64_t step);
  int64_t bug_step() const { return bug_step_; }

  // Fills state and progress of a rank that has joined.
  void Fill(RankReport& report) const;
  bool IsStepping(Generation generation) const;
  int64_t StepOf(Generation generation) const;  // -1: none yet
  int64_t step_max() const;                     // by anybody, ever
  int64_t newest_saved() const;

 private:
  struct Group {
    uint32_t world_size = 0;
    std::map<Rank, Member> members;
    bool started = false;  // all ranks met once
    bool broken = false;   // one of them died
    bool moving = false;
    Instant since;         // when it began to move last
    int64_t base = 0;      // steps done at `since`
    int64_t first = 0;     // restored from this many steps
    uint64_t version = 0;  // of `since`; older wake-ups are stale
  };

  int64_t Done(const Group& group) const;
  int64_t Saved(const Group& group) const;
  bool CanMove(const Group& group) const;
  void Settle(Group& group);
  void Wake(Generation generation, Group& group);
  void Reach(Generation generation, uint64_t version);
  void FailPeers(Generation generation, Group& group);

  SimWorld& world_;
  std::map<Generation, Group> groups_;
  int64_t saved_ = 0;     // by groups that are gone
  int64_t step_max_ = 0;  // by groups that are gone
  int64_t bug_step_ = -1;
};

}  // namespace paceline::sim

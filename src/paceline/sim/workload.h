#pragma once

// Training as arithmetic. The ranks of one generation form a group; a step needs all of them, so
// the group counts steps only while every rank is there, awake and reachable for its peers. Steps
// are computed from the time that passed and cost no events.
//
// A script that saves by itself shares what it saved: a new group starts at the newest saved step.
// With a Checkpointer each rank restores before it comes here, and saves into the arena of its
// host; which images are there is computed whenever somebody looks. A group that is fenced but
// alive (its nodes are cut off from the master only) goes on, as in reality.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/evidence.h"
#include "paceline/model/ids.h"
#include "paceline/model/node.h"
#include "paceline/sim/checkpoint/rank_saves.h"

namespace paceline::sim {

class SimWorld;
class Node;
struct RankProcess;

class Workload {
 public:
  explicit Workload(SimWorld& world) : world_(world) {}

  struct Member {
    uint32_t node = 0;
    int32_t pid = 0;
    int64_t saved_to = 0;          // no step up to this one is saved any more
    int64_t writing = -1;          // the step whose image is being filled, …
    std::optional<uint32_t> slot;  // … where, when there was a slot, …
    Instant seal_at;               // … and when it is whole
  };

  // The rank has imported its modules and meets its peers.
  void Join(Generation generation, uint32_t world_size, Rank rank, Member member,
            const Restored& restored);
  // The rank is dead. Unless it was done, its peers fail later, or hang.
  void Leave(Generation generation, Rank rank, int32_t pid, bool is_done);
  // Somebody was frozen, thawed, cut off or mended: which groups stand still?
  void Refresh();
  // Brings the arenas up to now, for the ranks of one node or of all.
  void SyncSaves(const Node* only);
  // How far the process is that saves as that rank of the node; pid 0: none does.
  struct Saving {
    int32_t pid = 0;
    Generation generation;
    int64_t saved_to = 0;
  };
  Saving SavingOf(const Node& node, Rank rank) const;
  // What the script calls the save that it makes after so many steps in all.
  SavedStep NameOf(Generation generation, int64_t done) const;
  // After how many steps the first save from that one on is made, in that world.
  int64_t FirstFrom(Generation generation, SavedStep from) const;
  // The order in which saves were made, told by the steps that their states have in them and not by
  // their names.
  bool IsEarlier(SavedStep a, SavedStep b) const;
  // When the next image of a rank of that node will be whole.
  Instant NextSeal(const Node& node) const;
  // When a rank will be in the middle of its next save; never for one that does not step.
  Instant MiddleOfNextSave(const RankProcess& process) const;

  // From now on the script raises after this step, whenever it gets there.
  void PlantBug(int64_t step);
  int64_t bug_step() const { return bug_step_; }

  // Fills state and progress of a rank that has joined.
  void Fill(RankReport& report) const;
  // What the agent of that node finds out about its ranks of that world.
  std::vector<RankEvidence> Evidence(const Node& node, Generation generation) const;
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
    Instant still_since;   // all ranks have met, and yet it does not move; meaningful then
    Instant since;         // when it began to move last
    int64_t base = 0;      // steps done at `since`
    int64_t first = 0;     // restored from this many steps
    uint64_t version = 0;  // of `since`; older wake-ups are stale
    Restored restored;     // by its first member, and so by all
    uint64_t content = 0;  // tells this attempt's states from all others'
  };

  int64_t Done(const Group& group) const;
  void Meet(Generation generation, const Group& group, const Restored& restored);
  void Save(Generation generation, Group& group, Rank rank, Member& member);
  void SaveStep(Generation generation, const Group& group, Rank rank, Member& member, int64_t step);
  void Seal(Generation generation, const Group& group, Rank rank, Member& member);
  int64_t DoneBy(SavedStep saved) const;
  int64_t FirstSave(Generation generation) const;
  Instant SealTime(const Group& group, Rank rank, int64_t step) const;
  Duration SaveTime(Rank rank, int64_t step) const;
  int64_t NextSave(const Group& group, const Member& member) const;
  const Member* MemberOf(const RankProcess& process) const;
  Instant NextSeal(const RankProcess& process, Duration* save) const;
  void WatchSaves(const Group& group);
  int64_t Saved(const Group& group) const;
  bool CanMove(const Group& group) const;
  bool StandsStill(const Group& group) const {
    return group.started && !group.broken && !group.moving;
  }
  Duration StillFor(const Group& group) const;
  void WakeAgents(const Group& group);
  void Settle(Generation generation, Group& group);
  void Wake(Generation generation, Group& group);
  void Reach(Generation generation, uint64_t version);
  void FailPeers(Generation generation, Group& group);

  SimWorld& world_;
  std::map<Generation, Group> groups_;
  std::map<SavedStep, int64_t> done_of_;  // of every save that left an image
  int64_t saved_ = 0;                     // by groups that are gone
  int64_t step_max_ = 0;                  // by groups that are gone
  int64_t bug_step_ = -1;
};

}  // namespace paceline::sim

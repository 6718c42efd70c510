#pragma once

// Training as arithmetic. The ranks of one generation form a group. A step needs all of them, so
// steps count only while every rank is there, awake and reachable for its peers. Steps are computed
// from the elapsed time and cost no events.
//
// A script that saves by itself shares its saves: a new group starts at the newest saved step. With
// a Checkpointer each rank restores before it joins, and saves into its host's arena; the images in
// it are computed at each look. A group that is fenced but alive (its nodes are cut off from the
// master only) continues, as in reality.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/evidence.h"
#include "paceline/model/ids.h"
#include "paceline/model/node.h"
#include "paceline/model/phase_time.h"
#include "paceline/model/rank_sample.h"
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
    int64_t saved_to = 0;          // no step up to this one is saved again
    int64_t writing = -1;          // the step whose image is being written, …
    std::optional<uint32_t> slot;  // … its slot, if there was one, …
    Instant seal_at;               // … and when it is complete
    StepMeter meter;               // of its steps …
    int64_t metered_to = 0;        // … up to this one
    Instant joined_at;             // it waits for its peers from then on
  };

  // The rank has imported its modules and meets its peers.
  void Join(Generation generation, uint32_t world_size, Rank rank, Member member,
            const Restored& restored);
  // The rank is dead. Unless it was done, its peers fail later or hang.
  void Leave(Generation generation, Rank rank, int32_t pid, bool is_done);
  // A node was frozen, thawed, cut off or healed: find out which groups stand still.
  void Refresh();
  // Computes the arenas' present content, for the ranks of one node or of all.
  void SyncSaves(const Node* only);
  // The state of the process that saves as that rank on the node; pid 0: there is none.
  struct Saving {
    int32_t pid = 0;
    Generation generation;
    int64_t saved_to = 0;
  };
  Saving SavingOf(const Node& node, Rank rank) const;
  // The identity of the save that the script makes after `done` steps.
  SavedStep NameOf(Generation generation, int64_t done) const;
  // The number of steps after which that world makes its first save from `from` on.
  int64_t FirstFrom(Generation generation, SavedStep from) const;
  // Whether save `a` was made before `b`, judged by the steps done in their states and not by their
  // names.
  bool IsEarlier(SavedStep a, SavedStep b) const;
  // When the next image of a rank on that node will be complete.
  Instant NextSeal(const Node& node) const;
  // When the rank will be in the middle of its next save; Max if it does not step.
  Instant MiddleOfNextSave(const RankProcess& process) const;

  // From now on the script raises after this step, each time it reaches it.
  void PlantBug(int64_t step);

  // Fills in state and progress of a rank that has joined.
  void Fill(RankReport& report) const;
  // The evidence that the node's agent collects about its ranks of that world.
  std::vector<RankEvidence> Evidence(const Node& node, Generation generation) const;
  // Step times of the node's ranks, for the steps that are done.
  std::vector<RankSample> Samples(const Node& node, Generation generation);
  // How long the node's ranks spent in each phase.
  std::vector<RankTimes> Times(const Node& node, Generation generation) const;
  bool IsStepping(Generation generation) const;
  int64_t StepOf(Generation generation) const;  // -1: none yet
  int64_t step_max() const;                     // over all groups
  int64_t newest_saved() const;

  // A time in which a group stepped without a pause, and the steps that it had done at its begin.
  struct Stretch {
    Generation generation;
    Instant from;
    Instant until;
    int64_t done = 0;
  };
  // Until now, in the order of their ends.
  std::vector<Stretch> Stretches() const;

 private:
  struct Group {
    uint32_t world_size = 0;
    std::map<Rank, Member> members;
    bool started = false;  // all ranks met once
    bool broken = false;   // one of them died
    bool moving = false;
    Instant met_at;        // meaningful if `started`
    Duration stepped;      // the time in which it stepped, up to `since`
    Instant still_since;   // meaningful if all ranks have met but it does not step
    Instant since;         // when it last began to step
    int64_t base = 0;      // steps done at `since`
    int64_t first = 0;     // restored from this many steps
    uint64_t version = 0;  // of `since`; older wake-ups are stale
    Restored restored;     // by its first member; equal for all
    uint64_t content = 0;  // identifies this attempt's states
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
  // Rank 0 tells which plan the ranks carry out, if their devices hold the model.
  void TellPlan(Generation generation, const Group& group);
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
  std::map<SavedStep, int64_t> done_of_;  // by save: steps done, if it left an image
  int64_t saved_ = 0;                     // by groups that are gone
  int64_t step_max_ = 0;                  // by groups that are gone
  int64_t bug_step_ = -1;
  std::vector<Stretch> stretches_;  // over
};

}  // namespace paceline::sim

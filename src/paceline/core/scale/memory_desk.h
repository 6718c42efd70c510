#pragma once

// When the memory of a node will run out, by what its agent tells while the job trains.
//
// The desk keeps what the nodes of the world used, outside of the job: it is not in the journal,
// and a new master measures anew. brain/memory.h fits a line to it, on two scales: of the last
// minute, for a leak that kills soon, and of the last hours, for a slow one. Nothing is taken
// before each rank has made its first step, because a script that loads its data grows, too.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "paceline/brain/memory.h"
#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/model/node_memory.h"

namespace paceline::core {

class MemoryDesk {
 public:
  // The first steps make buffers that stay.
  static constexpr Duration kWarmUp = Duration::Seconds(5);
  static constexpr Duration kShortest = Duration::Milliseconds(900);  // of a window
  static constexpr Duration kRecent = Duration::Seconds(64);          // windows of the short scale
  static constexpr Duration kLongWindow = Duration::Seconds(60);      // of the long scale
  // Until two steps went to storage: the time from one to the next.
  static constexpr Duration kSaveUnknown = Duration::Seconds(30);
  static constexpr Duration kSaveMost = Duration::Seconds(600);
  static constexpr Duration kChange = Duration::Seconds(10);  // what a restart takes, at most
  // A limit that can be raised in place is raised for this many times the time of a save and a
  // change, as the next raise costs nothing either.
  static constexpr int kAhead = 4;

  struct Facts {
    Instant now;
    // How long the job still trains; none: not known. Asked only about growth, because the answer
    // looks at each rank of the job.
    std::function<std::optional<Duration>()> outlook = {};
  };

  // What a node's agent told. Returns what is to be done about it; none: nothing.
  std::optional<MemoryForeseen> Take(const JobState& state, const Facts& facts, NodeId id,
                                     const NodeMemory& memory);

 private:
  struct Node {
    MemoryBound bound = MemoryBound::kHost;
    std::deque<brain::MemoryWindow> recent;
    std::deque<brain::MemoryWindow> past;  // each the most of kLongWindow
  };
  void NoteSaves(const JobState& state);
  static void Add(Instant now, const NodeMemory& memory, Node* node);
  static bool IsRaisable(const JobState& state, const NodeMemory& memory);
  brain::MemoryQuestion QuestionOf(const JobState& state, const Facts& facts,
                                   const NodeMemory& memory) const;
  std::optional<MemoryForeseen> Judge(const JobState& state, const Facts& facts,
                                      const NodeState& node, const NodeMemory& memory) const;

  Generation generation_;
  std::map<NodeId, Node> nodes_;
  uint32_t commits_ = 0;
  Instant committed_at_;
  Duration between_saves_ = kSaveUnknown;
};

}  // namespace paceline::core

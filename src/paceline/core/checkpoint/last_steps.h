#pragma once

// A rank that closes waits until its last step is in storage. If another rank skipped that step and
// will not save any more, no suitable step can become complete. Waiting ranks are then told so,
// instead of waiting for ever. A part of the checkpoint ledger, and as pure.
//
// A step can still become complete while each rank of the world has it in memory or may save it. A
// rank saves no more when its process has ended. A rank that has closed its Checkpointer may open
// another one, so it counts as finished only after kReopen in which no rank saved, opened or
// closed. A rank that only waits for a step may save later ones. If every node has a waiting rank,
// and no rank has saved for kQuiet, all ranks count as finished.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "paceline/base/instant.h"
#include "paceline/core/checkpoint/restore.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/world.h"

namespace paceline::core {

// That rank's process in the present world has ended.
using HasEnded = std::function<bool(NodeId, Rank)>;
// The node is lost, and the world continues without it because its ranks had ended.
using IsGone = std::function<bool(NodeId)>;

// True if an order's problem says that no awaited step will ever be in storage.
bool SaysNever(const std::string& problem);

class LastSteps {
 public:
  static constexpr Duration kQuiet = Duration::Seconds(60);
  static constexpr Duration kReopen = Duration::Seconds(10);

  // Checks again; only while no step is being written. `has_ended` may be empty: no rank has ended.
  // A node of the world without a report is gone. True: why() has changed.
  bool Look(Instant now, const World& world, const Memories& memories, const HasEnded& has_ended,
            std::optional<SavedStep> stored);
  // Called for a new world. True: why() has changed.
  bool Reset();
  // Clears a deadline in the past, even if no check is possible now.
  void Pass(Instant now) {
    if (look_at_ <= now) look_at_ = Instant::Max();
  }
  // Why no awaited step will ever be in storage; empty: it still may.
  const std::string& why() const { return why_; }
  // The end of a rank is not reported, so while a rank waits this is checked again by time.
  Instant NextDeadline() const { return look_at_; }

 private:
  struct Progress {
    SavedStep newest;
    bool has_finished = false;
    bool operator==(const Progress&) const = default;
  };

  std::string why_;
  Instant look_at_ = Instant::Max();
  std::map<uint32_t, Progress> progress_;  // of the present world, by rank, …
  Instant since_;                          // … and since when
};

}  // namespace paceline::core

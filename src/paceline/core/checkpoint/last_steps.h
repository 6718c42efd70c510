#pragma once

// Whoever closes waits until its last step is in storage. When another rank has left that step out
// and saves no more, no step that would do can be whole again: whoever waits is told so, instead of
// waiting for ever. A part of the checkpoint ledger, and as pure.
//
//   A step can still be whole while each rank of the world has it in memory, or may save it yet. A
//   rank saves no more when its process has ended, and when it closes. A rank that only waits for a
//   step may save later ones. When every node has a rank that waits, and no rank has saved for
//   kQuiet, all ranks count as finished.

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

// The process of that rank of the present world has ended.
using HasEnded = std::function<bool(NodeId, Rank)>;
// The node is lost, and the world goes on without it because its ranks had ended before.
using IsGone = std::function<bool(NodeId)>;

// The problem of an order says that no awaited step will ever be in storage.
bool SaysNever(const std::string& problem);

class LastSteps {
 public:
  static constexpr Duration kQuiet = Duration::Seconds(60);

  // Looks again; nothing is on its way to storage. `has_ended` may be empty: nobody has. A node of
  // the world that has said nothing is gone. True: what it says has changed.
  bool Look(Instant now, const World& world, const Memories& memories, const HasEnded& has_ended,
            std::optional<SavedStep> stored);
  // Another world.
  bool Reset();
  // Its deadline is over, whether it can look now or not.
  void Pass(Instant now) {
    if (look_at_ <= now) look_at_ = Instant::Max();
  }
  // Why no awaited step will ever be in storage; empty: it may.
  const std::string& why() const { return why_; }
  // Ends of ranks are no reports: while somebody waits, it is looked at again.
  Instant NextDeadline() const { return look_at_; }

 private:
  using Saved = std::map<uint32_t, std::set<SavedStep>>;  // of the present world, by rank

  bool IsQuiet(Instant now, const World& world, const Memories& memories, const Saved& saved);

  std::string why_;
  Instant look_at_ = Instant::Max();
  std::map<uint32_t, SavedStep> newest_;  // by rank, …
  Instant since_;                         // … and since when
};

}  // namespace paceline::core

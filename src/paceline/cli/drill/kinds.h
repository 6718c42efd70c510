#pragma once

// The kinds of faults that `paceline drill` causes for real in a small job, with what must follow.

#include <span>
#include <string_view>

#include "paceline/base/instant.h"
#include "paceline/cli/console/error.h"

namespace paceline::cli {

// What causes the fault.
enum class Strike {
  kJob,         // the drill's own script: what breaks is a part of it
  kStep,        // a rank, in a step of any script
  kAgent,       // this command: SIGKILL to an agent
  kMaster,      // this command: SIGKILL to the master
  kNode,        // this command: SIGKILL to all processes of a node
  kSilentNode,  // this command: SIGSTOP to all processes of a node
};

// What the kind cannot be done without.
enum class Needs {
  kNothing,
  kKernelLog,  // a line in the kernel's log, which its watchers see: root, and the user's consent
};

struct DrillKind {
  std::string_view name;
  std::string_view what;  // a phrase: "SIGKILL to a rank"
  Strike strike = Strike::kStep;
  // The class of the failure as `paceline why` tells it. Of a hang it is the hang's class, of a
  // failure without a class how the rank ended, and otherwise the kind of the event.
  std::string_view found;
  std::string_view rung;       // "": paceline tells of it and decides nothing
  Duration deadline;           // until it is found, on a busy host
  std::string_view simulated;  // the fault of `paceline sim`; "": none
  Needs needs = Needs::kNothing;

  bool IsOfNodes() const { return strike == Strike::kNode || strike == Strike::kSilentNode; }
  bool IsByRank() const { return strike == Strike::kJob || strike == Strike::kStep; }
};

std::span<const DrillKind> DrillKinds();
const DrillKind* FindDrillKind(std::string_view name);
// PL-E165 for a word that is no kind.
Problem NoSuchKind(const std::string& asked);

}  // namespace paceline::cli

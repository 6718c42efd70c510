#pragma once

// Exit codes of every paceline command: one table, shown by `paceline --help` and docs/errors.md.

#include "paceline/core/checkpoint/storage_wait.h"
#include "paceline/core/finish.h"

namespace paceline::cli {

enum ExitCode : int {
  kExitDone = 0,
  kExitTrainingFailed = 1,                    // after the recovery ladder has no rung left
  kExitUsage = 2,                             // a flag, a setting, a missing script
  kExitUnreachable = core::kExitUnreachable,  // the control plane does not answer
  kExitNotAuthorised = core::kExitNotAuthorised,
  kExitFindings = 5,                      // done, and something was found (as by doctor)
  kExitStoppedSaved = 10,                 // stopped by the operator's notice, state saved
  kExitNotStored = core::kExitNotStored,  // all done, but the last saved step is in memory only
  kExitFenced = core::kExitFenced,        // this node has no place in the job any more
  kExitWaitTimedOut = 124,
  kExitInterrupted = 130,  // 128 + SIGINT
  kExitTerminated = 143,   // 128 + SIGTERM
};

}  // namespace paceline::cli

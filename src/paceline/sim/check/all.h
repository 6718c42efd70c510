#pragma once

// One declaration for each check. Each is defined in the file with its name and listed in
// checks.cc.

#include <memory>

#include "paceline/sim/check/check.h"

namespace paceline::sim {

std::unique_ptr<Check> MakeOneWorld();
std::unique_ptr<Check> MakeStaleNeverActs();
std::unique_ptr<Check> MakeJournalFolds();
std::unique_ptr<Check> MakeNoAckLost();
std::unique_ptr<Check> MakeEvidence();
std::unique_ptr<Check> MakeLadderEnds();
std::unique_ptr<Check> MakeRestoreNewest();
std::unique_ptr<Check> MakeNoLostCommit();
std::unique_ptr<Check> MakeDoneIsStored();
std::unique_ptr<Check> MakeStoredOnTime();
std::unique_ptr<Check> MakeOwnParameters();
std::unique_ptr<Check> MakeGraceKept();
std::unique_ptr<Check> MakeBounded();
std::unique_ptr<Check> MakeNoOrphans();
std::unique_ptr<Check> MakeSilenceNoticed();
std::unique_ptr<Check> MakeSizeKept();
std::unique_ptr<Check> MakeMemoryMet();
std::unique_ptr<Check> MakeSlowRight();
std::unique_ptr<Check> MakeNoFlapping();
std::unique_ptr<Check> MakeCheckedFirst();
std::unique_ptr<Check> MakeLinksRight();
std::unique_ptr<Check> MakeFits();
std::unique_ptr<Check> MakeSilenceWaitedFor();
std::unique_ptr<Check> MakeCulpritRight();
std::unique_ptr<Check> MakeNoTwoWorlds();
std::unique_ptr<Check> MakeNewestStepKept();
std::unique_ptr<Check> MakeLeavesInTime();
std::unique_ptr<Check> MakeLedgerRight();

}  // namespace paceline::sim

#pragma once

// One declaration for each fault. Each is defined in the file with its name (or its family's) and
// listed in faults.cc.

#include "paceline/base/prng.h"

namespace paceline::sim {

class SimWorld;

void CrashRank(SimWorld& world, Prng& prng);
void FreezeRank(SimWorld& world, Prng& prng);
void ScriptBug(SimWorld& world, Prng& prng);
void PortTaken(SimWorld& world, Prng& prng);
void StalledStart(SimWorld& world, Prng& prng);
void RefusedStart(SimWorld& world, Prng& prng);
void KillStarter(SimWorld& world, Prng& prng);
void KillAgent(SimWorld& world, Prng& prng);
void FreezeAgent(SimWorld& world, Prng& prng);
void LeaveNode(SimWorld& world, Prng& prng);
void SecondAgent(SimWorld& world, Prng& prng);
void KillNode(SimWorld& world, Prng& prng);
void BlinkingLink(SimWorld& world, Prng& prng);
void SignalsTwice(SimWorld& world, Prng& prng);
void LauncherDies(SimWorld& world, Prng& prng);
void Reboot(SimWorld& world, Prng& prng);
void RebootMasterHost(SimWorld& world, Prng& prng);
void FreezeNode(SimWorld& world, Prng& prng);
void FlappingNode(SimWorld& world, Prng& prng);
void SpareDies(SimWorld& world, Prng& prng);
void BadNode(SimWorld& world, Prng& prng);
void DeadPort(SimWorld& world, Prng& prng);
void LateJoiner(SimWorld& world, Prng& prng);
void SmallHost(SimWorld& world, Prng& prng);
void PartitionOneWay(SimWorld& world, Prng& prng);
void PartitionTwoWay(SimWorld& world, Prng& prng);
void PacketLoss(SimWorld& world, Prng& prng);
void Duplicates(SimWorld& world, Prng& prng);
void Reordering(SimWorld& world, Prng& prng);
void SlowLink(SimWorld& world, Prng& prng);
void CrashMaster(SimWorld& world, Prng& prng);
void CrashMasterAtRecord(SimWorld& world, Prng& prng);
void FreezeMaster(SimWorld& world, Prng& prng);
void ClockStep(SimWorld& world, Prng& prng);
void FullDisk(SimWorld& world, Prng& prng);
void StopRequest(SimWorld& world, Prng& prng);
void WriterDiesSaving(SimWorld& world, Prng& prng);
void FlippedImage(SimWorld& world, Prng& prng);
void GiverDies(SimWorld& world, Prng& prng);
void ZombieSave(SimWorld& world, Prng& prng);
void FullStorage(SimWorld& world, Prng& prng);
void StalledStorage(SimWorld& world, Prng& prng);
void StorageOutage(SimWorld& world, Prng& prng);
void TornShard(SimWorld& world, Prng& prng);
void LostShard(SimWorld& world, Prng& prng);
void MasterHostLost(SimWorld& world, Prng& prng);
void OldMasterReturns(SimWorld& world, Prng& prng);
void LostCopies(SimWorld& world, Prng& prng);
void TakeAway(SimWorld& world, Prng& prng);
void Resize(SimWorld& world, Prng& prng);
void Leak(SimWorld& world, Prng& prng);
void NeedMemory(SimWorld& world, Prng& prng);
void LastingSilence(SimWorld& world, Prng& prng);

}  // namespace paceline::sim

#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

void CrashRank(SimWorld& world, Prng& prng) {
  const RankProcess* process = PickProcess(world, prng);
  if (process == nullptr) return;
  ExitCause cause;
  switch (prng.Below(4)) {
    case 0:
      cause = Killed(SIGKILL);
      cause.cgroup_oom = prng.Chance(1, 2);
      break;
    case 1: cause = Killed(SIGSEGV); break;
    case 2:
      cause.kind = ExitCause::Kind::kExited;
      cause.code = static_cast<int>(prng.Between(2, 139));
      cause.fingerprint = "exit";
      cause.headline = "exit code " + std::to_string(cause.code);
      break;
    default:
      cause.kind = ExitCause::Kind::kExited;
      cause.code = 1;
      cause.fingerprint = "RuntimeError@train.py:" + std::to_string(prng.Between(10, 40));
      cause.headline = cause.fingerprint;
  }
  world.node(process->node).EndRank(process->pid, cause);
}

}  // namespace paceline::sim

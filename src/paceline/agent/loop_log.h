#pragma once

// The lines that an agent's loop writes about its ranks.

#include "paceline/agent/rank_table.h"
#include "paceline/agent/starter/starter_message.h"
#include "paceline/base/log.h"
#include "paceline/core/node/agent.h"
#include "paceline/model/world.h"

namespace paceline::agent {

inline void LogFound(const FoundRank& found) {
  LogInfo("rank_found", {{"local_rank", found.report.local_rank},
                         {"pid", found.report.pid},
                         {"generation", found.report.generation},
                         {"alive", found.is_alive}});
}

inline void LogAssignment(const Assignment& assignment) {
  LogInfo("assignment", {{"generation", assignment.generation},
                         {"first_rank", assignment.first_rank},
                         {"rank_count", assignment.rank_count},
                         {"why", assignment.reason}});
}

inline void LogStarter(const StarterHello& hello) {
  LogInfo("starter_ready", {{"pid", hello.pid},
                            {"warm", hello.is_warm},
                            {"why_cold", hello.why_cold},
                            {"imports_ms", hello.imports_ms}});
}

inline void LogSpawned(Rank rank, Generation generation, const StarterSpawned& spawned) {
  LogInfo("rank_spawned", {{"rank", rank},
                           {"generation", generation},
                           {"pid", spawned.pid},
                           {"how", spawned.how},
                           {"why_cold", spawned.why_cold},
                           {"took_us", spawned.took_us}});
}

inline void LogExited(const RankReport& rank) {
  LogInfo("rank_exited",
          {{"rank", rank.rank}, {"generation", rank.generation}, {"why", rank.exit.headline}});
}

}  // namespace paceline::agent

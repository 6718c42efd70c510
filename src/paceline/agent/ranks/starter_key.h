#pragma once

// Which starter may fork ranks for this environment: two agents share one exactly when their keys
// are equal. The key covers everything that a forked rank inherits and that a fresh interpreter
// would have taken from its surroundings. It does not cover the script's text: the starter imports
// packages, never the script, so an edited script still starts warm.

#include <string>
#include <vector>

#include "paceline/agent/ranks/rank_env.h"
#include "paceline/agent/ranks/starter_client.h"
#include "paceline/model/job_spec.h"

namespace paceline::agent {

// 32 hex digits. `base` as in rank_env.h.
std::string StarterKey(const LaunchSpec& launch, const Environment& base);

struct StarterHome {
  std::string runtime_dir;  // …/starters/<key>/ is made below it
  std::string log_path;
  std::string salt;  // not empty: a private starter of this node (a fresh image was asked for)
};

StarterPlace PlaceOfStarter(const LaunchSpec& launch, const Environment& base,
                            const StarterHome& home);

}  // namespace paceline::agent

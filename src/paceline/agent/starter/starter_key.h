#pragma once

// The key of a starter: two agents share a starter if their keys are equal. The key covers
// everything that a forked rank inherits and a fresh interpreter would take from its environment.
// It does not cover the script's text: the starter imports packages but not the script, so an
// edited script still starts warm.

#include <string>
#include <vector>

#include "paceline/agent/ranks/rank_env.h"
#include "paceline/agent/starter/starter_client.h"
#include "paceline/model/job_spec.h"

namespace paceline::agent {

// 32 hex digits. `base` as in rank_env.h.
std::string StarterKey(const LaunchSpec& launch, const Environment& base);

struct StarterHome {
  std::string runtime_dir;  // parent of …/starters/<key>/
  std::string log_path;
  std::string salt;  // not empty: a private starter of this node, for a fresh image
};

StarterPlace PlaceOfStarter(const LaunchSpec& launch, const Environment& base,
                            const StarterHome& home);

}  // namespace paceline::agent

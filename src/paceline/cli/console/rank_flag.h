// The flag of `paceline logs` that chooses a rank: "--rank 3", or "--task ps-1".
#pragma once

#include <string>

#include "paceline/model/task.h"

namespace paceline::cli {

inline std::string RankFlag(Rank rank) {
  return (IsTask(rank) ? "--task " : "--rank ") + RankName(rank);
}

}  // namespace paceline::cli

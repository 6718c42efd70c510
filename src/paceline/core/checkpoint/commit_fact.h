#pragma once

// The fact that a job records for a committed checkpoint.

#include <string>

#include "paceline/core/checkpoint/book.h"
#include "paceline/model/checkpoint.h"

namespace paceline::core {

// `order` was committed to that directory.
inline CheckpointCommitted FactOf(const PersistOrder& order, const CommitState& commit,
                                  const std::string& directory) {
  return {.name = order.name,
          .directory = directory,
          .saved = order.saved,
          .bytes = commit.bytes,
          .ranks_fixed = commit.has_own_parameters ? order.world_size : 0};
}

}  // namespace paceline::core

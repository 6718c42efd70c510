#pragma once

// Of the images that a node reports, which are in no arena.

#include "paceline/model/checkpoint.h"

namespace paceline::core {

// The node that reports has it on its disk: other hosts cannot fetch it. The name of its place says
// so, as agent/memory/local_tier.h has it.
inline bool IsOnDisk(const CheckpointReport& report, const MemoryImage& image) {
  return image.place == report.place + ".disk";
}

}  // namespace paceline::core
